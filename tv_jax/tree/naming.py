"""Trees by name."""

from __future__ import annotations

import difflib
import pathlib
import re

from tv_jax import probs
from tv_jax.edge import checks, names, reading
from tv_jax.edge.reading import brief
from tv_jax.tree.adaptive import Adaptive, read_policy
from tv_jax.tree.shapes import (
  EAGLE_SPARSE,
  branching,
  chain,
  from_parents,
  from_paths,
  grown,
  kary,
)
from tv_jax.tree.static import Tree

# One of those that come with the package.
EXAMPLE = "bundled/trees/draft-traversal.25.json"
# Forms of `parse` with a colon: what stands before it is no module.
_FORMS = ("chain", "kary", "branching", "grown", "adaptive")
# Widths, and the file of a policy.
_SHAPED = re.compile(r"adaptive:(\d+(?:,\d+)*)@(.+)")


def resolve(tree: Tree | Adaptive | str) -> Tree | Adaptive:
  """Returns a tree, or what `parse` reads."""
  if isinstance(tree, Tree | Adaptive):
    return tree
  if isinstance(tree, str):
    return parse(tree)
  raise ValueError(f'tree={tree!r}: give a Tree or a text like "chain:5"')


def parse(text: str) -> Tree | Adaptive:
  """Reads the tree that a short text names; the error lists the forms."""
  try:
    if text == "eagle":
      return EAGLE_SPARSE
    if match := re.fullmatch(r"chain:(\d+)", text):
      return chain(int(match[1]))
    if match := re.fullmatch(r"kary:(\d+)x(\d+)", text):
      return kary(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"branching:(\d+(,\d+)*)", text):
      return branching([int(width) for width in match[1].split(",")])
    if match := re.fullmatch(r"grown:(\d+)", text):
      return grown(int(match[1]))
    if match := re.fullmatch(r"adaptive:(\d+(,\d+)*)", text):
      return Adaptive(tuple(int(width) for width in match[1].split(",")))
    if match := _SHAPED.fullmatch(text):
      widths = tuple(int(width) for width in match[1].split(","))
      policy = read_policy(reading.place_of(match[2]))
      temperatures(text)
      return Adaptive(widths, policy.most, policy)
    if text.endswith(".json"):
      return _from_json(_place(text))
  except ValueError as error:
    raise ValueError(f"tree {brief(text)}: {error}") from error
  if names.is_foreign(text) and text.partition(":")[0] not in _FORMS:
    return _imported(text)
  raise ValueError(
    f'tree {brief(text)}: write "chain:5", "kary:2x5", "eagle",'
    ' "branching:4,2,2,1", "grown:768", "adaptive:4,6,6,5,4" (and "@" before'
    " the file of a calibrated policy), the name of a JSON file (a list of"
    " parents, or of paths of ranks, or what tv_jax.tune wrote, as"
    f" {EXAMPLE} is), or package.module:name of a Tree"
  )


def temperatures(tree: Tree | Adaptive | str) -> tuple[float, float] | None:
  """Returns what temperatures, of draft and target, a tree was tuned at.

  Args:
    tree: As in `resolve`. A file may say it; anything else does not: None.
  """
  if not isinstance(tree, str):
    return None
  shaped = _SHAPED.fullmatch(tree)
  if not shaped and not tree.endswith(".json"):
    return None
  path = reading.place_of(shaped[2] if shaped else tree)
  return _temperatures(reading.parse(reading.text(path), str(path)))


def _temperatures(told) -> tuple[float, float] | None:
  """Reads them from a file's content."""
  if not isinstance(told, dict) or told.get("draft_temperature") is None:
    return None
  draft, target = (
    probs.check_temperature(name, told.get(name))
    for name in ("draft_temperature", "temperature")
  )
  if not draft:
    raise ValueError("draft_temperature=0: a draft has to draw")
  return draft, target


def _imported(text: str) -> Tree | Adaptive:
  """Imports the tree that a module holds."""
  found = names.load(text, "tree")
  if not isinstance(found, Tree | Adaptive):
    raise ValueError(f"tree {text!r} is {found!r}: it should be a Tree")
  return found


def _place(text: str) -> pathlib.Path:
  """Finds a file; where a bundled one is missing, names those most like it."""
  path = pathlib.Path(reading.place_of(text))
  if str(path) != text and not path.exists():
    there = sorted(one.name for one in (reading.BUNDLED / "trees").iterdir())
    near = difflib.get_close_matches(path.name, there)
    there = reading.listed([*near, *(x for x in there if x not in near)])
    raise ValueError(f"of bundled/trees/ there are {there}")
  return path


def _from_json(path: pathlib.Path) -> Tree:
  """Reads a file's parents, its paths, or its object with "parents"."""
  content = reading.parse(reading.text(path), str(path))
  parents = checks.list_of(checks.integer())
  if isinstance(content, dict):
    _temperatures(content)
    found = checks.read(checks.fields({"parents": parents}), content)
    return from_parents(found["parents"])
  if isinstance(content, list) and content and isinstance(content[0], list):
    return from_paths(checks.read(checks.list_of(parents), content, "paths"))
  return from_parents(checks.read(parents, content, "parents"))
