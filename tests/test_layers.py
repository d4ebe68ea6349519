"""The house: what imports what, and CONTRIBUTING's map of it."""

import ast
import importlib
import pathlib
import re

import pytest

import tv_jax

PACKAGE = pathlib.Path(tv_jax.__file__).parent


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


def drawn():
  """The rooms of CONTRIBUTING's map, row by row."""
  text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
  rows = text[text.index("## The house") :]
  # Rooms stand left of what they are for.
  rows = re.findall(r"^    (\S.*?)  ", rows, re.M)
  return [re.findall(r"(\w+)(?:/(?!\w)|\.py)", row) for row in rows]


def violations(found, rows):
  """Imports of what stands in no row above."""
  above = {}
  for number, row in enumerate(rows):
    above |= dict.fromkeys(row, number)
  for own, other in sorted(found):
    if own != "__init__" and not above[other] < above[own]:
      yield f"{own} imports {other} ({found[own, other]})"


def test_rooms_import_from_rows_above(tmp_path):
  assert [*violations(imports(PACKAGE), drawn())] == []
  # One from below is seen.
  (tmp_path / "tree.py").write_text("from tv_jax import certify\n")
  rows = [["tree"], ["certify"]]
  assert [*violations(imports(tmp_path), rows)] == [
    "tree imports certify (tree.py, line 1)"
  ]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=str)
def test_nothing_in_the_package_needs_what_is_beside_it(path):
  """And nothing but the models needs flax."""
  beside = {"bundled", "benchmarks", "configs", "experiments", "tests"}
  if path.relative_to(PACKAGE).parts[0] != "models":
    beside.add("flax")
  assert beside.isdisjoint(imported_modules(ast.parse(path.read_text())))


def test_the_map_names_every_room():
  inside = {
    path.stem
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
  }
  beside = {"bundled", "configs", "experiments", "launch", "benchmarks"}
  named = [room for row in drawn() for room in row]
  assert sorted(named) == sorted({*inside, *beside, "tests"} - {"__init__"})


def test_nothing_has_the_name_of_the_module_that_it_shadows():
  """`certify.check` is a function or a module, never one behind the other."""
  shadowed = []
  for path in sorted(PACKAGE.rglob("*.py")):
    name = ".".join(
      ("tv_jax", *path.relative_to(PACKAGE).with_suffix("").parts)
    )
    if path.stem.startswith("__") or name in ("tv_jax.audit", "tv_jax.report"):
      continue
    module = importlib.import_module(name)
    package = importlib.import_module(name.rpartition(".")[0])
    if getattr(package, path.stem) is not module:
      shadowed.append(name)
  assert not shadowed
