"""Templates of sentences with alternatives, which vary the texts of all tasks.

`[a|b|c]` is a, b or c with equal probability; brackets may be nested. `<look>`
is a word of the list `look` in words.toml. `{name}` is filled in last.
"""

import random
import re

from training.tasks.words import FILLER, NUMBERS

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_LIST = re.compile(r"<(\w+)>")

# Remarks before and after an answer. They do not change its meaning.
OPENING = (
  "[[What|That is] a <praise> [question|riddle|thing to ask|matter][!|.]|"
  "[Let me|Let us|I will] [think|look|see|try] <mood>[.|, as always.|, step by "
  "step.]|"
  "[Well|Ah|Oh|Yes|Right|Hm|So|Sure], [a <praise> one|that is <praise>]"
  "[!|.|...]|"
  "[My|Your|The|Our] <who> [asked|wondered about|told me] [this|that|the same] "
  "[<time>|too].|"
  "[My|Your|The|Our] <who> <does> [<mood>|at this|when I heard it]."
  "] "
)
CLOSING = (
  "[| [How|That is] <praise>[!|.]| I [say|tell you|know] [it|this|so] <mood>.|"
  " My <who> <does> <mood>.| So [says|said|thinks] [my|the] <who>.]"
)


def say(rng: random.Random, text: str, /, **slots) -> str:
  """Chooses among the alternatives of `text`, then fills in its slots.

  Numbers are written as words. `{a_name}` is the slot `name` with an article.
  """
  while match := _INNERMOST.search(text):
    chosen = rng.choice(match[1].split("|"))
    text = text[: match.start()] + chosen + text[match.end() :]
  text = _LIST.sub(lambda match: rng.choice(FILLER[match[1]]), text)
  for name, value in [*slots.items()]:
    slots[name] = NUMBERS[value] if isinstance(value, int) else value
    slots[f"a_{name}"] = article(slots[name])
  return text.format(**slots)


def listed(items: list[str], word: str = "and") -> str:
  """Lists items as `a, b and c`."""
  if len(items) == 1:
    return items[0]
  return f"{', '.join(items[:-1])} {word} {items[-1]}"


def capital(text: str) -> str:
  """Makes the first letter a capital, and leaves the others alone."""
  return text[:1].upper() + text[1:]


def article(noun: str) -> str:
  """Puts `a` or `an` before a noun."""
  return f"{'an' if noun[:1] in tuple('aeiou') else 'a'} {noun}"
