"""Drafting of trees, level by level.

Axes: B batch, N nodes, M nodes that have children, n nodes of a level, m of
them that may have children, K children of a node, V vocabulary, E embedding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import adaptive
from tv_jax.drafting.adaptive import Chosen
from tv_jax.drafting.drafter import Committed, Drafter, last_committed
from tv_jax.drafting.kinds import place_of
from tv_jax.models import Cache, mask
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_PARENT, ROOT, Adaptive, Topology, Tree


class Drafted(NamedTuple):
  """A drafted tree for each row."""

  tokens: jax.Array  # [B, N] int32; the root is the last committed token
  laws: jax.Array  # [B, M, V] probabilities after each node with children
  topology: Topology | None  # [B, ..] of an adaptive tree; None if static
  root: jax.Array  # [B] slot of the root in the draft's cache
  cache: Cache | None  # the draft's cache
  fault: jax.Array  # [B] bool: a confidence or a policy's score was NaN


class Growing(NamedTuple):
  """Inputs of drafting that stay the same from level to level."""

  drafter: Drafter
  params: dict  # parameters of the draft model
  proposal: Proposal  # how siblings are drawn
  law: Callable[[jax.Array], jax.Array]  # logits [.., V] -> probabilities
  keys: jax.Array  # [B]
  active: jax.Array  # [B] bool: whether the row has not finished


class _Level(NamedTuple):
  """The nodes of a level that may have children."""

  nodes: np.ndarray  # [m] indices in the tree
  # [B, m] adaptive: scores, 0 for no node; static: bool, whether it exists
  score: jax.Array
  related: jax.Array | np.ndarray  # [.., m, M] bool: node or ancestor
  laws: jax.Array  # [B, m, V] draft probabilities after each node
  features: jax.Array  # [B, m, E]


def grow(
  growing: Growing,
  tree: Tree | Adaptive,
  committed: Committed,
  length: jax.Array,
  cache: Cache,
) -> Drafted:
  """Drafts a tree for each row.

  The nodes of a level are fixed before any of their tokens is drawn: by a
  static tree, or by the policy of an adaptive tree from the probabilities at
  the level above. Nodes that may have children are then run through the draft.

  Args:
    growing: The drafter, and how it draws.
    tree: The static tree, or the places and policy of adaptive trees.
    committed: The tokens committed since the last draft.
    length: [B] Number of committed tokens.
    cache: The draft's cache.
  """
  static = isinstance(tree, Tree)
  keys = _keys(growing, tree)
  level, cache = _root(growing, tree, committed, length, cache)
  root = cache.length - 1
  tokens, laws, parents = [last_committed(committed)], [level.laws], []
  fault = jnp.zeros(len(root), bool)
  for depth, nodes in enumerate(tree.levels[1:], 1):
    if growing.drafter.stop:
      level, undefined = _stop_unsure(growing.drafter, level)
      fault |= undefined
    if static:
      chosen = _static_level(tree, nodes, level)
      count = sizes = tree.num_children[level.nodes]
    else:
      choose = functools.partial(adaptive.choose, tree, depth)
      chosen = jax.vmap(choose)(level.laws, level.score)
      count, sizes = _count(chosen, level.score), tree.family_sizes
      above = chosen.above + level.nodes[0]
      parents.append(jnp.where(chosen.exists, above, NO_PARENT))
      fault |= chosen.fault
    drawn = _draw(
      growing.proposal,
      keys[:, level.nodes],
      level.laws,
      chosen,
      np.unique(sizes).tolist(),
      count,
    )
    tokens.append(drawn)
    if not np.isin(tree.inner, nodes).any():
      break
    level, cache = _extend(
      growing, tree, depth, level, chosen, drawn, root, cache
    )
    laws.append(level.laws)
  topology = None
  if not static:
    parent = jnp.concatenate([jnp.full_like(tokens[0], NO_PARENT), *parents], 1)
    topology = jax.vmap(functools.partial(adaptive.topology, tree))(parent)
  return Drafted(
    tokens=jnp.concatenate(tokens, axis=1),
    laws=jnp.concatenate(laws, axis=1),
    topology=topology,
    root=root,
    # A plain cache: drops the outputs that in_one_pass.py stores with it.
    cache=Cache(keys=cache.keys, values=cache.values, length=cache.length),
    fault=fault,
  )


def _keys(growing: Growing, tree: Tree | Adaptive) -> jax.Array:
  """Returns a key for each node that may have children: [B, nodes].

  All are folded at once, since a loop for each level takes long to compile.
  """
  fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
  nodes = np.arange(np.max(tree.inner, initial=ROOT) + 1, dtype=np.int32)
  return fold(growing.keys, nodes)


def _root(
  growing: Growing, tree: Tree | Adaptive, committed, length, cache: Cache
) -> tuple[_Level, Cache]:
  """Processes the committed tokens, and returns the level of the root."""
  logits, features, cache = growing.drafter.begin(
    growing.params, committed, length, cache
  )
  B, M = len(logits), len(tree.inner)
  score = jnp.ones((B, 1), bool)
  if isinstance(tree, Adaptive):
    score = growing.active[:, None].astype(jnp.float32)
  related = jnp.zeros((B, 1, M), bool).at[:, :, ROOT].set(True)
  laws = growing.law(logits)
  return _Level(np.array([ROOT]), score, related, laws, features), cache


def _stop_unsure(drafter: Drafter, level: _Level):
  """Lets nodes with a confidence below `drafter.stop` have no children.

  Returns:
    The level, and for each row [B] whether a confidence was NaN. A NaN is less
    than any minimum.
  """
  confidence = drafter.confidence(level.features)
  assert confidence is not None
  score = level.score
  undefined = jnp.any(jnp.isnan(confidence) & score.astype(bool), axis=-1)
  kept = jnp.where(confidence >= drafter.stop, score, jnp.zeros_like(score))
  return level._replace(score=kept), undefined


def _static_level(tree: Tree, nodes: range, level: _Level) -> Chosen:
  """Returns the nodes of a static tree's level: all whose parent exists."""
  at = slice(nodes.start, nodes.stop)
  above = np.searchsorted(level.nodes, tree.parent[at])
  exists = level.score[:, above]
  return Chosen(
    above=above,
    rank=tree.rank[at],
    exists=exists,
    score=exists,
    fault=jnp.bool(False),
  )


def _extend(
  growing: Growing,
  tree: Tree | Adaptive,
  depth: int,
  level: _Level,
  chosen: Chosen,
  drawn: jax.Array,
  root: jax.Array,
  cache: Cache,
) -> tuple[_Level, Cache]:
  """Runs the draft on those nodes of a level that may have children.

  `level` is the level above. `chosen` and `drawn` [B, n] are the nodes of this
  level and their tokens, and `root` [B] is the root's slot in the cache.
  """
  nodes = tree.levels[depth]
  inner = tree.inner[np.isin(tree.inner, nodes)]
  place = inner - nodes.start
  score = jnp.where(
    drawn == INVALID, jnp.zeros_like(chosen.score), chosen.score
  )
  above = chosen.above[..., place]
  if isinstance(tree, Tree):
    related = jnp.asarray(tree.ancestors[inner][:, tree.inner])
    features = level.features[:, above]
  else:
    itself = np.eye(len(tree.inner), dtype=bool)[inner][None]
    above = above[..., None]
    related = jnp.take_along_axis(level.related, above, axis=1) | itself
    features = jnp.take_along_axis(level.features, above, axis=1)
  tokens = drawn[:, place]
  logits, features, cache = growing.drafter.extend(
    growing.params,
    tokens,
    features,
    jnp.broadcast_to((root + depth)[:, None], tokens.shape),
    mask.tree(root, related, cache.slots),
    cache,
  )
  laws = growing.law(logits)
  return _Level(inner, score[:, place], related, laws, features), cache


def _count(chosen: Chosen, score: jax.Array) -> jax.Array:
  """Counts the chosen children of each node above: [B, m]."""
  rows = jnp.arange(len(score), dtype=jnp.int32)[:, None]
  count = jnp.zeros(score.shape, jnp.int32)
  return count.at[rows, chosen.above].add(chosen.exists.astype(jnp.int32))


def _draw(proposal, keys, laws, chosen: Chosen, sizes, count) -> jax.Array:
  """Draws the tokens of a level: [B, n], INVALID where there is no node.

  Args:
    proposal: How siblings are drawn.
    keys: [B, m] Keys of the nodes above.
    laws: [B, m, V] Draft probabilities after the nodes above.
    chosen: The nodes of the level.
    sizes: Possible numbers of children of a node, ascending.
    count: [B, m] or [m] Number of children of each node above.
  """
  B, m, V = laws.shape

  def families(k):
    # One vmap over a merged axis; nested vmaps take longer to trace.
    draw = jax.vmap(functools.partial(proposal.draw, k=k))
    return draw(keys.reshape(B * m), laws.reshape(B * m, V)).reshape(B, m, k)

  most = sizes[-1]
  if proposal.nested:
    drawn = families(most)
  else:  # the first sibling's distribution depends on the number of siblings
    drawn = jnp.full((B, m, most), INVALID, jnp.int32)
    for k in sizes:
      family = jnp.pad(
        families(k), ((0, 0), (0, 0), (0, most - k)), constant_values=INVALID
      )
      drawn = jnp.where((count == k)[..., None], family, drawn)
  rank = chosen.rank
  place = jnp.broadcast_to(chosen.above * most + rank, (B, rank.shape[-1]))
  tokens = jnp.take_along_axis(drawn.reshape(B, m * most), place, axis=1)
  return jnp.where(chosen.exists, tokens, INVALID)


def to_all_nodes(tree: Tree | Adaptive, laws: jax.Array) -> jax.Array:
  """Expands [.., M, V] to all nodes, [.., N, V]; leaves get arbitrary rows."""
  return laws[..., place_of(tree), :]
