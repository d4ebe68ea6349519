"""What a unit will take of memory and time, before anything is run.

Memory is what `tv_jax.engine.extents` reckons for a run, on a GPU, where
weights are in the dtype that they are stored in; hours are of the paper's own
speeds, where it printed any. Nothing here imports jax.
"""

from __future__ import annotations

from typing import NamedTuple

import ml_collections
from tv_jax.engine.extents import PLAIN

from launch import hours as hours_lib
from launch import models, shapes
from launch.models import HEADS, once
from tv_jax.edge import names
from tv_jax.engine import extents


class Estimate(NamedTuple):
  """What a unit takes; None for what is not known.

  Attributes:
    memory: Bytes on each device at least, by what takes them.
    memory_rests_on: In words; why it is not known, if it is not.
    hours: To decode, at most.
    hours_rest_on: Likewise.
  """

  memory: dict[str, int] | None
  memory_rests_on: str
  hours: float | None
  hours_rest_on: str

  @property
  def line(self) -> str:
    """In a line."""
    return f"{self._memory}, {self._hours}"

  @property
  def _memory(self) -> str:
    if self.memory is None:
      return f"memory unknown ({self.memory_rests_on})"
    whole = sum(self.memory.values())
    unit, scale = ("GB", 1e9) if whole >= 1e9 else ("MB", 1e6)
    amounts = {k: f"{v / scale:.1f}" for k, v in self.memory.items()}
    parts = [f"{k} {v}" for k, v in amounts.items() if float(v)]
    if self.memory_rests_on:
      parts[-1] += f"; {self.memory_rests_on}"
    return f"at least {whole / scale:.1f} {unit} ({', '.join(parts)})"

  @property
  def _hours(self) -> str:
    if self.hours is None:
      return f"hours unknown ({self.hours_rest_on})"
    digits = 1 if self.hours >= 0.1 else 3
    return (
      f"at most {self.hours:.{digits}f} h of decoding ({self.hours_rest_on})"
    )


def of(config: ml_collections.ConfigDict) -> Estimate:
  """Of a unit's config, with everything that is set in it.

  What is wrong with a config is for the run to say: here it is a reason.
  """
  try:
    return _of(config)
  except (AttributeError, KeyError, TypeError) as error:
    reason = f"no config of a run: {' '.join(str(error).split())}"
    return Estimate(None, reason, None, reason)


def _of(config) -> Estimate:
  """Of a config with the fields of a run."""
  pair, memory, hours = _asked(config)
  rest = [] if config.padded_to else ["where prompts are short"]
  if config.models.devices > 1:
    rest.append(f"on each of {config.models.devices} devices")
  try:
    known = ({**_memory(*pair, **memory)}, ", ".join(rest))
  except ValueError as error:
    known = (None, str(error))
  try:
    timed = hours_lib.at_most(*pair, **hours)
  except ValueError as error:
    timed = (None, str(error))
  return Estimate(*known, *timed)


def _asked(config) -> tuple[tuple, dict, dict]:
  """The pair, and what else memory and hours depend on."""
  own, timing, explorer = config.models, config.timing, config.explorer
  trees, verifiers, proposals, tasks = (
    _names(config[name])
    for name in ("trees", "verifiers", "proposals", "tasks")
  )
  pair = (own.target, own.draft, own.draft_kind, own.dtype)
  memory = {
    "trees": trees,
    "rows": config.batch_size,
    "prompt": max(config.padded_to, 1),
    "limit": config.max_new_tokens,
    "panel": len({*verifiers, config.baseline}),
    "trace": explorer.cycles if explorer.per_task else 0,
    "devices": own.devices,
    "shard_draft": own.shard_draft,
  }
  hours = {
    "cells": (trees, proposals, verifiers, config.plain),
    "points": (tuple(config.temperatures), len(config.seeds)),
    "asked": (config.questions, tasks, config.per_task),
    "timed": (timing.per_task, timing.rounds),
    "limit": config.max_new_tokens,
  }
  return pair, memory, hours


def _names(value) -> tuple[str, ...]:
  """Names of which several may be in one text."""
  texts = [value] if isinstance(value, str) else value
  return tuple(name for text in texts for name in names.split(text))


@once
def _memory(
  target: str,
  draft: str,
  kind: str,
  dtype: str,
  *,
  trees: tuple[str, ...],
  rows: int,
  prompt: int,
  limit: int,
  panel: int,
  trace: int,
  devices: int,
  shard_draft: bool,
) -> dict[str, int]:
  """Of the batches that take the most, as a run refuses those too large."""
  pair = models.pair(target, draft, kind, dtype)
  plain = extents.Batch(
    rows=rows,
    prompt=extents.prompt_slots(prompt),
    new=extents.new_slots(limit),
    devices=devices,
  )
  drafted = plain._replace(
    panel=panel,
    trace=min(trace, limit),
    split_draft=HEADS[kind] or shard_draft,
  )
  weights, block = pair[0].weights, extents.BLOCK
  found = [extents.estimate(pair[0], None, PLAIN, plain, (weights, 0), block)]
  own = pair[1].head if HEADS[kind] else pair[1].weights
  for tree in trees:
    shape = shapes.of(tree)
    both = weights, own
    found.append(extents.estimate(*pair, shape, drafted, both, block))
  return max(found, key=lambda parts: sum(parts.values()))
