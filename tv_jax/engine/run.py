"""Generate from prompts, however many there are."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Sequence

import jax

from tv_jax.engine import batches, decoding, driver, estimates, programs
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.batches import Prompts
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Generation
from tv_jax.engine.settings import Settings


@settings_lib.with_options
def generate(
  pair: Pair,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
  **options,
) -> Generation:
  """Continues prompts.

  Args:
    pair: Of `tv_jax.load`.
    prompts: Any number of them, each a string, token ids, or messages
      ({"role": .., "content": ..}), which go through the tokenizer's own
      template; or a single string or conversation.
    template: How strings become tokens: "raw", "chat", "vicuna".
    items: A number for each prompt, which its draws are made from, with the
      seed; by default its place. Then what a prompt yields does not depend on
      what else is asked.
    progress: Whether to show a bar, and to say so when something is compiled;
      by default when someone is looking, a bar if there are several batches.
    **options: What to do, all by keyword:
      tree ("eagle"): a `Tree`, or a text that `tv_jax.tree.parse` reads.
      verifier ("traversal"): a name, a `Verifier`, a `decide` function, or None
        for plain autoregressive decoding.
      proposal ("without_replacement"): how siblings are drawn.
      temperature (1.0): 0 is greedy decoding.
      draft_temperature: by default the same, or in that proportion to it that
        the file of a tuned tree says, but at least 0.1; 1 for a proposal that
        only ranks.
      top_k (0), top_p (1.0): truncate both laws.
      max_new_tokens (128).
      seed (0).
      batch_size (16): prompts that are decoded together; where one ends, the
        next begins.
      panel (()): more verifiers, by name, whose expected lengths are computed
        on the same drafts; None computes not even the verifier's own, and is
        fastest.
      ends: tokens that end an answer, by default the checkpoint's.
      stop: texts that end an answer, and are cut off its text with all that
        comes after; or a single one. Lengths are counted before the cut.
      logprobs (False): whether to keep the target's log-probability of each
        token, in the result's `logprobs`.
      among (()): names of rules, the verifier's own among them, that one
        program is to hold: to ask for another of them compiles nothing.
      trace (0): of how many first cycles of each prompt to keep the trees, with
        chances and coins, in the result's `trace`.

  Returns:
    What was generated, and how.

  Raises:
    ValueError: An option or a prompt is wrong; nothing was compiled.
  """
  settings = settings_lib.resolve(pair, **options)
  return decode_batches(
    pair,
    settings,
    prompts,
    template=template,
    items=items,
    progress=progress,
  )


def decode_batches(
  pair: Pair,
  settings: Settings,
  prompts: Prompts,
  decode: Callable | None = None,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
) -> Generation:
  """Prompts to tokens, and what they yield to one result.

  Args:
    pair: The models.
    settings: How to decode.
    prompts: As in `generate`.
    decode: `(settings, batch, caches, items) -> (records, caches, seconds)`,
      with the records on the host and the seconds of compilation: for batch
      after batch. By default a row that is done takes the next prompt.
    template: As in `generate`.
    items: As in `generate`.
    progress: As in `generate`.

  Returns:
    The result.
  """
  tokens = batches.encode(pair, prompts, template, settings.limit)
  items = batches.numbers(items, len(tokens))
  size = min(settings.batch_size, len(tokens))
  longest = max(map(len, tokens))
  groups = [slice(i, i + size) for i in range(0, len(tokens), size)]
  records, seconds, compiling, caches = [], 0.0, 0.0, None
  programs.keep()
  looking = sys.stderr.isatty() if progress is None else progress
  with (
    programs.announced(looking),
    _bar(len(tokens), progress, len(groups)) as advance,
  ):
    if decode is None and len(groups) > 1:
      rows, begin = driver.Rows(pair, size), time.perf_counter()
      limits = [settings.limit] * len(tokens)
      asked = [*map(driver.Prompt, tokens, items, limits)]
      for own in rows.decode(settings, asked):
        records.append(own)
        advance([own])
      compiling = rows.compile_seconds
      seconds = time.perf_counter() - begin - compiling
      groups = []
    decode = decode or driver.decode
    for group in groups:
      batch = batches.assemble(
        pair, settings, tokens[group], items[group], size, longest
      )
      caches = batches.caches(pair, batch, caches)
      begin = time.perf_counter()
      own, caches, compiled = decode(settings, batch, caches, items[group])
      seconds += time.perf_counter() - begin - compiled
      compiling += compiled
      records.append(own)
      advance(len(tokens[group]))
  result = _result(pair, settings, records, len(tokens), seconds, compiling)
  if result.faults:
    warnings.warn(
      f"{result.faults} cycles met a fault: {estimates.FAULT}",
      RuntimeWarning,
      stacklevel=4,
    )
  if result.idle:
    warnings.warn(
      f"none of {result.cycles} cycles drafted anything: {estimates.IDLE}",
      RuntimeWarning,
      stacklevel=4,
    )
  return result


def _result(pair, settings, records, count, seconds, compiling) -> Generation:
  """The records of all batches put together, without padding."""

  def rows(name, of):
    """Row by row, cut at the row's own length."""
    return [
      row[:end]
      for own in records
      for row, end in zip(name(own), of(own), strict=True)
    ][:count]

  def cycles(name):
    return rows(name, lambda own: own.cycles)

  def kept(name):
    return rows(name, lambda own: own.kept)

  return Generation(
    tokens=[own.tolist() for own in kept(lambda own: own.tokens)],
    accepted=cycles(lambda own: own.accepted),
    drafted=cycles(lambda own: own.drafted),
    expected={
      name: cycles(lambda own, name=name: own.expected[name])
      for name, _ in settings.plan.panel
    },
    stops=sum(own.stops.sum(axis=0) for own in records),
    faults=int(sum(own.faults.sum() for own in records)),
    logprobs=kept(lambda own: own.logprobs) if settings.plan.logprobs else None,
    trace=[trace_of(own, i) for own in records for i in range(len(own.kept))][
      :count
    ]
    if settings.plan.trace
    else None,
    seconds=seconds,
    compile_seconds=compiling,
    settings=settings,
    pair=pair,
  )


def trace_of(records: decoding.Records, row: int) -> decoding.Trace:
  """The trees of one row's first cycles, [cycles, N]."""
  cycles = int(records.cycles[row])
  return jax.tree.map(lambda array: array[row, :cycles], records.trace)


@contextlib.contextmanager
def _bar(count, wanted, batches):
  """A progress bar over prompts, as a function that advances it."""
  if wanted is None:
    wanted = batches > 1 and sys.stderr.isatty()
  if not wanted:
    yield lambda prompts: None
    return
  from rich.console import Console
  from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

  columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn())
  console = Console(stderr=True)
  with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
    task = bar.add_task("generate", total=count)
    yield lambda prompts: bar.advance(task, prompts)
