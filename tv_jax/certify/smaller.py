"""The smallest case that shows what is wrong with a rule."""

import dataclasses
import itertools
from collections.abc import Iterator

from tv_jax import tree as tree_lib
from tv_jax.certify.certificate import of_small
from tv_jax.certify.findings import Failure
from tv_jax.certify.settings import Settings
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import Verifier, misfit


def smallest_failure(
  verifier: Verifier, proposal: Proposal, known: Failure, settings: Settings
) -> Failure:
  """A failure on the least tree and vocabulary that shows one.

  If the law is broken, that is what it shows; its faults are then those known.
  """
  if known.case is None:  # nothing was run
    return known
  for tree, V in _ladder(known.tree):  # those that are known beforehand
    if misfit(verifier, tree, proposal):
      continue
    smaller = settings._replace(vocabulary=V, cases=18, bound=False)
    try:
      found = of_small(verifier, proposal, tree, smaller, lambda: None)
    except Exception:  # the rule itself refuses such a tree
      continue
    if found.failure is not None and _alike(found.failure, known):
      faults = known.faults if known.law_broken else found.failure.faults
      return dataclasses.replace(found.failure, faults=faults)
  return known


def _alike(small: Failure, known: Failure) -> bool:
  """Whether a smaller failure shows what is wrong in the known one.

  Not only that a distance is past the bound: one near rounding would be printed
  with two equal probabilities.
  """
  if not known.law_broken:
    return small.contract_broken
  enough = min(1e-2, 0.1 * known.distance)
  return bool(small.law_broken) and small.distance >= enough


def _ladder(tree: Tree) -> Iterator[tuple[Tree, int]]:
  """Trees smaller than this one, from the least."""
  trees = [
    tree_lib.chain(1),
    tree_lib.kary(2, 1),
    tree_lib.chain(2),
    tree_lib.from_parents([-1, 0, 1, 1]),
    tree_lib.from_parents([-1, 0, 0, 1]),
    tree_lib.kary(2, 2),
  ]
  smaller = [other for other in trees if len(other) < len(tree)]
  return itertools.product(smaller, (2, 3))
