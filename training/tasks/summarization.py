"""Short news items, to be summed up in a line."""

import random

from training.tasks.conversation import Conversation, single
from training.tasks.speech import CLOSING, OPENING, article, say
from training.tasks.words import FIRST_NAMES, TOWNS, words

# Events: the words of a report, the words of its summary, and possible things.
EVENTS = [
  (
    "[opened|has opened|started|launched] {thing}",
    "opened {thing}",
    "bakery cinema library garage bookshop cafe hotel museum school gallery",
  ),
  (
    "[won|took|came home with] the {thing} prize",
    "won the {thing} prize",
    "chess music cooking dancing painting swimming poetry running sailing",
  ),
  (
    "[found|discovered|came upon] {thing} [in the forest|under a bridge|"
    "in an old cellar|near the river]",
    "found {thing}",
    "ring statue map sword letter painting clock crown necklace violin",
  ),
  (
    "[gave|donated|handed over] {thing} to the [town|town hall]",
    "gave {thing} to the town",
    "piano garden bench fountain house boat organ bell tower bus",
  ),
  (
    "[built|has built|finished building] {thing}",
    "built {thing}",
    "bridge windmill playground lighthouse stable telescope raft robot kite",
  ),
  (
    "[rescued|saved|pulled out] {thing} [from the river|from a fire|"
    "from deep snow]",
    "rescued {thing}",
    "dog cat child horse sheep swan pony goat sailor climber",
  ),
]

DETAILS = [
  "[The weather was|It was a day that was|The morning was] "
  "[cold and wet|warm and dry|windy|cloudy|very hot|foggy].",
  "[About|More than|Nearly|Some] [twenty|fifty|a hundred|two hundred] "
  "[people|neighbours|visitors|guests] [came|were there|watched|turned up].",
  "[The mayor|A teacher|A neighbour|An old friend|A police officer] "
  "[said it was|spoke of|called it] [a great day|good news|a small wonder|"
  "the best news of the year|a proud moment].",
  "[Music was played|There was cake for all|Children sang songs|"
  "People danced|A band played] [until late|in the square|all afternoon|"
  "at the town hall].",
  "[The work|It|The plan] had taken [two weeks|three months|a whole year|"
  "many years|only a day].",
  "[A party|A meeting|A walk|A small concert] is planned for "
  "[next week|the summer|the end of the month|next year].",
  "[The family|A cousin|Her brother|His sister|The team] [helped|was proud|"
  "took many photos|could hardly believe it].",
  "[Local papers|The radio|Reporters|Students] [asked many questions|"
  "wrote about it|made a film about it].",
]


def conversation(rng: random.Random) -> Conversation:
  """A report to sum up in one line."""
  report, short, things = rng.choice(EVENTS)
  thing = rng.choice(things.split())
  name = f"{rng.choice(FIRST_NAMES)} {rng.choice(words('SURNAMES'))}"
  town, day = rng.choice(TOWNS), rng.choice(words("DAYS"))
  slots = {"name": name, "town": town, "day": day}
  slots["thing"] = thing if "prize" in report else article(thing)
  slots["event"] = say(rng, report, **slots)
  slots["short"] = short.format(**slots)
  slots["word"] = thing
  key = say(
    rng,
    "[On {day} {name} {event} in {town}.|"
    "In {town}, {name} {event} on {day}.|"
    "{name}, who lives in {town}, {event} on {day}.|"
    "{name} from {town} {event} this {day}.]",
    **slots,
  )
  details = rng.sample(DETAILS, rng.randint(2, 4))
  sentences = [say(rng, detail) for detail in details]
  sentences.insert(rng.choice([0, 0, 0, 1]), key)
  turn = say(
    rng,
    "[Summarize|Summarize|Sum up in one line|Give the gist|"
    "What is the main point]: {text}",
    text=" ".join(sentences),
  )
  lead = say(
    rng,
    OPENING
    + "[The <look> [text|report|story|news] [is about|tells <mood> of|speaks "
    "of]|This is [a <look> report|a <praise> story|<praise> news] [about|of]|"
    "We <mood> [read about|hear of]] "
    "[{name}|someone from {town}|a <look> {word}|a <praise> event in {town}|"
    "what happened on {day}]. "
    "[The rest|All else|Everything else|The <look> part] "
    "[is only|adds|means] <look> [detail|colour|background|small talk]"
    "[, [such as|like] the <look> [weather|guests|party|music|work]|, my <who> "
    "[says|thinks]|]." + CLOSING,
    **slots,
  )
  label = say(rng, "[Summary|In one line|In short|The gist]")
  gist = f"{name} from {town} {slots['short']} on {day}."
  return single("summarization", turn, lead, label, gist, gist)
