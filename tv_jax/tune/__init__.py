"""The best tree for a pair, a rule and a machine."""

from tv_jax.tune.results import Row, Tuned
from tv_jax.tune.tuning import tune

__all__ = ["Row", "Tuned", "tune"]
