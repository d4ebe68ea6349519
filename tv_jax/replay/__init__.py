"""Cycles of a run, recorded once, and any verifier's expected length on them.

`recording` makes them. It stands on the whole engine, which what reads and
replays files does not need: import it as `tv_jax.record`.
"""

from tv_jax.replay.data import Cycles
from tv_jax.replay.files import load, save
from tv_jax.replay.lengths import expected_lengths, stop_laws
from tv_jax.replay.merging import merge
from tv_jax.replay.report import rows, table

__all__ = [
  "Cycles",
  "expected_lengths",
  "load",
  "merge",
  "rows",
  "save",
  "stop_laws",
  "table",
]
