"""What a run reads, as named hashes: a change between two starts is refused.

Paths are in the config; here is what stood there. No name holds a place or a
date, so that a copy on another machine is the same.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Sequence

from tv_jax import proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.edge import names, reading
from tv_jax.edge.reading import place_of
from tv_jax.models import gguf, storage
from tv_jax.runs.questions import Question
from tv_jax.runs.settings import Run
from tv_jax.tree import Adaptive, Calibrated, Tree

# Larger files of weights are read in part: a piece at the beginning and one in
# the middle of each tensor.
WHOLE = 64 << 20
_PIECE = 4096
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

  Raises:
    ValueError: A model is not to be had; if the run is finished, it is left
      out instead.
  """
  found = {"questions": of_questions(questions)}
  for name in settings.trees:
    shape = _shape(tree_lib.parse(name), name)
    found[f"trees/{name}"] = _of_value([*shape, *_cooled(name)])
  rules = dict.fromkeys((*settings.verifiers, settings.baseline))
  for group, texts, resolve in (
    ("verifiers", rules, verifiers.resolve),
    ("proposals", settings.proposals, proposals.resolve),
  ):
    own = names.sources({text: resolve(text) for text in texts})
    found |= {f"{group}/{text}": value for text, value in own.items()}
  models = settings.models
  for name, place, revision in (
    ("target", models.target, models.revision),
    ("draft", models.draft, models.draft_revision),
  ):
    if not finished or _is_here(place):
      found |= of_model(name, place_of(place), revision or None)
  return found


def _is_here(place: str) -> bool:
  """Returns whether a model is here: no hub's, and not gone since."""
  try:
    path = pathlib.Path(place_of(place)).expanduser()
  except ValueError:
    return False
  return path.exists() and storage.is_local(path)


def of_questions(questions: Sequence[Question]) -> str:
  """Returns the hash of what is asked."""
  return _of_value([*map(dataclasses.asdict, questions)])


def _shape(tree: Tree | Adaptive, name: str) -> list:
  """Returns what a tree is, or what shapes it."""
  if isinstance(tree, Tree):
    return [*tree.parents]
  shape = [*tree.widths, tree.most]
  if isinstance(tree.policy, Calibrated):
    return [*shape, tree.policy.steps, tree.policy.chances]
  return [*shape, names.source_hash(tree.policy, name)]


def _cooled(name: str) -> list:
  """Returns the temperatures of a tree's file, where they differ."""
  draft, target = tree_lib.temperatures(name) or (1, 1)
  return [{"draft": draft, "target": target}] if draft != target else []


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
  found = {f"{name}/config.json": _of_text(directory / "config.json")}
  for path in sorted(directory.glob("*.safetensors")):
    found[f"{name}/{path.name}"] = _of_weights(path)
  # Of the draft there is no tokenizer: the target's serves both.
  for pattern in _TEXTS if name == "target" else ():
    for path in sorted(directory.glob(pattern)):
      found[f"{name}/{path.name}"] = _of_text(path)
  return found


def _of_value(value) -> str:
  text = json.dumps(value, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def _of_text(path) -> str:
  """Of a JSON file its value: how it is laid out is no difference."""
  if not path.is_file():
    return "nothing"
  data = reading.data(path, reading.LARGEST)
  if path.suffix == ".json":
    try:
      return _of_value(reading.loads(data.decode("utf-8-sig")))
    except ValueError:  # whoever loads it says so
      pass
  return hashlib.sha256(data).hexdigest()[:16]


def _of_weights(path) -> str:
  """Of a large file its size, its header, and pieces of every tensor."""
  with reading.regular(path).open("rb") as file:
    size = path.stat().st_size
    if size <= WHOLE:
      return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    start, places = 0, gguf.spans(path) if gguf.is_file(path) else None
    if places is None:
      start = 8 + int.from_bytes(file.read(8), "little")
      header = file.read(min(start - 8, WHOLE))
      places = _tensors(header)
    else:
      header = file.read(min([WHOLE, *(begin for begin, _ in places)]))
    digest = hashlib.sha256(f"{size} {len(header)} ".encode() + header)
    for begin, end in places:
      for at in (begin, (begin + end) // 2):
        file.seek(start + at)
        digest.update(file.read(min(_PIECE, end - at)))
  return digest.hexdigest()[:16]


def _tensors(header) -> list[tuple[int, int]]:
  """Returns where each tensor is; nothing for what is no header."""
  try:
    entries = reading.loads(header.decode())
    return [
      (int(entry["data_offsets"][0]), int(entry["data_offsets"][1]))
      for name, entry in sorted(entries.items())
      if name != "__metadata__"
    ]
  except (ValueError, KeyError, TypeError, AttributeError):
    return []
