"""Recorded cycles, and the evaluation of any rule on them.

`tv_jax.record`, in recording.py, writes the files.
"""

from tv_jax.replay.cycles import Cycles, load, save
from tv_jax.replay.lengths import expected_lengths, judge
from tv_jax.replay.recording import Recording

__all__ = ["Cycles", "Recording", "expected_lengths", "judge", "load", "save"]
