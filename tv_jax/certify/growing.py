"""Every draft that an adaptive tree can become in a small world.

Axes: O outcomes of drafting, N places, V vocabulary.
"""

import functools
import itertools

import jax
import numpy as np

from tv_jax import tree as tree_lib
from tv_jax.certify import compiling
from tv_jax.certify.cases import below
from tv_jax.certify.drafts import Drafts, sibling_tuples
from tv_jax.drafting import adaptive
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_PARENT, ROOT, Adaptive, Tree


def enumerate_grown(
  shape: Adaptive, proposal: Proposal, q: np.ndarray
) -> Drafts:
  """All outcomes of drafting with the laws q [contexts, V].

  The engine's own functions shape the trees, level by level; what is drawn in
  between is enumerated.
  """
  grown = {
    "tokens": np.full((1, len(shape)), INVALID, np.int32),
    "context": np.zeros((1, len(shape)), int),
    "parent": np.full((1, len(shape)), NO_PARENT, np.int32),
    "worth": np.zeros((1, len(shape)), q.dtype),
    "chance": np.ones(1),
    "fault": np.zeros(1, bool),
  }
  grown["worth"][:, ROOT] = 1
  for depth, (above, level) in enumerate(itertools.pairwise(shape.levels), 1):
    over, own = (slice(one.start, one.stop) for one in (above, level))
    chosen = compiling.in_pieces(
      _chooser(shape, depth),
      None,
      q[grown["context"][:, over]],
      grown["worth"][:, over],
    )
    grown["fault"] |= chosen.fault
    place = chosen.above + above.start
    grown["parent"][:, own] = np.where(chosen.there, place, NO_PARENT)
    grown["worth"][:, own] = chosen.worth
    for node in above:
      grown = _drawn(grown, node, own, proposal, q)
  grown["tokens"][:, ROOT] = 0
  return Drafts(
    tokens=grown["tokens"],
    context=grown["context"],
    chance=grown["chance"],
    topology=compiling.in_pieces(_topology(shape), None, grown["parent"]),
    fault=grown["fault"],
  )


@functools.cache
def _chooser(shape, depth):
  choose = functools.partial(adaptive.choose, shape, depth)
  return compiling.jit(jax.vmap(choose))


@functools.cache
def _topology(shape):
  return compiling.jit(jax.vmap(functools.partial(adaptive.topology, shape)))


def _drawn(grown: dict, node: int, level: slice, proposal, q) -> dict:
  """The outcomes with each way to draw the children of a node."""
  V = q.shape[1]
  children = grown["parent"][:, level] == node
  count, first = children.sum(axis=1), children.argmax(axis=1) + level.start
  kinds = np.stack([grown["context"][:, node], count], axis=1)
  parts = [{name: array[count == 0] for name, array in grown.items()}]
  for context, k in np.unique(kinds[count > 0], axis=0):
    own = np.flatnonzero((kinds == (context, k)).all(axis=1))
    drawn, chances = sibling_tuples(proposal, q[context], int(k))
    row = np.repeat(own, len(drawn))
    part = {name: array[row] for name, array in grown.items()}
    places = np.arange(len(row))[:, None], first[row][:, None] + np.arange(k)
    drawn = np.tile(drawn, (len(own), 1))
    none = drawn == INVALID
    part["tokens"][places] = drawn
    part["context"][places] = np.where(none, 0, below(context, drawn, V))
    part["worth"][places] = np.where(none, 0, part["worth"][places])
    part["chance"] *= np.tile(chances, len(own))
    parts.append(part)
  return {
    name: np.concatenate([part[name] for part in parts]) for name in grown
  }


def outcome(
  shape: Tree | Adaptive, drafts: Drafts, draft: int
) -> tuple[Tree, np.ndarray]:
  """One draft's tree, and which places [n] its nodes have."""
  if isinstance(shape, Tree):
    return shape, np.arange(len(shape))
  # A bare root is no tree; and the first place's node is never another's.
  drawn = drafts.topology.parent[:, 1] != NO_PARENT
  draft = draft if drawn[draft] else int(drawn.argmax())
  if not drawn.any():
    return tree_lib.chain(1), np.arange(2)
  parents, places = tree_lib.placed(drafts.topology.parent[draft])
  return Tree(parents), places
