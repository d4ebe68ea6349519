"""Drafting of trees, level by level.

Axes: B batch, N nodes, M nodes that have children, n nodes of a level, m of
them that have children, K children of a node, V vocabulary, E embedding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting.drafter import Committed, Drafter, last_committed
from tv_jax.models import Cache, mask
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Tree


class Drafted(NamedTuple):
  """A drafted tree for each row."""

  tokens: jax.Array  # [B, N] int32; the root is the last committed token
  q: jax.Array  # [B, M, V] probabilities after each node with children
  root: jax.Array  # [B] slot of the root in the draft's cache
  cache: Cache | None  # the draft's cache
  fault: jax.Array  # [B] bool: a confidence was NaN


class _Level(NamedTuple):
  """The nodes of a level that have children."""

  nodes: np.ndarray  # [m] indices in the tree
  expands: jax.Array  # [B, m] bool: whether its children are drafted
  q: jax.Array  # [B, m, V] draft probabilities after each node
  features: jax.Array  # [B, m, E]; of InOnePass the confidence, if any


def grow(
  drafter: Drafter,
  params: dict,
  tree: Tree,
  committed: Committed,
  length: jax.Array,
  cache: Cache,
  *,
  keys: jax.Array,
  proposal: Proposal,
  to_probabilities: Callable[[jax.Array], jax.Array],
) -> Drafted:
  """Drafts a tree for each row, level by level.

  Nodes that have children are run through the draft.

  Args:
    drafter: The draft's functions.
    params: The draft's parameters.
    tree: The tree.
    committed: The tokens committed since the last draft.
    length: [B] Number of committed tokens.
    cache: The draft's cache.
    keys: [B] Random keys.
    proposal: How siblings are drawn.
    to_probabilities: Makes probabilities [.., V] of logits [.., V].
  """
  keys = _keys(keys, tree)
  logits, features, cache, block = drafter.begin(
    params, committed, length, cache
  )
  B, root = len(logits), cache.length - 1
  level = _Level(
    np.array([ROOT]),
    jnp.ones((B, 1), bool),
    to_probabilities(logits),
    features,
  )
  tokens, levels = [last_committed(committed)], [level.q]
  fault = jnp.zeros(B, bool)
  for depth, nodes in enumerate(tree.levels[1:], 1):
    if drafter.stop:
      level, undefined = _stop_unsure(drafter, level)
      fault |= undefined
    drawn = _draw(proposal, keys[:, level.nodes], tree, nodes, level)
    tokens.append(drawn)
    inner = tree.inner[np.isin(tree.inner, nodes)]
    if not len(inner):
      break
    above = np.searchsorted(level.nodes, tree.parent[inner])
    own = drawn[:, inner - nodes.start]
    logits, features, cache = drafter.extend(
      params,
      own,
      level.features[:, above],
      jnp.broadcast_to((root + depth)[:, None], own.shape),
      mask.tree(
        root, jnp.asarray(tree.ancestors[inner][:, tree.inner]), cache.slots
      ),
      cache,
      block,
    )
    q = to_probabilities(logits)
    level = _Level(inner, own != INVALID, q, features)
    levels.append(level.q)
  return Drafted(
    tokens=jnp.concatenate(tokens, axis=1),
    q=jnp.concatenate(levels, axis=1),
    root=root,
    cache=cache,
    fault=fault,
  )


def _keys(keys: jax.Array, tree: Tree) -> jax.Array:
  """Returns a key for each node that has children: [B, nodes].

  All are folded at once, since a loop for each level takes long to compile.
  """
  fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
  nodes = np.arange(np.max(tree.inner) + 1, dtype=np.int32)
  return fold(keys, nodes)


def _stop_unsure(drafter: Drafter, level: _Level):
  """Does not expand nodes with a confidence below `drafter.stop`.

  Returns:
    The level, and for each row [B] whether a confidence was NaN. A NaN is less
    than any minimum.
  """
  confidence = drafter.confidence(level.features)
  assert confidence is not None
  undefined = jnp.any(jnp.isnan(confidence) & level.expands, axis=-1)
  expands = level.expands & (confidence >= drafter.stop)
  return level._replace(expands=expands), undefined


def _draw(proposal, keys, tree: Tree, nodes: range, level: _Level):
  """Draws the tokens of a level: [B, n], INVALID below unexpanded nodes.

  Args:
    proposal: How siblings are drawn.
    keys: [B, m] Keys of the nodes above.
    tree: The tree.
    nodes: The nodes of the level.
    level: The nodes above that have children.
  """
  B, m, V = level.q.shape
  count = tree.num_children[level.nodes]
  sizes = np.unique(count).tolist()
  most = sizes[-1]

  def families(k):
    # One vmap over a merged axis; nested vmaps take longer to trace.
    draw = jax.vmap(functools.partial(proposal.draw, k=k))
    drawn = draw(keys.reshape(B * m), level.q.reshape(B * m, V))
    return drawn.reshape(B, m, k)

  if proposal.nested:
    drawn = families(most)
  else:  # the first sibling's distribution depends on the number of siblings
    drawn = jnp.full((B, m, most), INVALID, jnp.int32)
    for k in sizes:
      family = jnp.pad(
        families(k), ((0, 0), (0, 0), (0, most - k)), constant_values=INVALID
      )
      drawn = jnp.where((count == k)[..., None], family, drawn)
  above = np.searchsorted(level.nodes, tree.parent[nodes.start : nodes.stop])
  rank = tree.rank[nodes.start : nodes.stop]
  tokens = drawn.reshape(B, m * most)[:, above * most + rank]
  return jnp.where(level.expands[:, above], tokens, INVALID)
