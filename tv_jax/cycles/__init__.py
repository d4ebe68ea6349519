"""Cycles of a run, in memory and in files."""

from tv_jax.cycles.data import Cycles
from tv_jax.cycles.files import load, save

__all__ = ["Cycles", "load", "save"]
