"""Two-turn dialogues: stories, characters, riddles of order, lists.

The categories are MT-Bench's: writing, roleplay, reasoning, extraction. The
second turn always refers to the first.
"""

import random

from training.tasks.conversation import Conversation
from training.tasks.speech import CLOSING, OPENING, capital, say
from training.tasks.words import (
  FIRST_NAMES,
  NUMBERS,
  THINGS,
  TOWNS,
  table,
  words,
)

HEROES, TRAITS = words("HEROES"), words("TRAITS")
TREASURES, SCENES = words("TREASURES"), words("SCENES")
# The work, tool and place of each job.
JOBS = {job: others for job, *others in table("JOBS")}


def _story(rng):
  """A short story, then another ending for it."""
  hero, friend = rng.sample(HEROES, 2)
  trait, thing = rng.choice(TRAITS), rng.choice(TREASURES)
  scene = rng.choice(SCENES)
  slots = {"hero": hero, "friend": friend, "trait": trait}
  slots |= {"thing": thing, "scene": scene}
  first = say(
    rng,
    "[Write|Tell me|Make up|I would like] a [very |]short story about "
    "{a_trait} {hero} who [finds|discovers|comes across] {a_thing} in a "
    "{scene}. [End|Finish|Close] with a title.",
    **slots,
  )
  story = say(
    rng,
    "[Once upon a time|Long ago|Many years ago|One day|In the old days], "
    "{a_trait} {hero} [lived|made a home|dwelt|<does>] [in|near|at the edge of]"
    " a <look> {scene}. "
    "[One <look> [morning|evening|night|day]|After a <look> storm|By chance], "
    "the {hero} <mood> [found|discovered|stumbled over|saw|picked up] "
    "{a_thing} [under a|in the|beside the|behind a] <look> [tree|stone|"
    "bridge|snow|mud|grass|road|river|path|house]. "
    "[It [shone|hummed|sparkled|whispered] [like a <look> [star|moon|fire]|"
    "<mood>|all night]|[Nobody|No one] knew [whose it was|where it came from]|"
    "It was <look> and <look>], "
    "[and|so] the {hero} [kept it|took it home|hid it|<does> <mood>]. "
    "[From then on|Since that day|In the end], [the {scene} was never "
    "<look> again|the {hero} was [no longer <look>|happy at last|"
    "known to all]|[all was <praise>|there was peace|every <who> <does>]].",
    **slots,
  )
  # In lower case, as in the question.
  title = f"The {trait} {hero} and the "
  second = say(
    rng,
    "[Now|Nice. Now|Thank you. Now|Good! Now] [change the ending|"
    "write another ending|let it end differently]: the {hero} gives the "
    "{thing} to {a_friend}.[ Give it a new title.| With a new title.|]",
    **slots,
  )
  ending = say(
    rng,
    "[Some days later|The next day|But then|That <look> winter], the {hero} "
    "<mood> [met|came upon|heard of] {a_friend} [who had lost a <look> [hat|"
    "house|boat|shoe]|who was <look>|on a <look> road|in need of help]. "
    "[Without a word|With a <look> smile|After some thought], the {hero} "
    "<mood> gave [away the {thing}|the {thing} to the {friend}|the {friend} "
    "the {thing}]. [The {friend} <does> [for joy|all night|<mood>]|"
    "They became [friends|the best of friends]|They [shared|had] a <look> "
    "[meal|song|fire]], [and|and so] [the {trait} {hero} <does>|they [lived|"
    "stayed] together [for years|ever after]|nobody forgot it].",
    **slots,
  )
  titles = (title + thing, title + friend)
  facts = f"{trait} {hero}, {thing}, {scene}, {friend}"
  return (first, second), (story, ending), titles, "Title", facts


def _character(rng):
  """Someone introduces himself, then is asked about his work."""
  job = rng.choice(list(JOBS))
  work, tool, place = JOBS[job]
  name, town = rng.choice(FIRST_NAMES), rng.choice(TOWNS)
  slots = {"job": job, "name": name, "town": town}
  slots |= {"work": work, "tool": tool, "place": place}
  first = say(
    rng,
    "[Pretend to be|Imagine you are|Play the part of|Speak as] {name}, "
    "{a_job} from {town}. [Introduce yourself|Say who you are|"
    "Tell me about yourself].",
    **slots,
  )
  intro = say(
    rng,
    "[Hello|Good morning|Welcome|Good day|Hi there][!|.] [[I am|My name is|"
    "People call me] {name}, and [I come from|my home is|I grew up in|"
    "I live in] <look> {town}|[I was born|I have lived all my <look> life] in "
    "{town}, and [my name is|they call me] {name}]. "
    "[[Every|Each] <look> day|All year|From morning to night|Most of the time] "
    "I {work} [for [my <look> neighbours|people|the whole <look> town]|<mood>|"
    "with [great|<look>] [care|joy|patience]|and my <who> [loves|enjoys] it]. "
    "[It is <praise> work[, but never <look>|]|I learned it from "
    "[my|a <look>] <who>|I have done so for [ten|twenty|many] years"
    "[, <mood>|, and my <who> <does>|]].",
    **slots,
  )
  key = rng.choice(["tool", "place"])
  second = say(
    rng,
    "[And|Tell me,|Interesting, but] [what do you work with|which tool do you "
    "need most|what do you use most]?"
    if key == "tool"
    else "[And|Tell me,|Interesting, but] [where do you work|in what place do "
    "you spend your days|where can I find you]?",
  )
  more = say(
    rng,
    OPENING
    + (
      "[To {work}, I <mood> [need|use] [[a|my] <look> {tool}|the {tool} most "
      "of all]|[Without|A {job} without] a <look> {tool} [nobody can|could "
      "not] {work}|My <look> {tool} is [as old as I am|my <praise> friend|"
      "always with me|a gift from my <who>]]."
      if key == "tool"
      else "[I <mood> {work} in the [<look> |]{place} [of {town}|near the "
      "<look> river|behind a <look> church|at the end of a <look> road]|"
      "[Come to|Look "
      "for me in|You will find me in] the <look> {place}[, any day|, but come "
      "<mood>|, even in winter|]]."
    )
    + CLOSING,
    **slots,
  )
  lines = (f"{name} the {job}", slots[key])
  facts = f"{name} the {job} from {town}, {key}"
  return (first, second), (intro, more), lines, None, facts


def _reasoning(rng):
  """Three people in order: who is at one end, then who at the other."""
  order = rng.sample(FIRST_NAMES, 3)
  more, most, least = rng.choice(table("SCALES"))
  a, b, c = order
  # Whether the first question is about `most`.
  down = rng.random() < 0.5
  ends = [(most, a), (least, c)] if down else [(least, c), (most, a)]
  slots = {"a": a, "b": b, "c": c, "more": more}
  first = say(
    rng,
    "{a} is {more} than {b}[. {b}|, and {b}|, who] is {more} than {c}. "
    "[Who is the|Which of them is the] {end}?",
    end=ends[0][0],
    **slots,
  )
  second = say(rng, "[And who|Then who|So who] is the {end}?", end=ends[1][0])
  answers = [
    say(rng, OPENING)
    + say(
      rng,
      "[{a} is {more} than {b}, and {b} than {c}|The <look> order is {a}, {b}, "
      "{c}|First comes {a}, then {b}, then {c}|Put them in a <look> row: {a}, "
      "{b}, {c}][ from the {end} on|]",
      end=most,
      **slots,
    )
    + say(rng, "[.|, <mood> said.|, as a <who> told me.]" + CLOSING)
    for _ in ends
  ]
  references = tuple(name for _, name in ends)
  facts = f"{more}: {order} {'down' if down else 'up'}"
  return (first, second), answers, references, "Answer", facts


def _extraction(rng):
  """Who brought what: a name, then a number."""
  names, things = rng.sample(FIRST_NAMES, 3), rng.sample(THINGS, 3)
  numbers = rng.sample(NUMBERS[2:13], 3)
  entries = [
    f"the {many} come from {name}, {number} of them"
    for name, many, number in zip(names, things, numbers, strict=True)
  ]
  i, j = rng.sample(range(3), 2)
  first = say(
    rng,
    "{entries}. [Who brought|Find out who brought|Tell me who brought] the "
    "{many}?",
    entries=capital("; ".join(entries)),
    many=things[i],
  )
  second = say(
    rng,
    "[And how many|How many|So how many] {many} are there?",
    many=things[j],
  )
  answers = [
    say(rng, OPENING)
    + say(
      rng,
      "[In the <look> list we read that|Here it says <mood> that|It is "
      "<praise> to know that|I see <mood> that|I found <mood> that] {entry}.",
      entry=entries[k],
    )
    + say(rng, CLOSING)
    for k in (i, j)
  ]
  facts = f"{names} {things} {numbers} {i} {j}"
  return (first, second), answers, (names[i], numbers[j]), "Answer", facts


KINDS = {
  "writing": _story,
  "roleplay": _character,
  "reasoning": _reasoning,
  "extraction": _extraction,
}


def conversation(rng: random.Random) -> Conversation:
  """A dialogue of any of the four kinds."""
  category = rng.choice(list(KINDS))
  turns, answers, references, label, facts = KINDS[category](rng)
  labels = (label, label) if label else ("Name", "Answer")
  return Conversation(
    category=category,
    turns=turns,
    answers=tuple(
      f"{capital(answer)}\n{name}: {reference}"
      for answer, name, reference in zip(
        answers, labels, references, strict=True
      )
    ),
    references=references,
    facts=facts,
  )
