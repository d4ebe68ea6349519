"""What a unit will take of memory and time, before anything is run.

Memory is what a run itself reckons, on a GPU. Hours rest on the speeds that
the paper prints, where it prints any.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import ml_collections

from launch import hours as hours_lib
from launch import models
from tv_jax import runs
from tv_jax.edge import names
from tv_jax.runs import running
from tv_jax.runs.settings import Run


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
    """Both in a line."""
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
  """Estimates a unit by its config; what is wrong with it is a reason."""
  try:
    settings = _settings(config)
    pair = models.pair(settings.models)
  except ValueError as error:
    reason = " ".join(str(error).split())
    return Estimate(None, reason, None, reason)
  rest = [] if settings.padded_to else ["where prompts are short"]
  if (devices := settings.models.devices) > 1:
    rest.append(f"on each of {devices} devices")
  try:
    timed = hours_lib.at_most(settings, pair)
  except ValueError as error:
    timed = (None, str(error))
  found = [parts for _, parts in running.batches(settings, *pair, cpu=False)]
  largest = max(found, key=lambda parts: sum(parts.values()))
  return Estimate(largest, ", ".join(rest), *timed)


def _settings(config: ml_collections.ConfigDict) -> Run:
  """Returns the checked settings. Its questions need not be here yet."""
  own = config.copy_and_resolve_references().to_dict()
  asked = {name: own.get(name, "") for name in ("questions", "tasks")}
  settings = runs.from_config({**own, "questions": "minibench", "tasks": ""})
  if isinstance(asked["tasks"], str):
    asked["tasks"] = names.split(asked["tasks"])
  return dataclasses.replace(settings, **asked)
