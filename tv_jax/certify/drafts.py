"""Every draft that a proposal can make of a small world, with its chance.

Axes: O outcomes of drafting, N nodes, V vocabulary.
"""

import math
from typing import NamedTuple

import numpy as np

from tv_jax.certify.cases import below
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_CHILD, ROOT, Adaptive, Topology, Tree


class Drafts(NamedTuple):
  """Drafted trees and how likely each is."""

  tokens: np.ndarray  # [O, N] int32
  context: np.ndarray  # [O, N] of each node; the root's where INVALID
  chance: np.ndarray  # [O]
  topology: Topology | None = None  # [O, ..] of each; None: they share a tree
  fault: np.ndarray | None = (
    None  # [O] bool: of what shaped each; None: nothing
  )


def sibling_tuples(proposal: Proposal, q: np.ndarray, k: int):
  """All ways to draw k siblings from q: tokens [n, k], chances [n]."""
  tuples = [((), 1.0)]
  for _ in range(k):
    grown = []
    for drawn, chance in tuples:
      law = proposal.following(q, drawn, k)
      support = np.flatnonzero(law)
      if not len(support):
        grown.append(((*drawn, INVALID), chance))
      grown += [((*drawn, int(t)), chance * float(law[t])) for t in support]
    tuples = grown
  tokens, chances = zip(*tuples, strict=True)
  return np.array(tokens, np.int32).reshape(-1, k), np.array(chances)


def count_outcomes(tree: Tree | Adaptive, proposal: Proposal, V: int) -> int:
  """How many drafts there are when no token is ruled out, or more."""
  if isinstance(tree, Adaptive):
    return V ** (len(tree) - 1)
  uniform = np.full(V, 1 / V)
  families = tree.num_children[tree.num_children > 0]
  size = {
    k: len(sibling_tuples(proposal, uniform, k)[1]) for k in set(families)
  }
  return math.prod(size[k] for k in families)


def enumerate_drafts(tree: Tree, proposal: Proposal, q: np.ndarray) -> Drafts:
  """All outcomes of drafting `tree` with the laws q [contexts, V]."""
  V = q.shape[1]
  tokens = np.full((1, len(tree)), INVALID, np.int32)
  context = np.zeros((1, len(tree)), int)
  chance = np.ones(1)
  for node in np.flatnonzero(tree.num_children):
    children = tree.children[node][tree.children[node] != NO_CHILD]
    k = len(children)
    dead = (tokens[:, node] == INVALID) & (node != ROOT)
    grown = [(tokens[dead], context[dead], chance[dead])]
    for above in np.unique(context[~dead, node]):
      own = np.flatnonzero(~dead & (context[:, node] == above))
      drawn, chances = sibling_tuples(proposal, q[above], k)
      row = np.repeat(own, len(drawn))
      drawn = np.tile(drawn, (len(own), 1))
      new_tokens, new_context = tokens[row], context[row]
      new_tokens[:, children] = drawn
      leads = below(above, drawn, V)
      new_context[:, children] = np.where(drawn == INVALID, 0, leads)
      weight = chance[row] * np.tile(chances, len(own))
      grown.append((new_tokens, new_context, weight))
    tokens, context, chance = (
      np.concatenate(part) for part in zip(*grown, strict=True)
    )
  tokens[:, ROOT] = 0
  return Drafts(tokens, context, chance)
