"""Hashes of everything that a run reads, by name: a changed input is refused.

The config names files; the hashes are of their content. No name contains a
folder or a date, so a copy on another machine has the same hashes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Sequence

import jax

from tv_jax.io import names
from tv_jax.io.reading import path_of
from tv_jax.models import gguf, native, storage
from tv_jax.runs.questions import Question
from tv_jax.runs.settings import Run

# A larger file is sampled: its beginning, where a GGUF file has its tokenizer,
# and evenly spread pieces.
WHOLE = 64 << 20
_PIECES, _PIECE = 4096, 4096
# Patterns of the tokenizer's files. Both models use the target's tokenizer.
_TOKENIZER = (
  *("generation_config.json", "tokenizer*", "chat_template*"),
  *("special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt"),
)


def hashes(
  settings: Run, questions: Sequence[Question], finished: bool = False
) -> dict[str, str]:
  """Returns the hashes; the part of a name before a slash is its group.

  A finished run's models may be gone: then they are left out.
  """
  named, result = settings.named, {"questions": of_questions(questions)}
  for name, tree in named.trees.items():
    result[f"trees/{name}"] = _of_value(tree.parents)
  for group, things in (("rules", named.rules), ("proposals", named.proposals)):
    for name, thing in things.items():
      if digest := names.source_hash(thing, name):  # "" for a built-in
        result[f"{group}/{name}"] = digest
  # Native products sum in another order, which changes last digits of logits.
  if not finished and jax.default_backend() == "cpu":
    result[native.SWITCH] = str(int(native.used()))
  models = settings.models
  for name, place, revision in (
    ("target", models.target, models.revision),
    ("draft", models.draft, models.draft_revision),
  ):
    if place and (not finished or _is_here(place)):
      result |= of_model(name, path_of(place), revision or None)
  return result


def _is_here(place: str) -> bool:
  """Returns whether a model is a file or a directory that exists."""
  try:
    return storage.is_local(os.path.expanduser(path_of(place)))
  except ValueError:  # its package is not installed any more
    return False


def of_questions(questions: Sequence[Question]) -> str:
  """Returns the hash of the questions."""
  return _of_value([*map(dataclasses.asdict, questions)])


def of_model(name: str, place: str, revision: str | None) -> dict[str, str]:
  """Returns the hashes of a checkpoint's files, or a repository's commit.

  Args:
    name: The group. "target" has the tokenizer's files as well.
    place: The directory, file or hub repository.
    revision: The repository's revision.
  """
  folder = storage.resolve(place, revision)
  if gguf.is_file(folder):
    paths = [folder]
  elif storage.is_local(os.path.expanduser(place)):
    patterns = _TOKENIZER if name == "target" else ()
    paths = [folder / "config.json", *storage.weights(folder)]
    paths += [path for x in patterns for path in sorted(folder.glob(x))]
  else:
    return {name: folder.name}  # the commit
  return {f"{name}/{path.name}": of_file(path) for path in paths}


def of_file(path: pathlib.Path) -> str:
  """Returns the hash of a file, which is read again only if it has changed."""
  status = path.stat()
  return _of_file(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache
def _of_file(path: pathlib.Path, size: int, changed: int) -> str:
  del changed
  if path.suffix == ".json":  # layout makes no difference
    return _of_value(json.loads(path.read_text(encoding="utf-8-sig")))
  with path.open("rb") as file:
    if size <= WHOLE:
      return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    digest = hashlib.sha256(str(size).encode())
    digest.update(file.read(WHOLE))
    for piece in range(_PIECES):
      file.seek((size - _PIECE) * piece // (_PIECES - 1))
      digest.update(file.read(_PIECE))
  return digest.hexdigest()[:16]


def _of_value(value) -> str:
  data = json.dumps(value, sort_keys=True).encode()
  return hashlib.sha256(data).hexdigest()[:16]
