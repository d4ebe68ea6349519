"""Drafting: the kinds of draft models, and how they draft trees."""

from tv_jax.drafting.drafter import Committed, Drafter
from tv_jax.drafting.growers import Drafted, Growing, grow, to_all_nodes
from tv_jax.drafting.kinds import KINDS, Independent

__all__ = [
  "KINDS",
  "Committed",
  "Drafted",
  "Drafter",
  "Growing",
  "Independent",
  "grow",
  "to_all_nodes",
]
