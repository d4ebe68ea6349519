"""Recorded cycles, and the expected length of any rule on them.

`tv_jax.record`, in recording.py, writes the files.
"""

from tv_jax.replay.cycles import Cycles, load, save
from tv_jax.replay.lengths import expected_lengths

__all__ = ["Cycles", "expected_lengths", "load", "save"]
