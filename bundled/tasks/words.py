"""Lists of words that the tasks choose from, of words.toml."""

import pathlib
import tomllib

_TEXTS = tomllib.loads(
  pathlib.Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
)
# One word of such a list stands where a text says `<look>`.
FILLER = {name: tuple(text.split()) for name, text in _TEXTS["filler"].items()}


def words(name: str) -> list[str]:
  """Returns the words of a list."""
  return _TEXTS[name].split()


def table(name: str) -> list[tuple[str, ...]]:
  """Returns the rows of a list whose words have columns."""
  return [
    tuple(row.replace("_", " ").split("/")) for row in _TEXTS[name].split()
  ]


FIRST_NAMES = words("FIRST_NAMES")
NUMBERS = words("NUMBERS")
THINGS = words("THINGS")
TOWNS = words("TOWNS")
