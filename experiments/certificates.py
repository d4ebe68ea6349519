"""Certificates for tables, in float64 on small vocabularies.

Imported where they are made: a launcher reads sweeps, and does without jax.
"""

import jax

from experiments import comparing
from tv_jax import certify, proposals, verifiers
from tv_jax import tree as tree_lib

SETTINGS = certify.Settings(cases=9)
PROPOSALS = tuple(proposals.PROPOSALS)


def fits(rule: str, proposal: str, tree: str) -> bool:
  """Whether the rule is for such a proposal, and such a tree."""
  return not verifiers.misfit(
    verifiers.resolve(rule), tree_lib.parse(tree), proposals.resolve(proposal)
  )


def check(rule: str, tree: str, proposal: str = comparing.PROPOSAL):
  """The certificate of a rule."""
  with jax.enable_x64(True):
    return certify.check(
      verifiers.resolve(rule), proposal, tree_lib.parse(tree), SETTINGS
    )
