"""A passage of facts about made-up places and people, and one question."""

import random

from training.tasks.conversation import Conversation, single
from training.tasks.speech import CLOSING, OPENING, capital, say
from training.tasks.words import FIRST_NAMES, NUMBERS, TOWNS, words

COLOURS, MONTHS = words("COLOURS"), words("MONTHS")
SURNAMES = words("SURNAMES")


def _person(rng):
  return f"{rng.choice(FIRST_NAMES)} {rng.choice(SURNAMES)}"


# For each fact: a function that draws its value, a sentence of the passage, a
# question, and a clause of the answer.
FACTS = {
  "director": (
    _person,
    "[Its director is|It is led by|The director is|It is run by] {value}.",
    "Who [is the director of|leads|runs|is in charge of] the {subject}?",
    "the <look> {subject} is <mood> [led|run] by {value}",
  ),
  "town": (
    lambda rng: rng.choice(TOWNS),
    "[It stands in|It is in|You can find it in|It lies near] {value}.",
    "[Where is|In which town is|Where do we find] the {subject}?",
    "the <look> {subject} is in {value}",
  ),
  "year": (
    lambda rng: str(rng.randrange(1800, 2020, 10)),
    "[It was built in|It dates from|It was founded in|It opened in] {value}.",
    "[When was the {subject} built|In which year did the {subject} open|"
    "How old is the {subject}, that is, from which year]?",
    "the <look> {subject} [dates from|goes back to|is from] {value}",
  ),
  "colour": (
    lambda rng: rng.choice(COLOURS),
    "[Its door is|Its walls are|Its roof is|It is painted] {value}.",
    "What colour [is|has] the {subject}?",
    "[its colour is|it is <mood> painted in|we see a <look>] {value}",
  ),
  "rooms": (
    lambda rng: rng.choice(NUMBERS[2:]),
    "[It has {value} rooms|There are {value} rooms in it|"
    "Visitors can see {value} rooms].",
    "How many rooms [does the {subject} have|are there in the {subject}]?",
    "there are {value} <look> rooms [in it|in all|in the {subject}]",
  ),
  "architect": (
    _person,
    "[It was designed by|The plans were drawn by|Its architect was] {value}.",
    "Who [designed|drew the plans for|was the architect of] the {subject}?",
    "the <look> plans were <mood> drawn by {value}",
  ),
  "month": (
    lambda rng: rng.choice(MONTHS),
    "[It is closed in|Each year it closes in|Nobody works there in] {value}.",
    "[When|In which month] is the {subject} closed?",
    "[it is|the <look> {subject} is] <mood> closed in {value}",
  ),
}


def conversation(rng: random.Random) -> Conversation:
  """A passage and a question about it."""
  subject = rng.choice(words("SUBJECTS"))
  names = rng.sample(list(FACTS), rng.randint(3, 5))
  values = {name: FACTS[name][0](rng) for name in names}
  sentences = [say(rng, FACTS[name][1], value=values[name]) for name in names]
  topic = rng.choice(names)
  value, question = values[topic], say(rng, FACTS[topic][2], subject=subject)
  opening = say(
    rng,
    "[This is about|The next lines describe|Here is what we know of|"
    "Let us look at] [the|a certain|an interesting] {subject}.",
    subject=subject,
  )
  passage = " ".join([opening, *sentences])
  turn = say(
    rng,
    "[{passage}\n[Question: |]{question}|"
    "[Read this|Use this passage|Passage]: {passage}\n[Question: |]{question}]",
    passage=passage,
    question=question,
  )
  lead = say(
    rng,
    "[[Looking <mood> at|Going <mood> by|From|In] the <look> [passage|text|"
    "lines above], |The [passage|text] <mood> [says|tells us|states] that |"
    "[We read|It says|One reads] [there|here|<mood>] that |"
    "[I look <mood> for|We need] the {topic}[: |; ]]",
    topic=topic,
  )
  lead += say(rng, FACTS[topic][3], subject=subject, value=value)
  lead += say(
    rng,
    "[.|. [That|This] [answers the <praise> question|is <praise>].|"
    ". [The rest|All else|The <look> part] is [not <praise>|<praise> too].]",
  )
  lead = say(rng, OPENING) + capital(lead) + say(rng, CLOSING)
  label = say(rng, "[Answer|Answer|The answer|So]")
  facts = f"{subject} {values} {topic}"
  return single("rag", turn, lead, label, value, facts)
