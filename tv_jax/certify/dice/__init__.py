"""Programs with dice: the exact law of what any Python function returns."""

from tv_jax.certify.dice.exploring import ExploreError, Law, explore

__all__ = ["ExploreError", "Law", "explore"]
