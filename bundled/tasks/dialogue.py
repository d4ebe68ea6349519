"""Two-turn dialogues: stories, characters, riddles of order, lists.

Categories are MT-Bench's: writing, roleplay, reasoning, extraction. In each
the second turn refers to the first.
"""

import random

from bundled.tasks import characters, stories
from bundled.tasks.conversation import Conversation
from bundled.tasks.speech import CLOSING, OPENING, capital, say
from bundled.tasks.words import FIRST_NAMES, NUMBERS, THINGS

SCALES = [
  ("taller", "tallest", "shortest"),
  ("older", "oldest", "youngest"),
  ("faster", "fastest", "slowest"),
  ("richer", "richest", "poorest"),
  ("stronger", "strongest", "weakest"),
]


def _reasoning(rng):
  """Three people in order: who is at one end, then who at the other."""
  order = rng.sample(FIRST_NAMES, 3)
  more, most, least = rng.choice(SCALES)
  a, b, c = order
  # Which end is asked for first.
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
  "writing": stories.story,
  "roleplay": characters.character,
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
