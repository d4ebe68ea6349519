"""The house: what imports what, and the README's map of it."""

import ast
import graphlib
import importlib
import pathlib
import re

import pytest

import tv_jax

PACKAGE = pathlib.Path(tv_jax.__file__).parent

# What each room imports of the others: no more, and no less.
EDGES = {
  "reading": set(),
  "names": set(),
  "memory": set(),
  "extents": set(),
  "threefry": set(),
  "probs": {"reading", "threefry"},
  "tree": {"reading", "names", "probs"},
  "proposals": {"reading", "names", "probs", "threefry"},
  "verifiers": {"names", "tree", "probs", "proposals", "threefry"},
  "prompts": {"reading"},
  "models": {"reading", "memory"},
  "pair": {"reading", "prompts", "models", "drafting"},
  "drafting": {"tree", "proposals", "models", "threefry"},
  "decoding": {
    "names",
    "extents",
    "threefry",
    "tree",
    "probs",
    "proposals",
    "verifiers",
    "models",
    "drafting",
  },
  "records": set(),
  "store": {"reading", "records"},
  "metrics": {"records"},
  "generation": {
    "reading",
    "names",
    "memory",
    "extents",
    "tree",
    "probs",
    "proposals",
    "verifiers",
    "prompts",
    "models",
    "pair",
    "drafting",
    "decoding",
    "metrics",
  },
  "cli": {"reading", "names"},
  "certify": {
    "names",
    "tree",
    "probs",
    "proposals",
    "verifiers",
    "models",
    "drafting",
    "decoding",
    "store",
    "cli",
  },
  "audit": set(),
  "replay": {
    "reading",
    "names",
    "memory",
    "tree",
    "probs",
    "proposals",
    "verifiers",
    "pair",
    "drafting",
    "decoding",
    "metrics",
    "generation",
    "store",
    "cli",
  },
  "evaluate": {
    "reading",
    "names",
    "memory",
    "extents",
    "tree",
    "probs",
    "proposals",
    "verifiers",
    "prompts",
    "models",
    "pair",
    "drafting",
    "decoding",
    "metrics",
    "generation",
    "records",
    "store",
  },
  "report": {"tree", "verifiers", "metrics", "cli", "records", "store"},
  "tune": {
    "reading",
    "tree",
    "probs",
    "proposals",
    "verifiers",
    "prompts",
    "pair",
    "metrics",
    "generation",
    "replay",
    "store",
    "evaluate",
    "report",
    "cli",
  },
  "__main__": {"cli"},
  "main": {"cli", "store", "evaluate", "report"},
  "__init__": {"pair", "generation", "replay"},
}


def room(path, folder):
  """The module or folder directly below the package."""
  return path.relative_to(folder).parts[0].removesuffix(".py")


def imported_rooms(tree):
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f"line {node.lineno}: import by full name"
      names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
      continue
    for name in names:
      parts = name.split(".")
      if parts[0] == "tv_jax" and len(parts) > 1:
        yield parts[1], node.lineno


def imported_modules(tree):
  """The top-level names."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      yield from (alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield node.module.split(".")[0]


def imports(folder):
  """Rooms by what imports them: {(room, other): the first place}."""
  found = {}
  for path in sorted(folder.rglob("*.py")):
    for other, line in imported_rooms(ast.parse(path.read_text())):
      if other != (own := room(path, folder)):
        found.setdefault((own, other), f"{path.name}, line {line}")
  return found


def violations(found, edges):
  """Imports that are not declared, and edges that no import uses."""
  declared = {(own, other) for own in edges for other in edges[own]}
  for own, other in sorted({*found} - declared):
    yield f"{own} imports {other} ({found[own, other]})"
  for own, other in sorted(declared - {*found}):
    yield f"{own} does not import {other}"


def test_every_import_is_declared_and_every_edge_is_used():
  assert [*violations(imports(PACKAGE), EDGES)] == []


def test_no_room_needs_itself():
  graphlib.TopologicalSorter(EDGES).prepare()


@pytest.mark.parametrize(
  "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem
)
def test_nothing_in_the_package_needs_what_is_beside_it(path):
  beside = {"bundled", "benchmarks", "configs", "experiments", "tests"}
  assert beside.isdisjoint(imported_modules(ast.parse(path.read_text())))


def test_an_import_too_many_and_an_edge_too_many_are_seen(tmp_path):
  (tmp_path / "tree.py").write_text("from tv_jax import certify\n")
  edges = {"tree": {"names"}}
  assert [*violations(imports(tmp_path), edges)] == [
    "tree imports certify (tree.py, line 1)",
    "tree does not import names",
  ]


def drawn():
  """The rooms of the README's map, row by row."""
  readme = (PACKAGE.parent / "README.md").read_text()
  rows = readme[readme.index("## The house") :]
  # Rooms stand left of what they are for.
  rows = re.findall(r"^    (\S.*?)  ", rows, re.M)
  return [re.findall(r"(\w+)(?:/(?!\w)|\.py)", row) for row in rows]


def test_the_readme_s_map_names_every_room():
  inside = {
    path.stem
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
  }
  beside = {"bundled", "configs", "experiments", "launch", "benchmarks"}
  beside |= {"tests"}
  named = [room for row in drawn() for room in row]
  assert sorted(named) == sorted({*inside, *beside} - {"__init__"})
  assert inside == {*EDGES}


def test_the_readme_s_rows_import_from_rows_above():
  above = set()
  for row in drawn():
    above |= {*row}
    for own in row:
      assert EDGES.get(own, set()) <= above


@pytest.mark.parametrize(
  "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem
)
def test_flax_stays_in_the_models(path):
  names = imported_modules(ast.parse(path.read_text()))
  if path.relative_to(PACKAGE).parts[0] != "models":
    assert "flax" not in names


def test_nothing_has_the_name_of_the_module_that_it_shadows():
  """`certify.check` is a function or a module, never one behind the other."""
  shadowed = []
  for path in sorted(PACKAGE.rglob("*.py")):
    name = ".".join(
      ("tv_jax", *path.relative_to(PACKAGE).with_suffix("").parts)
    )
    if path.stem.startswith("__") or name in ("tv_jax.audit",):
      continue
    module = importlib.import_module(name)
    package = importlib.import_module(name.rpartition(".")[0])
    if getattr(package, path.stem) is not module:
      shadowed.append(name)
  assert not shadowed
