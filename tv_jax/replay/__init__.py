"""Replay: any verifier's expected length on recorded cycles."""

from tv_jax.cycles import load
from tv_jax.replay.lengths import expected_lengths
from tv_jax.replay.report import rows, table

__all__ = ["expected_lengths", "load", "rows", "table"]
