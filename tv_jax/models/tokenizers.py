"""Loads a checkpoint's tokenizer and end tokens; compares two tokenizers."""

import logging
import os
import re

from tv_jax.edge import reading
from tv_jax.edge.reading import brief, name_of
from tv_jax.models import gguf, storage

# Without any of these a checkpoint has no tokenizer.
_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")

# What stands for nothing yet, which one of two models may have made use of.
_SPARE = re.compile("reserved|unused|extra|placeholder|dummy", re.IGNORECASE)


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


def check_tokens(draft, target) -> None:
  """Refuses a draft to which a token is another text than to its target.

  Tokens that only one of them has say nothing: special ones that were added,
  or places that fill a vocabulary up. A draft without a tokenizer is believed.

  Args:
    draft: The path or repository of a checkpoint, and its revision.
    target: Likewise.

  Raises:
    ValueError: In one line, the first token that differs.
  """
  if (of_draft := _texts(*draft)) is None:
    return
  if (of_target := _texts(*target)) is None:
    return
  (ours, added), (theirs, others) = of_draft, of_target

  def is_free(text, texts):
    return text not in texts.values() or _SPARE.search(text)

  for token in sorted(ours.keys() & theirs.keys()):
    text, other = ours[token], theirs[token]
    special = token in added and token in others
    if text == other or (
      special and is_free(text, theirs) and is_free(other, ours)
    ):
      continue
    names = [name_of(path) for path, _ in (draft, target)]
    raise ValueError(
      f"token {token} is {brief(text)} to the draft {names[0]}, and"
      f" {brief(other)} to the target {names[1]}: choose a draft that shares"
      " its tokenizer"
    )


def _texts(path, revision) -> tuple[dict[int, str], set[int]] | None:
  """Returns each token's text, and which are added to the vocabulary."""
  directory = storage.resolve(path, revision)
  if not gguf.is_file(directory) and not any(
    (directory / name).exists() for name in _FILES
  ):
    return None
  try:
    tokenizer = load_tokenizer(directory)
  except ValueError as error:
    logging.getLogger(__name__).warning(
      "draft and target may not mean the same by their tokens: %s", error
    )
    return None
  texts = {token: text for text, token in tokenizer.get_vocab().items()}
  return texts, set(tokenizer.added_tokens_decoder)
