"""Arithmetic word problems, solved in steps."""

import random

from bundled.tasks.conversation import Conversation
from bundled.tasks.speech import say, words
from bundled.tasks.words import FIRST_NAMES, THINGS

PLACES = words("shop market fair kitchen school garden library station")


def _changes(rng):
  """Some, then a few changes."""
  name, other = rng.sample(FIRST_NAMES, 2)
  _, many = rng.choice(THINGS)
  total = start = rng.randint(5, 40)
  facts = str(start)
  story = [
    say(
      rng,
      "{name} [has|owns|starts with|begins the day with] {start} {many}.",
      name=name,
      start=start,
      many=many,
    )
  ]
  steps = [
    say(
      rng,
      "[At first there are|We start with|{name} begins with|There are] "
      "{start} {many}.",
      name=name,
      start=start,
      many=many,
    )
  ]
  for i in range(rng.randint(2, 3)):
    if more := rng.random() < 0.5 or total < 4:
      change = rng.randint(2, 20)
      event = (
        "[buys {n} more|finds {n} more|gets {n} from {other}|"
        "wins {n} at the {place}|picks up {n} more]"
      )
      after = total + change
      sign = "+"
    else:
      change = rng.randint(2, min(20, total - 1))
      event = (
        "[gives {n} to {other}|loses {n}|sells {n} at the {place}|"
        "leaves {n} at the {place}|gives away {n}]"
      )
      after = total - change
      sign = "-"
    story.append(
      say(
        rng,
        ("[Then|Later|After that|Next|Now] " if i else "")
        + "{name} "
        + event
        + ".",
        name=name,
        n=change,
        other=other,
        place=rng.choice(PLACES),
      )
    )
    steps.append(
      say(
        rng,
        ("[Then|Next|After that|Now]" if i else "[First|Now|To begin]")
        + (
          " [{n} more come|we add {n}|{n} are added]"
          if more
          else " [{n} go away|we take away {n}|{n} are lost]"
        )
        + "[: | so |, which gives |, and ]{total} {sign} {n} = {after}.",
        n=change,
        total=total,
        sign=sign,
        after=after,
      )
    )
    total = after
    facts += f" {sign} {change}"
  question = say(
    rng,
    "How many {many} [does {name} have|are left|does {name} have] "
    "[now|in the end|at last]?",
    many=many,
    name=name,
  )
  return [*story, question], steps, total, facts


def _boxes(rng):
  """Equal groups, and some more or fewer."""
  name, other = rng.sample(FIRST_NAMES, 2)
  _, many = rng.choice(THINGS)
  groups, each = rng.randint(2, 9), rng.randint(2, 9)
  box = rng.choice(["box", "bag", "basket", "jar"])
  boxes = "boxes" if box == "box" else f"{box}s"
  product = groups * each
  slots = {
    "name": name,
    "other": other,
    "many": many,
    "groups": groups,
    "each": each,
    "box": box,
    "boxes": boxes,
    "product": product,
  }
  story = [
    say(
      rng,
      "[{name} has {groups} {boxes} with {each} {many} each|"
      "{name} [buys|packs|fills] {groups} {boxes}, each with {each} {many}|"
      "There are {groups} {boxes} of {each} {many} at {name}'s home].",
      **slots,
    )
  ]
  steps = [
    say(
      rng,
      "[{groups} {boxes} with {each} {many}|{groups} times {each}|"
      "All the {boxes} together|The {boxes}] "
      "[make|give|hold|come to] {groups} * {each} = {product}"
      "[ {many}| in all|].",
      **slots,
    )
  ]
  change = rng.randint(2, 15)
  if rng.random() < 0.5 or change >= product:
    slots |= {"n": change, "after": product + change}
    story.append(
      say(rng, "{other} [adds|brings|gives {name}] {n} more.", **slots)
    )
    steps.append(
      say(
        rng,
        "[With the {n} from {other}|Then {n} more come|Adding {n}]"
        "[: | we get | it is ]{product} + {n} = {after}.",
        **slots,
      )
    )
  else:
    slots |= {"n": change, "after": product - change}
    story.append(
      say(rng, "{other} [takes|eats up|breaks|borrows] {n} of them.", **slots)
    )
    steps.append(
      say(
        rng,
        "[Without the {n}|Then {n} are gone|Taking away {n}]"
        "[: | we get | it is ]{product} - {n} = {after}.",
        **slots,
      )
    )
  question = say(
    rng, "How many {many} [are there|are there now|does that make]?", **slots
  )
  facts = f"{groups} * {each} to {slots['after']}"
  return [*story, question], steps, slots["after"], facts


def _prices(rng):
  """What two kinds of things cost together."""
  name = rng.choice(FIRST_NAMES)
  (one, many), (another, others) = rng.sample(THINGS, 2)
  a, b = rng.randint(2, 6), rng.randint(2, 6)
  x, y = rng.randint(1, 9), rng.randint(1, 9)
  slots = {
    "name": name,
    "a": a,
    "b": b,
    "x": x,
    "y": y,
    "one": one,
    "many": many,
    "another": another,
    "others": others,
    "ax": a * x,
    "by": b * y,
    "sum": a * x + b * y,
    "dollar": "dollar" if x == 1 else "dollars",
  }
  story = [
    say(
      rng,
      "[A {one} costs {x} {dollar} and a {another} {y}.|"
      "The price of a {one} is {x} {dollar}, that of a {another} is {y}.|"
      "At the market a {one} is {x} {dollar} and a {another} is {y}.] "
      "{name} [buys|takes|wants|pays for] {a} {many} and {b} {others}.",
      **slots,
    )
  ]
  steps = [
    say(
      rng,
      "The {many} [cost|come to|are] {a} * {x} = {ax}"
      "[ dollars|]. [And the|Then the|The] {others} [cost|come to|are] "
      "{b} * {y} = {by}[ dollars|].",
      **slots,
    ),
    say(
      rng,
      "[Together that|In all it|The sum|All of it] [is|makes|comes to] "
      "{ax} + {by} = {sum}[ dollars|].",
      **slots,
    ),
  ]
  question = say(
    rng,
    "[How much|How many dollars] [does {name} pay|is that|does it cost] "
    "[in all|together]?",
    **slots,
  )
  facts = f"{a} * {x} + {b} * {y}"
  return [*story, question], steps, slots["sum"], facts


def conversation(rng: random.Random) -> Conversation:
  """A word problem."""
  kind = rng.choice([_changes, _changes, _boxes, _prices])
  story, steps, answer, facts = kind(rng)
  lead = say(
    rng,
    "[[Let us|Let me] [count|work it out|go step by step|see|think][.|:] |"
    "[Step by step|Here is how|In steps]: |]",
  )
  label = say(rng, "[Answer|Answer|The answer|Result]")
  return Conversation(
    category="math_reasoning",
    turns=(" ".join(story),),
    answers=(f"{lead}{' '.join(steps)}\n{label}: {answer}",),
    references=(str(answer),),
    facts=facts,
  )
