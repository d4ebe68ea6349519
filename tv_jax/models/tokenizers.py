"""Loads a checkpoint's tokenizer and end tokens."""

import os

from tv_jax.edge import reading
from tv_jax.edge.reading import brief
from tv_jax.models import gguf, storage


def import_transformers():
  """Imports Hugging Face's transformers, without its advice to get PyTorch."""
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  import transformers

  return transformers


def load_tokenizer(path_or_repo, revision: str | None = None):
  """Loads a checkpoint's tokenizer; code that comes with one is never run."""
  directory = storage.resolve(path_or_repo, revision)
  settings = directory / "tokenizer_config.json"
  if settings.exists() and reading.json_object(settings).get("auto_map"):
    raise ValueError(
      f"{settings}: the tokenizer has code of its own (auto_map), which is not"
      " run: give a checkpoint whose tokenizer is a tokenizer.json alone, or"
      " prompts as token ids"
    )
  transformers = import_transformers()
  try:
    if gguf.is_file(directory):
      tokenizer = gguf.read_tokenizer(directory)
    else:
      tokenizer = transformers.AutoTokenizer.from_pretrained(
        directory, trust_remote_code=False
      )
  except Exception as error:  # of a file of a wrong shape it can be any
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    raise ValueError(
      f"no tokenizer could be loaded from {path_or_repo} ({reason})"
    ) from None
  if tokenizer is None:
    raise ValueError(f"{path_or_repo} holds no tokenizer")
  return tokenizer


def end_tokens(path_or_repo, revision: str | None = None) -> tuple[int, ...]:
  """Returns the tokens that end an answer, all of them; some models name none.

  Instruction-tuned models have several, and list them in
  generation_config.json alone; without that file, config.json's count.
  """
  directory = storage.resolve(path_or_repo, revision)
  if gguf.is_file(directory):
    configs = {directory: gguf.read_config(directory)}
  else:
    names = ("generation_config.json", "config.json")
    paths = [directory / name for name in names if (directory / name).exists()]
    configs = {path: reading.json_object(path) for path in paths}
  for path, raw in configs.items():
    ends = raw.get("eos_token_id")
    if ends is None or ends == []:
      continue
    tokens = ends if isinstance(ends, list) else [ends]
    if not all(type(token) is int and token >= 0 for token in tokens):
      raise ValueError(
        f"{path}: eos_token_id={brief(ends)} must be a token id, or a list of"
        " them"
      )
    return tuple(tokens)
  return ()
