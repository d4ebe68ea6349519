"""Checks that two checkpoints mean the same by each token."""

import logging
import os
import pathlib
import re

from tv_jax.edge import reading
from tv_jax.edge.reading import brief, name_of, shown
from tv_jax.models import gguf, tokenizers

# Where tokenizers keep their tokens. The first can be read as it is.
_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")

# What stands for nothing yet, which one of two models may have made use of.
_SPARE = re.compile("reserved|unused|extra|placeholder|dummy", re.IGNORECASE)


def check_tokens(draft, target) -> None:
  """Refuses a loaded draft to which a token is another text than to its target.

  Tokens that only one of them has say nothing: special ones that were added,
  or places that fill a vocabulary up. A draft without a tokenizer is believed.

  Args:
    draft: The path or repository of a checkpoint, and its revision.
    target: Likewise.

  Raises:
    ValueError: In one line, the first token that differs.
  """
  known, wanted = _tokens(*draft), _tokens(*target)
  if known is None or wanted is None:
    return
  (ours, added), (theirs, others) = known, wanted
  special = added & others

  def is_free(text, other):
    return text not in other.values() or _SPARE.search(text)

  for token in sorted(ours.keys() & theirs.keys()):
    text, other = ours[token], theirs[token]
    if text == other or (
      token in special and is_free(text, theirs) and is_free(other, ours)
    ):
      continue
    names = [shown(name_of(path)) for path, _ in (draft, target)]
    raise ValueError(
      f"token {token} is {brief(text)} to the draft {names[0]}, and"
      f" {brief(other)} to the target {names[1]}: choose a draft that shares"
      " its tokenizer"
    )


def _file(path, name: str, revision) -> pathlib.Path | None:
  """Returns a loaded checkpoint's file, if it is there."""
  if os.path.isdir(path):
    place = pathlib.Path(path) / name
    return place if place.exists() else None
  import huggingface_hub

  # What there is of a repository has been had.
  place = huggingface_hub.try_to_load_from_cache(
    str(path), name, revision=revision
  )
  return pathlib.Path(place) if isinstance(place, str) else None


def _tokens(path, revision) -> tuple[dict[int, str], set[int]] | None:
  """Returns each token's text, and which are added to the vocabulary."""
  if gguf.is_one(path):
    raw, file = gguf.json_object(path, _FILES[0]), path
  elif file := _file(path, _FILES[0], revision):
    raw = reading.json_object(file)
  elif any(_file(path, name, revision) for name in _FILES[1:]):
    return _asked(path, revision)
  else:
    raw = None
  if raw is None:
    return None
  try:
    vocabulary, added = raw["model"]["vocab"], raw.get("added_tokens") or ()
    if isinstance(vocabulary, list):  # with a score each
      vocabulary = {text: token for token, (text, _) in enumerate(vocabulary)}
    texts = {int(token): str(text) for text, token in vocabulary.items()}
    named = {int(entry["id"]): str(entry["content"]) for entry in added}
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise ValueError(
      f"{file} holds no tokens ({type(error).__name__}: {shown(error)}): give"
      " the file that came with the model"
    ) from None
  return texts | named, set(named)


def _asked(path, revision) -> tuple[dict[int, str], set[int]] | None:
  """Returns the same of a tokenizer without the file, if it loads."""
  try:
    tokenizer = tokenizers.load_tokenizer(path, revision)
  except ValueError as error:
    logging.getLogger(__name__).warning(
      "draft and target may not mean the same by their tokens: %s", error
    )
    return None
  texts = {token: text for text, token in tokenizer.get_vocab().items()}
  return texts, set(tokenizer.added_tokens_decoder)
