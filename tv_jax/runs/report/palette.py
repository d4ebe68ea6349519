"""The colours of the plots and the page, in light and in dark."""

from collections.abc import Iterable
from typing import NamedTuple


class Color(NamedTuple):
  """A colour as a CSS variable of this name, with its two values."""

  name: str
  light: str
  dark: str


INK = Color("ink", "#1c1e21", "#e6e3dc")
MUTED = Color("muted", "#5c6068", "#a3a5a9")
RULE = Color("rule", "#d9d6ce", "#3a3d42")

# Colour-blind readers can tell these apart; their lightness differs, too.
BLUE = Color("blue", "#0a64a4", "#74b9ee")
ORANGE = Color("orange", "#ad4d06", "#f09c5c")
GREEN = Color("green", "#12785a", "#58c29d")
PURPLE = Color("purple", "#8b4789", "#d59fd2")
GOLD = Color("gold", "#80690a", "#d6b94f")
SLATE = Color("slate", "#55606e", "#aab6c4")

ALL = (INK, MUTED, RULE, BLUE, ORANGE, GREEN, PURPLE, GOLD, SLATE)

# The verifiers that have a colour of their own, in the order of legends.
_OWN = {"token_level": ORANGE, "traversal": BLUE, "block": GREEN}
_FREE = (PURPLE, GOLD, SLATE)


def of_verifiers(names: Iterable[str]) -> dict[str, Color]:
  """Returns a colour for each verifier, in the order of legends."""
  there = set(names)
  others = sorted(there - set(_OWN))
  known = {name: color for name, color in _OWN.items() if name in there}
  return known | {name: _FREE[i % len(_FREE)] for i, name in enumerate(others)}


def variables() -> str:
  """Returns the colours as CSS variables, for both colour schemes."""

  def declared(values):
    lines = [f"  --{color.name}: {value};" for color, value in values]
    return ":root {\n" + "\n".join(lines) + "\n}"

  light = declared((color, color.light) for color in ALL)
  dark = declared((color, color.dark) for color in ALL)
  return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def follow_the_page(svg: str) -> str:
  """Replaces an SVG's colours by those of the page that it is put in."""
  for color in ALL:
    svg = svg.replace(color.light, f"var(--{color.name})")
  return svg
