"""Recorded cycles, and the expected length of any rule on them.

`tv_jax.record` records them. It needs the whole engine, which reading and
replaying files does not.
"""

from tv_jax.replay.cycles import Cycles, load, save
from tv_jax.replay.lengths import expected_lengths

__all__ = ["Cycles", "expected_lengths", "load", "save"]
