"""Finds the best tree for a pair of models, a rule and a machine."""

from tv_jax.tune.results import TreeResult, Tuned
from tv_jax.tune.tuning import tune

__all__ = ["TreeResult", "Tuned", "tune"]
