"""Loads a checkpoint's tokenizer and end tokens."""

import json
import os
import pathlib
import tempfile

from tv_jax.edge import reading
from tv_jax.edge.reading import brief, shown
from tv_jax.models import gguf

# What a tokenizer is made of; transformers' own complaints do not name them.
FILES = (
  "tokenizer_config.json",
  "tokenizer.json",
  "special_tokens_map.json",
  "added_tokens.json",
)


def import_transformers():
  """Imports Hugging Face's transformers, without its advice to get PyTorch."""
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  import transformers

  return transformers


def load_tokenizer(path_or_repo, revision: str | None = None):
  """Loads a checkpoint's tokenizer; code that comes with one is never run."""
  if gguf.is_one(path_or_repo):
    return _unpacked(pathlib.Path(path_or_repo))
  for name in (*FILES, "config.json"):
    if path := _file(path_or_repo, name, revision):
      _refuse_code(path, reading.json_object(path))
  transformers = import_transformers()
  try:
    return transformers.AutoTokenizer.from_pretrained(
      path_or_repo, revision=revision or "main", trust_remote_code=False
    )
  except Exception as error:  # of a file of a wrong shape it can be any
    raise ValueError(
      f"no tokenizer could be loaded from {shown(path_or_repo)}: {_told(error)}"
    ) from None


def _unpacked(path: pathlib.Path):
  """Loads a GGUF file's tokenizer as that of a directory is loaded."""
  with tempfile.TemporaryDirectory() as folder:
    for name in FILES:
      if raw := gguf.json_object(path, name):
        pathlib.Path(folder, name).write_text(json.dumps(raw))
    if not os.listdir(folder):
      raise ValueError(f"{shown(path)} holds no tokenizer")
    found = load_tokenizer(folder)
  found.name_or_path = str(path)
  return found


def _refuse_code(path: pathlib.Path, raw: dict) -> None:
  """Refuses a tokenizer whose class is in a file of the checkpoint."""
  code = raw.get("auto_map")
  if code and (not isinstance(code, dict) or "AutoTokenizer" in code):
    raise ValueError(
      f"{path}: the tokenizer has code of its own (auto_map={brief(code)}),"
      " which is not run: give a checkpoint whose tokenizer is a tokenizer.json"
      " alone, or prompts as token ids"
    )


def end_tokens(
  path_or_repo,
  revision: str | None = None,
  default: tuple[int, ...] | None = None,
) -> tuple[int, ...]:
  """Returns the tokens that end an answer, all of them.

  Instruction-tuned models have several, and list them in
  generation_config.json alone; without that file, config.json's count. Where
  neither names any it is the default, or with None an error.
  """
  for name in ("generation_config.json", "config.json"):
    if gguf.is_one(path_or_repo):
      path, raw = path_or_repo, gguf.json_object(path_or_repo, name)
    elif path := _file(path_or_repo, name, revision):
      raw = reading.json_object(path)
    else:
      continue
    ends = (raw or {}).get("eos_token_id")
    if ends is None or ends == []:
      continue
    found = ends if isinstance(ends, list) else [ends]
    if not all(type(token) is int and token >= 0 for token in found):
      raise ValueError(
        f"{path}: eos_token_id={brief(ends)} must be a token id, or a list of"
        " them"
      )
    return tuple(found)
  if default is not None:
    return default
  raise ValueError(
    f"{path_or_repo} names no eos_token_id in generation_config.json or "
    "config.json: nothing would end an answer"
  )


def _file(path_or_repo, name: str, revision) -> pathlib.Path | None:
  """Returns a file of a checkpoint, if it is there."""
  if not isinstance(path_or_repo, str | os.PathLike):
    raise ValueError(f"{brief(path_or_repo)} is no path")
  if os.path.isdir(path_or_repo):
    # Whatever has the name: a broken link is no missing file.
    path = pathlib.Path(path_or_repo) / name
    return path if os.path.lexists(path) else None
  try:
    import_transformers()
    from transformers.utils.hub import cached_file

    path = cached_file(
      path_or_repo,
      name,
      revision=revision,
      _raise_exceptions_for_missing_entries=False,
    )
  except (OSError, ValueError) as error:
    raise ValueError(
      f"{name} of {shown(path_or_repo)} could not be had: {_told(error)}"
    ) from None
  return pathlib.Path(path) if path else None


def _told(error) -> str:
  """Returns an error as one line; where it says little, with its kind."""
  line = " ".join(str(error).split())[: 2 * reading.LONGEST]
  if isinstance(error, OSError | ValueError):
    return line
  return f"{type(error).__name__}: {shown(line)}"
