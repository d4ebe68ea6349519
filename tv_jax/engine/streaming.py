"""An answer as it is accepted: cycle by cycle, token by token."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Unpack

from tv_jax.engine import estimates, generation, programs, stages
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.driver import EngineRun, Prompt, Rows, where
from tv_jax.engine.pair import Pair
from tv_jax.engine.settings import Options, Settings
from tv_jax.engine.timing import Clock


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
  **options: Unpack[Options],
) -> Iterator[Cycle]:
  """Continues a prompt, and tells the tokens as they are accepted.

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
  settings = settings_lib.resolve(pair, **options)
  (asked,) = generation.read(
    pair, settings, [prompt], template=template, items=[item]
  )
  return Streaming(pair, 1).cycles(settings, asked)


class _OneByOne(Rows):
  """Comes back to the host after each cycle."""

  def compile(self, run, state):
    self.compile_seat(run, state)
    _stepper(run, run.batch.params, run.batch.request, state)

  def advance(self, run, request, state, *, full):
    del full
    arguments = run.batch.params, request, state
    return _stepper(run, *arguments)(*arguments)


# A clock around each cycle: its `advance` calls that of the other.
class Streaming(Clock, _OneByOne):
  """Decodes one prompt at a time, and tells its cycles; adds up seconds."""

  def cycles(
    self, settings: Settings, prompt: Prompt, longest: int = 0
  ) -> Iterator[Cycle]:
    """Yields what each cycle adds; arguments as of `decode`."""
    programs.keep()
    turns = self.turns(settings, [prompt], longest)
    with programs.announced(sys.stderr.isatty()):
      first = next(turns)  # all is compiled before
    before, faults = 0, 0
    for cycle, (records, _) in enumerate(itertools.chain([first], turns)):
      kept, faults = int(records.kept[0]), int(records.faults[0])
      drafted = int(records.accepted[0, cycle]) - 1
      tokens = records.tokens[0, before:kept].tolist()
      yield Cycle(tokens, min(drafted, len(tokens)))
      before = kept
    if faults:
      warnings.warn(
        f"{faults} cycles met a fault: {estimates.FAULT}",
        RuntimeWarning,
        stacklevel=2,
      )


def _stepper(run: EngineRun, *arguments):
  return run.program(
    stages.cycle, *arguments, donated=(2,), places=run.places(_after)
  )


def _after(params, request, state):
  del params, request
  return where(state)


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
