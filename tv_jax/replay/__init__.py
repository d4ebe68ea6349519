"""Cycles of a run, recorded once, and any verifier's expected length on them.

`recording` makes them. It stands on the whole engine, which what reads and
replays files does not need: import it as `tv_jax.record`.
"""

from tv_jax.replay.cycles import Cycles, load, save
from tv_jax.replay.lengths import expected_lengths

__all__ = ["Cycles", "expected_lengths", "load", "save"]
