"""Finds the best tree for a pair of models, a rule and a machine."""

from tv_jax.tune.tuning import Tuned, tune

__all__ = ["Tuned", "tune"]
