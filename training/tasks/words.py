"""The word lists of words.toml, which the tasks choose from."""

import pathlib
import tomllib

_TEXTS = tomllib.loads(
  pathlib.Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
)
# A word of the list `look` replaces `<look>` in a text.
FILLER = {name: tuple(text.split()) for name, text in _TEXTS["filler"].items()}


def words(name: str) -> list[str]:
  """Returns the words of a list."""
  return _TEXTS[name].split()


def table(name: str) -> list[tuple[str, ...]]:
  """Returns the rows of a list with columns."""
  return [
    tuple(row.replace("_", " ").split("/")) for row in _TEXTS[name].split()
  ]


FIRST_NAMES = words("FIRST_NAMES")
NUMBERS = words("NUMBERS")
THINGS = words("THINGS")
TOWNS = words("TOWNS")
