"""The house: what imports what, and CONTRIBUTING's map of it."""

import ast
import pathlib
import re

import tv_jax
from tests import conftest

PACKAGE = pathlib.Path(tv_jax.__file__).parent
BESIDE = ("training", "configs", "experiments", "launch", "benchmarks", "tests")
BESIDE += ("examples",)


def imported(path):
  """(line, dotted name) of all that a file imports."""
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f"{path}: import by full name"
      for alias in node.names:
        yield node.lineno, f"{node.module}.{alias.name}"


def drawn():
  """The rooms of CONTRIBUTING's map, row by row."""
  text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
  rows = text[text.index("## The house") :]
  # Each row: a room, then the purpose of the room.
  rows = re.findall(r"^    (\S.*?)  ", rows, re.M)
  return [re.findall(r"(\w+)(?:/(?!\w)|\.py)", row) for row in rows]


def test_rooms_import_from_rows_above():
  rows = drawn()
  row_of = {room: number for number, row in enumerate(rows) for room in row}
  wrong = []
  for path in sorted(PACKAGE.rglob("*.py")):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for line, name in imported(path):
      first, *rest = name.split(".")
      if own == "__init__" or (first == "tv_jax" and rest[0] == own):
        continue
      above = first != "tv_jax" or row_of[rest[0]] < row_of[own]
      # Only models imports flax; no room imports a folder beside the package.
      if not above or first in BESIDE or (first == "flax") > (own == "models"):
        wrong.append(f"{path}, line {line}: {name}")
  assert not wrong
  inside = {
    path.stem
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
  }
  named = sorted(room for row in rows for room in row)
  assert named == sorted({*inside, *BESIDE} - {"__init__"})


def test_tests_lie_as_the_code_does_and_share_helpers_alone():
  tests = PACKAGE.parent / "tests"
  folders = {
    path.parent.relative_to(tests) for path in tests.rglob("test_*.py")
  }
  for folder in folders:
    assert (PACKAGE / folder).is_dir() or (PACKAGE.parent / folder).is_dir()
  for path in tests.rglob("*.py"):
    for line, name in imported(path):
      assert not name.startswith("tests.") or "test_" not in name, (path, line)
  for name in conftest.LONGEST:
    assert (tests / f"{name}.py").is_file(), name
