"""Checks that two checkpoints mean the same by each token."""

import logging
import re

from tv_jax.edge.reading import brief, name_of
from tv_jax.models import gguf, storage, tokenizers

# Without any of these a checkpoint has no tokenizer.
_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")

# What stands for nothing yet, which one of two models may have made use of.
_SPARE = re.compile("reserved|unused|extra|placeholder|dummy", re.IGNORECASE)


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
    tokenizer = tokenizers.load_tokenizer(directory)
  except ValueError as error:
    logging.getLogger(__name__).warning(
      "draft and target may not mean the same by their tokens: %s", error
    )
    return None
  texts = {token: text for text, token in tokenizer.get_vocab().items()}
  return texts, set(tokenizer.added_tokens_decoder)
