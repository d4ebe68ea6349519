"""Trees of drafted tokens, grown level by level.

Axes: B batch, N nodes, M nodes that have children, V vocabulary.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting.kinds import Independent, News, OnFeatures, place_of
from tv_jax.models import Cache, mask
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_CHILD, ROOT, Tree


class Draft(NamedTuple):
  """A tree of drafted tokens, and the laws that they were drawn from."""

  tokens: jax.Array  # [B, N] int32; the root is the last committed token
  laws: jax.Array  # [B, M, V] of the token after each inner node


def grow(
  drafter: Independent | OnFeatures,
  params,
  tree: Tree,
  proposal: Proposal,
  law: Callable[[jax.Array], jax.Array],
  keys: jax.Array,
  news: News,
  length: jax.Array,
  cache: Cache,
) -> tuple[Draft, jax.Array, Cache]:
  """Drafts a tree for each row.

  Args:
    drafter: One of `KINDS`, with its model's apply.
    params: The model's.
    tree: The tree.
    proposal: How siblings are drawn.
    law: From logits [.., V] to what is drawn from, and handed on as it is.
    keys: [B] one of each row; a node's is folded from its row's.
    news: What was committed since the last draft.
    length: [B] how many tokens are committed.
    cache: The draft's.

  Returns:
    The draft, the slot [B] of the root, and the cache.
  """
  logits, features, cache = drafter.begin(params, news, length, cache)
  root = cache.length - 1
  last = jnp.maximum(news.gain, 1)[:, None]
  drawn = jnp.take_along_axis(news.tokens, last, axis=1)
  tokens, laws, inner = [drawn], [], np.array([ROOT])
  for above, level in itertools.pairwise(tree.levels):
    laws.append(law(logits))
    below = _draw(proposal, tree, keys, inner, laws[-1])
    # Nothing hangs below what could not be drawn.
    parents = drawn[:, tree.parent[np.array(level)] - above.start]
    drawn = jnp.where(parents == INVALID, INVALID, below)
    tokens.append(drawn)
    before, inner = inner, tree.inner[np.isin(tree.inner, level)]
    if not len(inner):
      break
    depth = int(tree.depth[level.start])
    related = jnp.asarray(tree.ancestors[inner][:, tree.inner])
    logits, features, cache = drafter.extend(
      params,
      drawn[:, inner - level.start],
      features[:, np.searchsorted(before, tree.parent[inner])],
      jnp.broadcast_to((root + depth)[:, None], (len(root), len(inner))),
      mask.tree(root, related, cache.slots),
      cache,
    )
  draft = Draft(
    tokens=jnp.concatenate(tokens, axis=1), laws=jnp.concatenate(laws, axis=1)
  )
  return draft, root, cache


def spread(tree: Tree, laws: jax.Array) -> jax.Array:
  """[.., N, V] the laws [.., M, V] of inner nodes; leaves get any row."""
  return laws[..., place_of(tree), :]


def _draw(proposal, tree, keys, nodes, laws):
  """[B, n] the tokens of the next level; `laws` [B, m, V] are of `nodes`."""
  counts = tree.num_children[nodes]
  sizes = [counts.max()] if proposal.nested else np.unique(counts)
  rows, children = [], []
  for k in sizes:
    own = np.flatnonzero((counts == k) | proposal.nested).astype(np.int32)
    fold = jax.vmap(jax.random.fold_in, (None, 0))
    node_keys = jax.vmap(fold, (0, None))(keys, nodes[own])
    draw = functools.partial(proposal.draw, k=int(k))
    drawn = jax.vmap(jax.vmap(draw))(node_keys, laws[:, own])
    rows.append(drawn.reshape(len(keys), -1))
    children.append(tree.children[nodes[own], :k].ravel())
  children = np.concatenate(children)
  # In level order, without those that a node does not have.
  order = np.argsort(children, kind="stable").astype(np.int32)
  order = order[children[order] != NO_CHILD]
  return jnp.concatenate(rows, axis=1)[:, order]
