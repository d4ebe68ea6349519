"""How large the tree is that a text names, without jax.

`tv_jax.tree` makes the trees themselves, and stands on jax.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re

from tv_jax.engine.extents import Shape

from tv_jax.edge import reading
from tv_jax.edge.reading import brief

# A run refuses larger ones.
MOST_NODES = 4096
MOST_LEVELS = 256
EAGLE = Shape(nodes=26, inner=11, depth=5)
GROWN_CHILDREN = 4  # of a node of a grown tree, at most
_FORM = re.compile(
  r"(chain|kary|branching|adaptive|grown):(\d{1,4}([x,]\d{1,4})*)"
)


@functools.cache
def of(text: str) -> Shape:
  """The shape of a tree that `tv_jax.tree.parse` reads.

  A grown tree's is the least that one of so many nodes has.

  Raises:
    ValueError: Nothing is known of it here.
  """
  if text == "eagle":
    return EAGLE
  if text.startswith("adaptive:") and "@" in text:
    return _calibrated(*text.split("@", 1))
  if text.endswith(".json"):
    return _from_file(text)
  if not (match := _FORM.fullmatch(text)):
    raise ValueError(f"the size of the tree {brief(text)} is not known")
  form = match[1]
  numbers = [int(digits) for digits in re.split("[x,]", match[2])]
  if form == "grown":
    return _grown(numbers[0])
  width, depth = (1, *numbers)[-2:]
  widths = [width] * depth if form in ("chain", "kary") else numbers
  if len(widths) > MOST_LEVELS:
    raise ValueError(f"{text} is no tree of at most {MOST_LEVELS} levels")
  if form != "adaptive":
    widths = [*itertools.accumulate(widths, operator.mul)]
  return _levels(text, widths)


def _calibrated(text, path) -> Shape:
  """Of a tree whose policy is in a file: it changes no size, but limits it."""
  try:
    ranks = len(reading.json_object(reading.place_of(path))["chances"][0])
  except (KeyError, IndexError, TypeError):
    raise ValueError(f"{path} holds no table of chances") from None
  shape, above = of(text), 1
  for width in map(int, text.partition(":")[2].split(",")):
    if width > above * ranks:
      raise ValueError(
        f"{text}: {width} nodes below {above}, and {path} knows of {ranks}"
        " children at most"
      )
    above = width
  return shape


def is_chain(text: str) -> bool:
  """Whether no node has more than one child, if that is known."""
  try:
    shape = of(text)
  except ValueError:
    return True
  return shape.depth == shape.nodes - 1


def _levels(text, levels) -> Shape:
  nodes = 1 + sum(levels)
  if not 1 < nodes <= MOST_NODES:
    raise ValueError(f"{text} is no tree of at most {MOST_NODES} nodes")
  return Shape(nodes, nodes - levels[-1], len(levels))


def _grown(nodes) -> Shape:
  """Of a tree in which every node has all of its children."""
  levels, left = [], nodes - 1
  while left > 0:
    above = levels[-1] if levels else 1
    levels.append(min(left, above * GROWN_CHILDREN))
    left -= levels[-1]
  shape = _levels(f"grown:{nodes}", levels)
  return shape._replace(inner=-(-(nodes - 1) // GROWN_CHILDREN))


def _from_file(path) -> Shape:
  """Of a list of parents, of paths of ranks, or of what tv_jax.tune wrote."""
  content = reading.parse(reading.text(reading.place_of(path)), path)
  try:
    if isinstance(content, dict):
      content = content.get("parents")
    if not content:
      raise ValueError("it is empty")
    if all(type(entry) is int for entry in content):
      depths = [0]
      for parent in content[1:]:
        depths.append(depths[parent] + 1)
      return Shape(len(content), len({*content[1:]}), max(depths))
    if any(type(entry) is not list for entry in content):
      raise ValueError("it holds neither parents nor paths")
    paths = {tuple(entry) for entry in content} - {()}
    return Shape(
      1 + len(paths), len({p[:-1] for p in paths}), max(map(len, paths))
    )
  except (TypeError, IndexError, ValueError) as error:
    raise ValueError(f"{path} is no tree: {error}") from None
