"""Two-turn dialogues: stories, characters, riddles of order, lists.

Categories are MT-Bench's: writing, roleplay, reasoning, extraction. In each
the second turn refers to the first.
"""

import random

from bundled.tasks import characters, stories
from bundled.tasks.conversation import Conversation
from bundled.tasks.speech import capital, listed, say
from bundled.tasks.words import FIRST_NAMES, THINGS

SCALES = [
  ("taller", "tallest", "shortest"),
  ("older", "oldest", "youngest"),
  ("faster", "fastest", "slowest"),
  ("richer", "richest", "poorest"),
  ("stronger", "strongest", "weakest"),
]


def _reasoning(rng):
  """Three people in order: who comes first, then who comes last."""
  order = rng.sample(FIRST_NAMES, 3)
  more, most, least = rng.choice(SCALES)
  a, b, c = order
  slots = {"a": a, "b": b, "c": c, "more": more, "most": most, "least": least}
  facts = [
    say(rng, "{a} is {more} than {b}.", **slots),
    say(rng, "{b} is {more} than {c}.", **slots),
  ]
  rng.shuffle(facts)
  first = " ".join(facts) + say(
    rng, " [Who is the {most}?|Which of them is the {most}?]", **slots
  )
  one = say(
    rng,
    "[Let us [see|think]: |[Step by step|In order], |So, |Well, |]"
    "[{a} is [ahead of|above|before] {b}, and {b} [is ahead of|is above|"
    "comes before] {c}|{b} is {more} than {c}, but {a} is {more} [still|than "
    "{b}]|nobody is {more} than {a}, [not {b}, not {c}|neither {b} nor {c}]|"
    "the order is {a}, {b}, {c}][.|, [clearly|as we see|of course].]",
    **slots,
  )
  second = say(
    rng, "[And who|Who then|So who|Then who] is the {least}?", **slots
  )
  two = say(
    rng,
    "[At the other end [is|we find|stands] {c}|{c} is [behind|below|after] "
    "[{b}|both|the others]|[Both|The others], {a} and {b}, are {more} than "
    "{c}|[Turning it around|From the other side], the order is {c}, {b}, "
    "{a}][.|, [clearly|as we saw|of course].]",
    **slots,
  )
  answers = (capital(one), capital(two))
  return (first, second), answers, (a, c), "Answer", f"{more}: {order}"


def _extraction(rng):
  """Who has what in a list: a name, then a number."""
  count = rng.randint(3, 4)
  names, things = rng.sample(FIRST_NAMES, count), rng.sample(THINGS, count)
  numbers = [rng.randint(2, 20) for _ in names]
  entries = [
    say(
      rng, "{name} [has|brought] {number} {many}", name=n, number=k, many=t[1]
    )
    for n, k, t in zip(names, numbers, things, strict=True)
  ]
  i, j = rng.sample(range(count), 2)
  first = say(
    rng,
    "{entries}. [Who has|Find out who has|Tell me who has|Who brought] the "
    "{many}?",
    entries=listed(entries),
    many=things[i][1],
  )
  slots = {
    "name": names[i],
    "many": things[i][1],
    "number": numbers[i],
    "other": names[j],
    "others": things[j][1],
    "count": numbers[j],
  }
  one = say(
    rng,
    "[In the list|There|Here|In this text], the {many} [belong to|are with|"
    "were brought by|go with] {name}[, who has {number} of them|"
    "; {other} has {others}|, {number} of them|].",
    **slots,
  )
  second = say(
    rng,
    "[And how many|How many|So how many] {others} does {other} have?",
    **slots,
  )
  two = say(
    rng,
    "[It says|The list says|We read|I see] [there |]that {other} "
    "[has|holds|owns|comes with] {count} {others}[, while {name} has {number} "
    "{many}|, not {many}|].",
    **slots,
  )
  references = (names[i], str(numbers[j]))
  facts = f"{names} {things} {numbers} {i} {j}"
  return (first, second), (one, two), references, "Answer", facts


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
      f"{answer}\n{name}: {reference}"
      for answer, name, reference in zip(
        answers, labels, references, strict=True
      )
    ),
    references=references,
    facts=facts,
  )
