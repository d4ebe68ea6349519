"""Colours of the plots and the page, on white paper and in the dark."""

from collections.abc import Iterable
from typing import NamedTuple


class Color(NamedTuple):
  """A role, as a CSS variable of this name, and its two values."""

  name: str
  light: str
  dark: str

  @property
  def css(self) -> str:
    """The value that follows the page."""
    return f"var(--{self.name})"


INK = Color("ink", "#1c1e21", "#e6e3dc")
MUTED = Color("muted", "#5c6068", "#a3a5a9")
RULE = Color("rule", "#d9d6ce", "#3a3d42")

# Told apart with any eyes: blue and orange first, and light differs too.
BLUE = Color("blue", "#0a64a4", "#74b9ee")
ORANGE = Color("orange", "#ad4d06", "#f09c5c")
GREEN = Color("green", "#12785a", "#58c29d")
PURPLE = Color("purple", "#8b4789", "#d59fd2")
GOLD = Color("gold", "#80690a", "#d6b94f")
SLATE = Color("slate", "#55606e", "#aab6c4")

ALL = (INK, MUTED, RULE, BLUE, ORANGE, GREEN, PURPLE, GOLD, SLATE)

# The verifiers that have a colour of their own, in the order of legends.
_OWN = {
  "token_level": ORANGE,
  "traversal": BLUE,
  "block": GREEN,
}
_FREE = (PURPLE, GOLD, SLATE)


def of_verifiers(names: Iterable[str]) -> dict[str, Color]:
  """A colour for each verifier, in the order in which to show them."""
  names = set(names)
  others = sorted(names - set(_OWN))
  known = {name: color for name, color in _OWN.items() if name in names}
  return known | {name: _FREE[i % len(_FREE)] for i, name in enumerate(others)}


def variables() -> str:
  """The colours as CSS variables, for both colour schemes."""

  def declared(values):
    lines = [f"  --{color.name}: {value};" for color, value in values]
    return ":root {\n" + "\n".join(lines) + "\n}"

  light = declared((color, color.light) for color in ALL)
  dark = declared((color, color.dark) for color in ALL)
  return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def follow_the_page(svg: str) -> str:
  """An SVG drawn in the light colours, in those of the page it is put in."""
  for color in ALL:
    svg = svg.replace(color.light, color.css)
  return svg
