"""Trees by name."""

from __future__ import annotations

import json
import re

from tv_jax.io import checks, names, reading
from tv_jax.io.errors import UserError
from tv_jax.tree.shapes import (
  EAGLE_SPARSE,
  branching,
  chain,
  from_parents,
  from_paths,
  grown,
  kary,
)
from tv_jax.tree.static import NO_PARENT, Tree

# A tree file that comes with the package, as an example in messages.
EXAMPLE = "bundled/trees/draft-traversal.25.json"


def _numbers(text: str) -> tuple[int, ...]:
  return tuple(int(number) for number in text.split(","))


_FORMS = {
  r"eagle": lambda: EAGLE_SPARSE,
  r"chain:(\d+)": lambda depth: chain(int(depth)),
  r"kary:(\d+)x(\d+)": lambda width, depth: kary(int(width), int(depth)),
  r"branching:([\d,]*\d)": lambda widths: branching(_numbers(widths)),
  r"grown:(\d+)": lambda nodes: grown(int(nodes)),
  r"parents:([\d,]*\d)": lambda below: from_parents(
    [NO_PARENT, *_numbers(below)]
  ),
  r"(.*\.json)": lambda path: _from_json(reading.path_of(path)),
}
# The words before the colon in these forms are not module names.
_KINDS = {form.partition(":")[0] for form in _FORMS if ":" in form}


def resolve(tree: Tree | str) -> Tree:
  """Returns a tree as it is, and parses a text."""
  if isinstance(tree, Tree):
    return tree
  if isinstance(tree, str):
    return parse(tree)
  raise UserError(f'tree={tree!r}: give a Tree or a text like "chain:5"')


def parse(text: str) -> Tree:
  """Parses a tree's name.

  The forms are:

      chain:5             a path of 5 nodes
      kary:2x5            two children per node, to depth 5
      branching:4,2,2,1   4 children at the root, 2 at each of these, ..
      eagle               EAGLE-1's sparse tree: 25 nodes, depth 5
      grown:768           the best tree of 768 nodes, the root included, by
                          Sequoia's model of acceptance
      tree.json           a list of parents, or of paths of ranks, or a file
                          that tv_jax.tune wrote
      module:name         a Tree of your own
  """
  for form, build in _FORMS.items():
    if match := re.fullmatch(form, text):
      try:
        return build(*match.groups())
      except (ValueError, OSError) as error:
        raise UserError(f"tree {text!r}: {error}") from error
  kind = text.partition(":")[0]
  if names.is_foreign(text) and kind not in _KINDS:
    tree = names.load(text, "tree")
    if not isinstance(tree, Tree):
      raise UserError(f"tree {text!r} is {tree!r}: it should be a Tree")
    return tree
  raise UserError(
    f'tree {text!r}: write "chain:5", "kary:2x5", "eagle",'
    ' "branching:4,2,2,1", "grown:768", "parents:0,0,1" (of all nodes but the'
    " root), the name of a JSON file (a list of parents, or of paths of ranks,"
    f" or what tv_jax.tune wrote, as {EXAMPLE} is), or package.module:name of a"
    " Tree"
  )


def _from_json(path: str) -> Tree:
  """Reads a list of parents, a list of paths, or an object with "parents"."""
  content = json.loads(reading.text(path))
  parents = checks.list_of(checks.integer())
  if isinstance(content, dict):
    content = checks.fields({"parents": parents})(content)
    return from_parents(content["parents"])
  if isinstance(content, list) and content and isinstance(content[0], list):
    return from_paths(checks.list_of(parents)(content, "paths"))
  return from_parents(parents(content, "parents"))
