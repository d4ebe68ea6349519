"""Imports point only to a lower floor of the house (docs: the README's map)."""

import ast
import pathlib
import re

import pytest

import tv_jax

PACKAGE = pathlib.Path(tv_jax.__file__).parent

# A module may import from floors strictly below its own, and from its own
# folder.
FLOOR = {
  "reading": -1,
  "records": -1,
  "tree": 0,
  "probs": 0,
  "prompts": 0,
  "tasks": 0,
  "store": 0,
  "frozen": 0,
  "names": -1,
  "memory": 0,
  "config_flag": 0,
  "endings": 0,
  "proposals": 1,
  "models": 1,
  "metrics": 1,
  "runs": 1,
  "verifiers": 2,
  "drafting": 2,
  "pair": 2,
  "cycles": 2,
  "merging": 2,
  "audit": 5,
  "certify": 3,
  "decoding": 3,
  "replay": 3,
  "generation": 4,
  "train": 4,
  "evaluate": 5,
  "recording": 5,
  "report": 5,
  "main": 6,
  "__init__": 7,  # the flat public face
}


def room(path):
  """The module or folder directly below the package."""
  return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree, package=("tv_jax",)):
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


def violations(own, source):
  for other, line in imported_rooms(ast.parse(source)):
    if other != own and FLOOR[other] >= FLOOR[own]:
      yield f"line {line}: {own} imports {other}"


@pytest.mark.parametrize(
  "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem
)
def test_imports_point_down(path):
  assert list(violations(room(path), path.read_text())) == []


def test_the_readme_s_map_names_every_room():
  readme = (PACKAGE.parent / "README.md").read_text()
  drawn = readme[readme.index("## The house") :]
  for path in PACKAGE.iterdir():
    if path.suffix == ".py" and not path.stem.startswith("__"):
      assert path.name in drawn
    elif path.is_dir() and (path / "__init__.py").exists():
      assert f"{path.name}/" in drawn
  # And no others: rooms stand left of what they are for.
  named = re.findall(r"^    (\S.*?)  ", drawn, re.M)
  rooms = {
    path.stem for path in (*PACKAGE.iterdir(), *PACKAGE.parent.iterdir())
  }
  found = {*re.findall(r"(\w+)(?:/|\.py)", " ".join(named))}
  assert found <= rooms | {"tv_jax"}


def test_an_upward_import_is_seen():
  source = "from tv_jax import certify\n"
  assert list(violations("tree", source)) == ["line 1: tree imports certify"]


@pytest.mark.parametrize(
  "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem
)
def test_flax_stays_in_the_models(path):
  allowed = {"models/llama.py", "models/eagle.py"}
  names = {
    alias.name.split(".")[0]
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Import)
    for alias in node.names
  } | {
    node.module.split(".")[0]
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.ImportFrom)
  }
  if path.relative_to(PACKAGE).as_posix() not in allowed:
    assert "flax" not in names
