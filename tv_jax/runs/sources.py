"""What a run reads, as named hashes: a change between two starts is refused.

Paths are in the config; here is what stood there. No name holds a place or a
date, so that a copy on another machine is the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Sequence

from tv_jax.edge import names
from tv_jax.edge.reading import place_of
from tv_jax.models import gguf, storage
from tv_jax.runs.questions import Question
from tv_jax.runs.settings import Run
from tv_jax.tree import Adaptive, Tree

# Of larger files of weights the beginning is read, where a GGUF file has its
# tokenizer, and so many pieces, evenly spread.
WHOLE = 64 << 20
_PIECES, _PIECE = 4096, 4096
# What tokens are made by, and what ends an answer.
_TEXTS = (
  "generation_config.json",
  "tokenizer*",
  "chat_template*",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.*",
  "merges.txt",
)


def hashes(
  settings: Run, questions: Sequence[Question], finished: bool = False
) -> dict[str, str]:
  """Returns what a run reads, by name; the part before a slash is a group.

  The models of a finished run may be gone: then they are left out.
  """
  named = settings.named
  result = {"questions": of_questions(questions)}
  for name, tree in named.trees.items():
    result[f"trees/{name}"] = _of_value(_shape(tree, name))
  for group in ("rules", "proposals"):
    for name, thing in sorted(getattr(named, group).items()):
      if digest := names.source_hash(thing, name):  # no built-in
        result[f"{group}/{name}"] = digest
  models = settings.models
  for name, place, revision in (
    ("target", models.target, models.revision),
    ("draft", models.draft, models.draft_revision),
  ):
    if not finished or _is_here(place):
      result |= of_model(name, place_of(place), revision or None)
  return result


def _is_here(place: str) -> bool:
  """Returns whether a model is here: no hub's, and not gone since."""
  try:
    path = pathlib.Path(place_of(place)).expanduser()
  except ValueError:  # of a package that is gone
    return False
  return path.exists() and storage.is_local(path)


def of_questions(questions: Sequence[Question]) -> str:
  """Returns the hash of what is asked."""
  return _of_value([*map(dataclasses.asdict, questions)])


def _shape(tree: Tree | Adaptive, name: str) -> list:
  """Returns what a tree is, or what shapes it."""
  if isinstance(tree, Tree):
    return [*tree.parents]
  return [*tree.widths, tree.most, names.source_hash(tree.policy, name)]


def of_model(name: str, place: str, revision: str | None) -> dict[str, str]:
  """Returns the hashes of a checkpoint's files, or a repository's commit.

  Args:
    name: The group; of "target" the tokenizer's files are among them.
    place: The directory, file or repository.
    revision: Of a repository.
  """
  directory = storage.resolve(place, revision)
  if gguf.is_file(directory):
    return {f"{name}/{directory.name}": _of_weights(directory)}
  if not pathlib.Path(place).expanduser().is_dir():
    return {name: directory.name}
  result = {f"{name}/config.json": _of_text(directory / "config.json")}
  for path in sorted(directory.glob("*.safetensors")):
    result[f"{name}/{path.name}"] = _of_weights(path)
  # Of the draft there is no tokenizer: the target's serves both.
  for pattern in _TEXTS if name == "target" else ():
    for path in sorted(directory.glob(pattern)):
      result[f"{name}/{path.name}"] = _of_text(path)
  return result


def _of_value(value) -> str:
  return _digest(json.dumps(value, sort_keys=True).encode())


def _of_text(path: pathlib.Path) -> str:
  """Of a JSON file its value: how it is laid out is no difference."""
  if path.suffix == ".json":
    return _of_value(json.loads(path.read_text(encoding="utf-8-sig")))
  return _digest(path.read_bytes())


def _of_weights(path: pathlib.Path) -> str:
  """Of a large file its size, its beginning, and pieces of it."""
  size = path.stat().st_size
  with path.open("rb") as file:
    if size <= WHOLE:
      return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    digest = hashlib.sha256(str(size).encode())
    digest.update(file.read(WHOLE))
    for piece in range(_PIECES):
      file.seek((size - _PIECE) * piece // (_PIECES - 1))
      digest.update(file.read(_PIECE))
  return digest.hexdigest()[:16]


def _digest(data: bytes) -> str:
  return hashlib.sha256(data).hexdigest()[:16]
