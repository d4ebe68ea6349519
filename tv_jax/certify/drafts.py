"""Every draft that a proposal can make of a small world, with its chance.

Axes: O outcomes of drafting, N nodes (places, in an adaptive tree),
V vocabulary.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from tv_jax.certify import compiling
from tv_jax.certify.cases import below
from tv_jax.drafting import adaptive
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_PARENT, ROOT, Adaptive, Topology, Tree


class Drafts(NamedTuple):
  """Drafted trees and how likely each is."""

  tokens: np.ndarray  # [O, N] int32
  context: np.ndarray  # [O, N] of each node; the root's where INVALID
  chance: np.ndarray  # [O]
  topology: Topology | None = None  # [O, ..] of each; None: they share a tree
  fault: np.ndarray | None = None  # [O] of the policy; None: nowhere


class Siblings(NamedTuple):
  """All ways to draw k siblings."""

  tokens: np.ndarray  # [n, k] int32
  chance: np.ndarray  # [n]
  laws: list[tuple[np.ndarray, ...]]  # what each was drawn from, or zeros


def siblings(
  following: Callable[[tuple[int, ...]], np.ndarray],
  k: int,
  most: float = math.inf,
) -> Siblings | None:
  """Returns all ways to draw k siblings; None if there are more than `most`.

  Args:
    following: The law [V] of the next sibling, given those drawn before.
    k: How many are drawn.
    most: How many ways are looked at.
  """
  ways = [((), 1.0, ())]
  for _ in range(k):
    grown = []
    for tokens, chance, laws in ways:
      law = following(tokens)
      laws = (*laws, law)
      support = np.flatnonzero(law)
      if not len(support):
        grown.append(((*tokens, INVALID), chance, laws))
      grown += [
        ((*tokens, int(t)), chance * float(law[t]), laws) for t in support
      ]
    ways = grown
    if len(ways) > most:
      return None
  tokens, chance, laws = zip(*ways, strict=True)
  return Siblings(np.array(tokens, np.int32), np.array(chance), [*laws])


def siblings_of(proposal: Proposal, q: np.ndarray, k: int) -> Siblings:
  """Returns all ways to draw k siblings from q."""
  ways = siblings(lambda drawn: proposal.following(q, drawn, k), k)
  assert ways is not None
  return ways


def count_outcomes(tree: Tree | Adaptive, proposal: Proposal, V: int) -> int:
  """Returns how many drafts there are if no token is ruled out, or more."""
  if isinstance(tree, Adaptive):
    return V ** (len(tree) - 1)
  uniform = np.full(V, 1 / V)
  families = tree.num_children[tree.num_children > 0]
  size = {
    k: len(siblings_of(proposal, uniform, k).chance) for k in set(families)
  }
  return math.prod(size[k] for k in families)


def enumerate_drafts(
  tree: Tree | Adaptive, proposal: Proposal, q: np.ndarray
) -> Drafts:
  """Returns all outcomes of drafting.

  An adaptive tree is shaped by the engine's own functions, level by level; what
  is drawn in between is enumerated.

  Args:
    tree: What is drafted.
    proposal: How.
    q: [contexts, V] the draft's laws.
  """
  shape = tree if isinstance(tree, Adaptive) else None
  parent = tree.parent if isinstance(tree, Tree) else [NO_PARENT] * len(tree)
  grown = {
    "tokens": np.full((1, len(tree)), INVALID, np.int32),
    "context": np.zeros((1, len(tree)), int),
    "parent": np.array([parent], np.int32),
    "worth": np.zeros((1, len(tree)), q.dtype),
    "chance": np.ones(1),
    "fault": np.zeros(1, bool),
  }
  grown["worth"][:, ROOT] = 1
  for depth, (above, level) in enumerate(itertools.pairwise(tree.levels), 1):
    over, below_it = (slice(x.start, x.stop) for x in (above, level))
    if shape:
      context = grown["context"][:, over]
      seen = q[context], grown["worth"][:, over]
      chosen = compiling.in_pieces(_chooser(shape, depth), None, *seen)
      grown["fault"] |= chosen.fault
      place = chosen.above + above.start
      grown["parent"][:, below_it] = np.where(chosen.exists, place, NO_PARENT)
      grown["worth"][:, below_it] = chosen.worth
    for node in above:
      grown = _with_children(grown, node, below_it, proposal, q)
  grown["tokens"][:, ROOT] = 0
  drafts = Drafts(grown["tokens"], grown["context"], grown["chance"])
  if not shape:
    return drafts
  topology = compiling.in_pieces(topologies(shape), None, grown["parent"])
  return drafts._replace(topology=topology, fault=grown["fault"])


@functools.cache
def _chooser(shape, depth):
  choose = functools.partial(adaptive.choose, shape, depth)
  return compiling.jit(jax.vmap(choose))


@functools.cache
def topologies(shape: Adaptive) -> Callable[[np.ndarray], Topology]:
  """Makes a function from parents [O, N] to what trees they make."""
  return compiling.jit(jax.vmap(functools.partial(adaptive.topology, shape)))


def _with_children(grown: dict, node: int, level: slice, proposal, q) -> dict:
  """Returns the outcomes with each way to draw the children of a node."""
  V = q.shape[1]
  children = grown["parent"][:, level] == node
  dead = (grown["tokens"][:, node] == INVALID) & (node != ROOT)
  count = np.where(dead, 0, children.sum(axis=1))
  if not count.any():
    return grown
  first = children.argmax(axis=1) + level.start
  kinds = np.stack([grown["context"][:, node], count], axis=1)
  parts = [{name: array[count == 0] for name, array in grown.items()}]
  for context, k in np.unique(kinds[count > 0], axis=0):
    chosen = np.flatnonzero((kinds == (context, k)).all(axis=1))
    drawn, chances, _ = siblings_of(proposal, q[context], int(k))
    row = np.repeat(chosen, len(drawn))
    part = {name: array[row] for name, array in grown.items()}
    places = np.arange(len(row))[:, None], first[row][:, None] + np.arange(k)
    drawn = np.tile(drawn, (len(chosen), 1))
    none = drawn == INVALID
    part["tokens"][places] = drawn
    part["context"][places] = np.where(none, 0, below(context, drawn, V))
    part["worth"][places] = np.where(none, 0, part["worth"][places])
    part["chance"] *= np.tile(chances, len(chosen))
    parts.append(part)
  return {
    name: np.concatenate([part[name] for part in parts]) for name in grown
  }
