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
  files = [_files(*one) for one in (draft, target)]
  shared = [name for name in _FILES if all(name in own for own in files)]
  if not all(files) or (
    shared and len({_said(own[shared[0]]) for own in files}) == 1
  ):
    return
  known, wanted = (
    _tokens(own, *one) for own, one in zip(files, (draft, target), strict=True)
  )
  if known is None or wanted is None:
    return
  (ours, added), (theirs, others) = known, wanted
  special, texts = added & others, (set(ours.values()), set(theirs.values()))
  for token in sorted(ours.keys() & theirs.keys()):
    own, other = ours[token], theirs[token]
    if own == other or (
      token in special and _free(own, texts[1]) and _free(other, texts[0])
    ):
      continue
    names = [shown(name_of(path)) for path, _ in (draft, target)]
    raise ValueError(
      f"token {token} is {brief(own)} to the draft {names[0]}, and"
      f" {brief(other)} to the target {names[1]}: choose a draft that shares"
      " its tokenizer"
    )


def _free(text: str, texts: set[str]) -> bool:
  """Returns whether a special token's name is nothing to the other model."""
  return text not in texts or bool(_SPARE.search(text))


def _files(path, revision) -> dict[str, pathlib.Path]:
  """Returns the files that hold a loaded checkpoint's tokens, by name."""
  found = {}
  for name in _FILES:
    if gguf.is_one(path):
      whole = gguf.json_object(path, name) is not None
      place = pathlib.Path(path) if whole else None
    elif os.path.isdir(path):
      place = pathlib.Path(path) / name
      place = place if os.path.lexists(place) else None
    else:
      import huggingface_hub

      # What there is of it has been had.
      place = huggingface_hub.try_to_load_from_cache(
        str(path), name, revision=revision
      )
    if isinstance(place, str | pathlib.Path):
      found[name] = reading.regular(place)
  return found


def _said(path) -> bytes | pathlib.Path:
  """Returns what is in a file; a GGUF file, which may be large, is itself."""
  return path.resolve() if gguf.is_one(path) else path.read_bytes()


def _tokens(files, path, revision) -> tuple[dict[int, str], set[int]] | None:
  """Returns each token's text, and which are added to the vocabulary."""
  if _FILES[0] not in files:
    try:
      tokenizer = tokenizers.load_tokenizer(path, revision)
    except ValueError as error:
      logging.getLogger(__name__).warning(
        "draft and target may not mean the same by their tokens: %s", error
      )
      return None
    texts = {token: text for text, token in tokenizer.get_vocab().items()}
    return texts, set(tokenizer.added_tokens_decoder)
  file = files[_FILES[0]]
  if gguf.is_one(file):
    raw = gguf.json_object(file, _FILES[0]) or {}
  else:
    raw = reading.json_object(file)
  try:
    vocabulary, added = raw["model"]["vocab"], raw.get("added_tokens") or ()
    if isinstance(vocabulary, list):  # with a score each
      vocabulary = {text: token for token, (text, _) in enumerate(vocabulary)}
    texts = {int(token): str(text) for text, token in vocabulary.items()}
    named = {int(one["id"]): str(one["content"]) for one in added}
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise ValueError(
      f"{file} holds no tokens ({type(error).__name__}: {shown(error)}): give"
      " the file that came with the model"
    ) from None
  return texts | named, set(named)
