"""Generate from prompts, however many there are."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Unpack

import jax
import numpy as np

from tv_jax.engine import batches, estimates, programs
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.batches import Prompts
from tv_jax.engine.driver import Prompt, Rows
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Records
from tv_jax.engine.results import Generation
from tv_jax.engine.settings import Options, Settings
from tv_jax.engine.trace import Trace


def generate(
  pair: Pair,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
  **options: Unpack[Options],
) -> Generation:
  """Continues prompts.

  Args:
    pair: Of `tv_jax.load`.
    prompts: Any number of them, each a string, token ids, or messages
      ({"role": .., "content": ..}), which go through the tokenizer's own
      template; or a single string or conversation.
    template: How strings become tokens: "raw", "chat", "vicuna", or
      "without_thinking" (Qwen3's).
    items: A number for each prompt; by default its place. A prompt's draws come
      from this number and the seed alone, so its answer does not depend on the
      other prompts.
    progress: Whether to show a bar, and to say when something is compiled; by
      default on a terminal, the bar only for several batches.
    **options: What to do, all by keyword:
      tree ("eagle"): a `Tree`, or a text that `tv_jax.tree.parse` reads.
      verifier ("traversal"): a name, a `Verifier`, a `decide` function, or None
        for plain autoregressive decoding.
      proposal ("without_replacement"): how siblings are drawn.
      temperature (1.0): 0 is greedy decoding.
      draft_temperature: by default the same, or what the file of a tuned tree
        says in proportion to it, but at least 0.1; 1 for a proposal that only
        ranks.
      draft_stop (0.0): drafts nothing below a node of which a DSpark draft is
        less sure than this.
      top_k (0), top_p (1.0): truncate both laws.
      max_new_tokens (128): at most, for each prompt.
      seed (0): of all draws.
      batch_size (16): prompts that are decoded together; where one ends, the
        next begins.
      panel (()): more verifiers, by name, whose expected lengths are computed
        on the same drafts. None is fastest: not even the verifier's own is
        computed.
      ends: tokens that end an answer; by default the checkpoint's.
      stop: a text, or several, that end an answer. Its text is cut before the
        first match; lengths are counted before the cut.
      logprobs (False): whether to keep the target's log-probability of each
        token, in the result's `logprobs`.
      among (()): names of rules, the verifier's own among them, that share one
        program. Then to ask for another of them compiles nothing.
      trace (0): for so many first cycles of each prompt, trees with chances and
        coins are kept in the result's `trace`.

  Returns:
    What was generated, and how.

  Raises:
    ValueError: An option or a prompt is wrong; nothing was compiled.
    TypeError: There is no such option.
  """
  settings = settings_lib.resolve(pair, **options)
  asked = read(pair, settings, prompts, template=template, items=items)
  return decode_all(pair, settings, asked, progress=progress)


def read(
  pair: Pair,
  settings: Settings,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
) -> list[Prompt]:
  """Returns prompts as tokens, with their numbers; see `generate`."""
  tokens = batches.encode(pair, prompts, template, settings.limit)
  numbers = batches.numbers(items, len(tokens))
  limits = [settings.limit] * len(tokens)
  return [*map(Prompt, tokens, numbers, limits)]


def batch_rows(settings: Settings, asked: Sequence[Prompt]) -> int:
  """Returns how many of the prompts are decoded together."""
  return min(settings.batch_size, len(asked))


def decode_all(
  pair: Pair,
  settings: Settings,
  asked: Sequence[Prompt],
  decoder: Rows | None = None,
  *,
  progress: bool | None = None,
) -> Generation:
  """Decodes prompts, and puts what they yield into one result.

  Args:
    pair: The models.
    settings: How to decode.
    asked: The prompts; see `read`.
    decoder: What decodes them, if it is to be watched.
    progress: As in `generate`.
  """
  decoder = decoder or Rows(pair, batch_rows(settings, asked))
  programs.keep()
  looking = sys.stderr.isatty() if progress is None else progress
  shown = looking and (progress or len(asked) > decoder.size)
  records, compiled = [], decoder.compile_seconds
  with programs.announced(looking), _bar(len(asked), shown) as advance:
    begin = time.perf_counter()
    for own in decoder.decode(settings, asked):
      records.append(own)
      advance()
    seconds = time.perf_counter() - begin
  compiled = decoder.compile_seconds - compiled
  result = _result(pair, settings, records, seconds - compiled, compiled)
  if result.faults:
    warnings.warn(
      f"{result.faults} cycles met a fault: {estimates.FAULT}",
      RuntimeWarning,
      stacklevel=3,
    )
  if result.idle:
    warnings.warn(
      f"none of {result.cycles} cycles drafted anything: {estimates.IDLE}",
      RuntimeWarning,
      stacklevel=3,
    )
  return result


def _result(pair, settings, records, seconds, compiling) -> Generation:
  """Returns the records of all prompts put together."""
  plan = settings.plan

  def cycles(column):
    return [column(own)[0, : own.cycles[0]] for own in records]

  def kept(column):
    return [column(own)[0, : own.kept[0]] for own in records]

  return Generation(
    tokens=[own.tolist() for own in kept(lambda own: own.tokens)],
    accepted=cycles(lambda own: own.accepted),
    drafted=cycles(lambda own: own.drafted),
    expected={
      rule.name: cycles(lambda own, name=rule.name: own.expected[name])
      for rule in plan.panel
    },
    stops=np.sum([own.stops[0] for own in records], axis=0),
    faults=sum(int(own.faults[0]) for own in records),
    logprobs=kept(lambda own: own.logprobs) if plan.logprobs else None,
    trace=[trace_of(own) for own in records] if plan.trace else None,
    seconds=seconds,
    compile_seconds=compiling,
    settings=settings,
    pair=pair,
  )


def trace_of(records: Records, row: int = 0) -> Trace:
  """Returns the trees of a row's first cycles, [cycles, N]."""
  cycles = int(records.cycles[row])
  return jax.tree.map(lambda array: array[row, :cycles], records.trace)


@contextlib.contextmanager
def _bar(count, wanted) -> Iterator:
  """A progress bar over prompts, as a function that advances it."""
  if not wanted:
    yield lambda: None
    return
  from rich.console import Console
  from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

  columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn())
  console = Console(stderr=True)
  with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
    task = bar.add_task("generate", total=count)
    yield lambda: bar.advance(task)
