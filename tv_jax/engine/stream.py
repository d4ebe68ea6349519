"""An answer as it is accepted: cycle by cycle, token by token."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import jax

from tv_jax.engine import estimates, programs
from tv_jax.engine.config import decode_config
from tv_jax.engine.decode import Batch, Prompt
from tv_jax.engine.pair import Pair
from tv_jax.engine.prompts import read_prompts
from tv_jax.engine.results import stop_after


class Cycle(NamedTuple):
  """What a cycle adds to an answer.

  Attributes:
    tokens: Up to an end, or the limit.
    drafted: So many of them, the first, were drafted; what follows is the
      bonus token.
  """

  tokens: list[int]
  drafted: int


def stream(
  pair: Pair,
  prompt: str | Sequence[int] | Sequence[Mapping[str, str]],
  *,
  template: str = "raw",
  item: int = 0,
  **options,
) -> Iterator[Cycle]:
  """Continues a prompt, and yields the tokens as they are accepted.

  They are those of `generate`; but the host is asked after every cycle.

  Args:
    pair: Of `tv_jax.load`.
    prompt: A string, messages or token ids.
    template: How a string becomes tokens.
    item: The prompt's number; in `generate` it is by default its place.
    **options: As of `generate`.

  Returns:
    The cycles. Nothing is compiled before the first is asked for.

  Raises:
    ValueError: An option or the prompt is wrong.
    TypeError: There is no such option.
  """
  config = decode_config(pair, **options)
  (read,) = read_prompts(
    pair, config, [prompt], template=template, items=[item]
  )
  return _stream(pair, config, read)


def _stream(pair, config, prompt) -> Iterator[Cycle]:
  programs.keep_programs()
  batch = Batch(pair, config, 1, len(prompt.tokens))
  tokens: list[int] = []
  for cycle in stream_cycles(batch, prompt):
    before, tokens = len(tokens), tokens + cycle.tokens
    if (end := stop_after(pair, tokens, config.stop)) is not None:
      end -= before
      yield Cycle(cycle.tokens[:end], min(cycle.drafted, end))
      return
    yield cycle


def stream_cycles(batch: Batch, prompt: Prompt) -> Iterator[Cycle]:
  """Decodes a prompt in a batch of one slot; yields what each cycle adds."""
  batch.insert([prompt], 0)
  kept = cycle = 0
  while not batch.state.done[0]:
    batch.step()
    records = jax.device_get(batch.state.records)
    tokens = records.tokens[0, kept : records.kept[0]].tolist()
    drafted = int(records.accepted[0, cycle]) - 1
    yield Cycle(tokens, min(drafted, len(tokens)))
    kept, cycle = int(records.kept[0]), cycle + 1
  if faults := int(batch.state.records.faults[0]):
    warnings.warn(
      f"{faults} cycles met a fault: {estimates.FAULT}",
      RuntimeWarning,
      stacklevel=2,
    )


class Speech:
  """Tokens as text: what is said once is not changed by what comes later.

  Attributes:
    text: What has been said.
  """

  def __init__(self, tokenizer):
    """Has said nothing yet."""
    self.text, self._tokens, self._tokenizer = "", [], tokenizer

  def say(self, tokens: Sequence[int]) -> str:
    """Returns what is new, without a character that has only begun."""
    self._tokens += tokens
    return self._new(self._whole().rstrip("\ufffd"))

  def rest(self) -> str:
    """Returns what is left, at the end."""
    return self._new(self._whole())

  def _whole(self):
    # Special tokens are none of the text. No cleaning: it would take back
    # spaces that were said.
    return self._tokenizer.decode(
      self._tokens,
      skip_special_tokens=True,
      clean_up_tokenization_spaces=False,
    )

  def _new(self, whole):
    new = whole[len(self.text) :]
    self.text += new
    return new
