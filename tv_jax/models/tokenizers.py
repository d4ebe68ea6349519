"""Finds a checkpoint's end tokens; compares two tokenizers."""

import logging
import re

from tv_jax.io import reading
from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief, name_of
from tv_jax.models.checkpoint import Checkpoint

# A checkpoint without any of these files has no tokenizer.
_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")

# Names of unused tokens. One of two models may have put such a token to use.
_SPARE = re.compile("reserved|unused|extra|placeholder|dummy", re.IGNORECASE)


def end_tokens(checkpoint: Checkpoint) -> tuple[int, ...]:
  """Returns all tokens that end an answer; some models name none.

  Instruction-tuned models have several, and list them only in
  generation_config.json. If that file names none, config.json is read.
  """
  path = checkpoint.path / "generation_config.json"
  first = [reading.json_object(path)] if path.exists() else []
  for raw in (*first, checkpoint.config):
    ends = raw.get("eos_token_id")
    if ends not in (None, []):
      return tuple(ends) if isinstance(ends, list) else (ends,)
  return ()


def check_tokens(draft: Checkpoint, target: Checkpoint) -> None:
  """Refuses a draft that has another text for a token than its target.

  Special tokens and unused ids that only one model has are ignored. A model
  without a tokenizer is accepted.

  Raises:
    ValueError: If a token's texts differ; names the first such token.
  """
  if (of_draft := _texts(draft)) is None:
    return
  if (of_target := _texts(target)) is None:
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
    names = [name_of(checkpoint.source) for checkpoint in (draft, target)]
    raise UserError(
      f"token {token} is {brief(text)} to the draft {names[0]}, and"
      f" {brief(other)} to the target {names[1]}: choose a draft that shares"
      " its tokenizer"
    )


def _texts(checkpoint: Checkpoint) -> tuple[dict[int, str], set[int]] | None:
  """Returns each token's text, and the tokens added to the vocabulary."""
  if not checkpoint.is_gguf and not any(
    (checkpoint.path / name).exists() for name in _FILES
  ):
    return None
  try:
    tokenizer = checkpoint.tokenizer
  except ValueError as error:
    logging.getLogger(__name__).warning(
      "draft and target may not mean the same by their tokens: %s", error
    )
    return None
  texts = {token: text for text, token in tokenizer.get_vocab().items()}
  return texts, set(tokenizer.added_tokens_decoder)
