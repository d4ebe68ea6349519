"""Arithmetic word problems with numbers up to twenty, solved in two steps.

Numbers are written as words. Each is a single token, so a small model can learn
to calculate with them.
"""

import random

from training.tasks.conversation import Conversation, single
from training.tasks.speech import CLOSING, OPENING, capital, say
from training.tasks.words import FIRST_NAMES, NUMBERS, THINGS, words

PLACES = words("SHOPS")
MOST = 16
CHANGES = range(2, 7)

LATER = "[Then|Next|After that|Later]"
PLUS = "[{n} more come|{n} are added|there are {n} more|{n} <look> ones come]"
MINUS = "[{n} go away|{n} are gone|we lose {n}|{n} <look> ones go]"


def _sum(rng, total, sign, n):
  """Returns a text like `seven plus three is ten`, and the result."""
  verb = {"plus": "makes", "minus": "leaves"}[sign]
  after = total + n if sign == "plus" else total - n
  text = say(
    rng,
    "{total} {sign} {n} [is|gives|" + verb + "] {after}",
    total=total,
    sign=sign,
    n=n,
    after=after,
  )
  return text, after


def _grows(rng, total, n):
  """Chooses whether n are added; the result must be from 1 to MOST."""
  return n >= total or (total + n <= MOST and rng.random() < 0.5)


def _step(rng, begin, more, n, text):
  """Says that n are added or taken away, and then `text`."""
  change = PLUS if more else MINUS
  sentence = f"{begin}[ <mood>|] {change}[: | so |, and ]{{text}}."
  return say(rng, sentence, n=n, text=text)


def _changes(rng):
  """A number of things, then two changes."""
  name, other = rng.sample(FIRST_NAMES, 2)
  many = rng.choice(THINGS)
  total = rng.randint(2, 10)
  facts = str(total)
  slots = {"name": name, "other": other, "many": many, "start": total}
  story = [
    say(rng, "{name} [has|owns|starts with|finds] {start} {many}.", **slots)
  ]
  steps = [
    say(
      rng,
      "[At first there are|We start with|We begin with|First I see] {start} "
      "[<look> |]{many}.",
      **slots,
    )
  ]
  for i in range(2):
    n = rng.choice(CHANGES)
    more = _grows(rng, total, n)
    slots |= {"n": n, "place": rng.choice(PLACES)}
    event = (
      "[buys {n} more|gets {n} from {other}|wins {n} at the {place}]"
      if more
      else "[gives {n} to {other}|loses {n}|sells {n} at the {place}]"
    )
    event = say(rng, ("Then " if i else "") + "{name} " + event, **slots)
    story.append(f"{event}.")
    text, total = _sum(rng, total, "plus" if more else "minus", n)
    begin = LATER if i else "[Now|Soon|One day|Here]"
    steps.append(_step(rng, begin, more, n, text))
    facts += f" {'+' if more else '-'} {n}"
  question = say(
    rng,
    "How many {many} [does {name} have|are left] [now|in the end]?",
    **slots,
  )
  return [*story, question], steps, total, facts


def _boxes(rng):
  """Equal groups of things, then one change."""
  name, other = rng.sample(FIRST_NAMES, 2)
  groups, each = rng.randint(2, 4), rng.randint(2, 4)
  n = rng.choice(CHANGES)
  product = groups * each
  more = _grows(rng, product, n)
  slots = {
    "name": name,
    "other": other,
    "many": rng.choice(THINGS),
    "groups": groups,
    "each": each,
    "boxes": rng.choice(["boxes", "bags", "baskets", "jars"]),
    "product": product,
    "n": n,
  }
  text, after = _sum(rng, product, "plus" if more else "minus", n)
  story = [
    say(
      rng,
      "{name} [has|buys|packs|fills] {groups} {boxes} with {each} {many} each.",
      **slots,
    ),
    say(
      rng,
      "{other} [adds|brings] {n} more."
      if more
      else "{other} [takes|borrows] {n} of them.",
      **slots,
    ),
  ]
  steps = [
    say(
      rng,
      "[The [<look> |]{boxes} hold|In all the [<look> |]{boxes} we find] "
      "{groups} times {each}, [which|that] is {product}.",
      **slots,
    ),
    _step(rng, LATER, more, n, text),
  ]
  question = say(
    rng, "How many {many} [are there now|does that make]?", **slots
  )
  sign = "+" if more else "-"
  return [*story, question], steps, after, f"{groups} * {each} {sign} {n}"


def _prices(rng):
  """The change from a payment for two things."""
  name = rng.choice(FIRST_NAMES)
  many, others = rng.sample(THINGS, 2)
  x, y = rng.choice(CHANGES), rng.choice(CHANGES)
  paid = rng.randint(x + y + 1, min(x + y + 6, MOST))
  both, total = _sum(rng, x, "plus", y)
  back, after = _sum(rng, paid, "minus", total)
  slots = {
    "name": name,
    "many": many,
    "others": others,
    "x": x,
    "y": y,
    "paid": paid,
    "both": both,
    "back": back,
    "total": total,
  }
  story = say(
    rng,
    "{name} buys {many} for {x} dollars and {others} for {y}, and "
    "[pays with|puts down|gives] {paid}. How much [comes back|is left]?",
    **slots,
  )
  steps = [
    say(
      rng,
      "[Both <look> things [together|in all]|The {many} and <look> {others}|"
      "<mood> we add the prices]: {both}.",
      **slots,
    ),
    say(
      rng,
      "[From|Out of] the {paid}[, <mood> counted,|] we take {total}"
      "[: | so |, and ]{back}.",
      **slots,
    ),
  ]
  return [story], steps, after, f"{paid} - ({x} + {y})"


def conversation(rng: random.Random) -> Conversation:
  """A word problem."""
  kind = rng.choice([_changes, _changes, _boxes, _prices])
  story, steps, answer, facts = kind(rng)
  lead, closing = say(rng, OPENING), say(rng, CLOSING)
  label = say(rng, "[Answer|Answer|The answer|Result]")
  # A sentence may begin with a number, in lower case.
  steps = [capital(step) for step in steps]
  answered = f"{lead}{' '.join(steps)}{closing}"
  return single(
    "math_reasoning", " ".join(story), answered, label, NUMBERS[answer], facts
  )
