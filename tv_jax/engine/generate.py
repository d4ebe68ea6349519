"""Prompts in, tokens out."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np

from tv_jax.edge.progress import bar
from tv_jax.engine import estimates, programs
from tv_jax.engine.config import DecodeConfig, decode_config
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.pair import Pair
from tv_jax.engine.prompts import Prompts, read_prompts
from tv_jax.engine.records import trace_of
from tv_jax.engine.results import Generation, stop_after


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
    template: How strings become tokens: "raw", "chat", "vicuna", or
      "without_thinking" (Qwen3's).
    items: A number for each prompt; by default its place. A prompt's draws come
      from this number and the seed alone, so its answer does not depend on the
      other prompts.
    progress: Whether to show a bar; by default on a terminal, for several
      batches.
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
      stop: a text, or several, before the first of which an answer is cut, once
        it is decoded. Lengths are counted before the cut, and `seconds` too:
        for a speed give `ends`, which end decoding.
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
  config = decode_config(pair, **options)
  read = read_prompts(pair, config, prompts, template=template, items=items)
  return decode_all(pair, config, read, progress=progress)


def decode_all(
  pair: Pair,
  config: DecodeConfig,
  prompts: Sequence[Prompt],
  batch: Batch | None = None,
  *,
  progress: bool | None = None,
  step: Callable[[Batch], object] | None = None,
) -> Generation:
  """Decodes prompts, and puts what they yield into one result.

  Args:
    pair: The models.
    config: How to decode.
    prompts: See `read_prompts`.
    batch: Where to; by default a new one.
    progress: As in `generate`.
    step: As of `decode`.
  """
  programs.keep_programs()
  batch = batch or batch_for(pair, config, prompts)
  if progress is None:
    progress = sys.stderr.isatty() and len(prompts) > batch.size
  records, compiling = [], batch.seconds["compile"]
  with bar(len(prompts), "prompts") if progress else nullcontext() as shown:
    begin = time.perf_counter()
    for row in decode(batch, prompts, step):
      records.append(row)
      if shown:
        shown.advance()
    seconds = time.perf_counter() - begin
  compiling = batch.seconds["compile"] - compiling
  result = _result(pair, config, records, seconds - compiling, compiling)
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


def batch_for(pair: Pair, config: DecodeConfig, prompts) -> Batch:
  """Makes a batch that has room for each of the prompts."""
  longest = max(len(prompt.tokens) for prompt in prompts)
  return Batch(pair, config, min(config.batch_size, len(prompts)), longest)


def _result(pair, config, records, seconds, compiling) -> Generation:
  """Returns the records of all prompts put together."""

  def cycles(column):
    return [column(row)[0, : row.cycles[0]] for row in records]

  tokens = [row.tokens[0, : row.kept[0]].tolist() for row in records]
  tokens = [row[: stop_after(pair, row, config.stop)] for row in tokens]
  return Generation(
    tokens=tokens,
    accepted=cycles(lambda row: row.accepted),
    drafted=cycles(lambda row: row.drafted),
    expected={
      rule.name: cycles(lambda row, name=rule.name: row.expected[name])
      for rule in config.panel
    },
    stops=np.sum([row.stops[0] for row in records], axis=0),
    faults=sum(int(row.faults[0]) for row in records),
    trace=[trace_of(row) for row in records] if config.trace else None,
    seconds=seconds,
    compile_seconds=compiling,
    config=config,
    pair=pair,
  )
