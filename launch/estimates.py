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
