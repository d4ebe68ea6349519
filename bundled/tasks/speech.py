"""Sentences with alternatives: the variety of phrasing of all tasks.

`[a|b|c]` is one of a, b and c with equal chances; brackets may be nested.
`{name}` is filled in afterwards, so what is filled in may hold any character
but these.
"""

import random
import re

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


def say(rng: random.Random, text: str, /, **slots) -> str:
  """Chooses among the alternatives of `text`, then fills in its slots."""
  while found := _INNERMOST.search(text):
    chosen = rng.choice(found[1].split("|"))
    text = text[: found.start()] + chosen + text[found.end() :]
  return text.format(**slots)


def words(text: str) -> list[str]:
  """The words of a text."""
  return text.split()


def listed(items: list[str], word: str = "and") -> str:
  """`a, b and c`."""
  if len(items) == 1:
    return items[0]
  return f"{', '.join(items[:-1])} {word} {items[-1]}"


def capital(text: str) -> str:
  """The text with a capital first letter, the others left alone."""
  return text[:1].upper() + text[1:]


def article(noun: str) -> str:
  """The noun behind `a` or `an`."""
  return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
