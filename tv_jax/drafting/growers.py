"""Trees of drafted tokens, grown level by level.

Axes: B batch, N nodes, M nodes that have children, n nodes of a level,
K children of a node, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import adaptive
from tv_jax.drafting.drafter import Committed, Drafter, last_committed
from tv_jax.drafting.kinds import place_of
from tv_jax.models import Cache, mask
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_PARENT, ROOT, Adaptive, Topology, Tree


class Drafted(NamedTuple):
  """A tree for each row, as it was drafted."""

  tokens: jax.Array  # [B, N] int32; the root is the last committed token
  laws: jax.Array  # [B, M, V] of the token after each inner node
  topology: Topology | None  # [B, ..] of each row; None: a static tree
  root: jax.Array  # [B] the root's slot in the draft's cache
  cache: Cache | None  # the draft's
  # [B] bool: a NaN of what shaped it; None: nothing did
  fault: jax.Array | None = None


class Growing(NamedTuple):
  """What trees are drafted with."""

  drafter: Drafter
  params: dict  # its model's
  proposal: Proposal  # how siblings are drawn
  law: Callable[[jax.Array], jax.Array]  # logits [.., V] to what is drawn from
  keys: jax.Array  # [B]
  going: jax.Array  # [B] bool: whether the row is not done


def grow(
  growing: Growing,
  tree: Tree | Adaptive,
  committed: Committed,
  length: jax.Array,
  cache: Cache,
) -> Drafted:
  """Drafts a tree for each row.

  Which nodes a level has is settled before any of its tokens is drawn: by a
  static tree, or by the policy of an adaptive one, from the laws above. Then
  those of its nodes that may have children are processed.

  Args:
    growing: The drafter, and how it draws.
    tree: The trees' shape, or what shapes them.
    committed: What was committed since the last draft.
    length: [B] how many tokens are committed.
    cache: The draft's.
  """
  drafter = growing.drafter
  static = isinstance(tree, Tree)
  # All at once: a generator's loop for each level takes long to compile.
  fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
  nodes = np.arange(np.max(tree.inner, initial=ROOT) + 1, dtype=np.int32)
  keys = fold(growing.keys, nodes)
  logits, features, cache = drafter.begin(
    growing.params, committed, length, cache
  )
  root = cache.length - 1
  tokens, laws = [last_committed(committed)], [growing.law(logits)]
  parents = []  # of adaptive trees
  shaped = not static or bool(drafter.stop)  # by what the draft says
  fault = jnp.zeros(len(root), bool)
  # Of the level above: its nodes that may have children, what each is worth (0
  # or False where there is none), and which inner nodes each is or is below.
  inner, M = np.array([ROOT]), len(tree.inner)
  worth = jnp.ones(tokens[0].shape, bool)
  if not static:
    worth = growing.going[:, None].astype(jnp.float32)
  related = jnp.zeros((len(root), 1, M), bool).at[:, :, ROOT].set(True)
  for depth, level in enumerate(tree.levels[1:], 1):
    if drafter.stop:  # a NaN is never sure
      sure = drafter.confidence(features)
      assert sure is not None
      fault |= jnp.any(jnp.isnan(sure) & worth.astype(bool), axis=-1)
      worth = jnp.where(sure >= drafter.stop, worth, jnp.zeros_like(worth))
    if static:
      chosen = _known(tree, level, inner, worth)
      count, sizes = tree.num_children[inner], tree.num_children[inner]
    else:
      choose = functools.partial(adaptive.choose, tree, depth)
      chosen = jax.vmap(choose)(laws[-1], worth)
      count, sizes = _count(chosen, worth), tree.family_sizes
      parent = jnp.where(chosen.exists, chosen.above + inner[0], NO_PARENT)
      parents.append(parent)
      fault |= chosen.fault
    drawn = _draw(
      growing.proposal,
      keys[:, inner],
      laws[-1],
      chosen.above,
      chosen.rank,
      np.unique(sizes).tolist(),
      count,
    )
    drawn = jnp.where(chosen.exists, drawn, INVALID)
    tokens.append(drawn)
    inner = tree.inner[np.isin(tree.inner, level)]
    if not len(inner):
      break
    place = inner - level.start
    worth = jnp.where(
      drawn == INVALID, jnp.zeros_like(chosen.worth), chosen.worth
    )
    worth, above = worth[:, place], chosen.above[..., place]
    if static:
      related = jnp.asarray(tree.ancestors[inner][:, tree.inner])
      features = features[:, above]
    else:
      itself, above = np.eye(M, dtype=bool)[inner][None], above[..., None]
      related = jnp.take_along_axis(related, above, axis=1) | itself
      features = jnp.take_along_axis(features, above, axis=1)
    drawn = drawn[:, place]
    logits, features, cache = drafter.extend(
      growing.params,
      drawn,
      features,
      jnp.broadcast_to((root + depth)[:, None], drawn.shape),
      mask.tree(root, related, cache.slots),
      cache,
    )
    laws.append(growing.law(logits))
  topology = None
  if not static:
    parent = jnp.concatenate([jnp.full_like(tokens[0], NO_PARENT), *parents], 1)
    topology = jax.vmap(functools.partial(adaptive.topology, tree))(parent)
  return Drafted(
    tokens=jnp.concatenate(tokens, axis=1),
    laws=jnp.concatenate(laws, axis=1),
    topology=topology,
    root=root,
    # What a pass left for the levels of this tree goes with it.
    cache=Cache(keys=cache.keys, values=cache.values, length=cache.length),
    fault=fault if shaped else None,
  )


def _known(tree: Tree, level: range, inner, worth) -> adaptive.Chosen:
  """Returns a level of a static tree: nothing is below what is not there."""
  nodes = slice(level.start, level.stop)
  above = np.searchsorted(inner, tree.parent[nodes])
  exists = worth[:, above]
  return adaptive.Chosen(
    above=above,
    rank=tree.rank[nodes],
    exists=exists,
    worth=exists,
    fault=jnp.bool(False),
  )


def _count(chosen: adaptive.Chosen, worth) -> jax.Array:
  """Counts the chosen children of each node above: [B, m]."""
  rows = jnp.arange(len(worth), dtype=jnp.int32)[:, None]
  count = jnp.zeros(worth.shape, jnp.int32)
  return count.at[rows, chosen.above].add(chosen.exists.astype(jnp.int32))


def _draw(proposal, keys, laws, above, rank, sizes, count) -> jax.Array:
  """Draws the tokens of a level: [B, n].

  Args:
    proposal: How siblings are drawn.
    keys: [B, m] of the nodes above.
    laws: [B, m, V] after these.
    above: [B, n] or [n] the place of each one's parent among these.
    rank: [B, n] or [n].
    sizes: How many children a node may have, rising.
    count: [B, m] or [m] how many each has.
  """
  B, m, V = laws.shape

  def families(k):
    # In one axis: one within another takes longer to trace.
    draw = jax.vmap(functools.partial(proposal.draw, k=k))
    return draw(keys.reshape(B * m), laws.reshape(B * m, V)).reshape(B, m, k)

  most = sizes[-1]
  if proposal.nested:
    drawn = families(most)
  else:  # what the first is drawn from depends on how many there are
    drawn = jnp.full((B, m, most), INVALID, jnp.int32)
    for k in sizes:
      family = jnp.pad(
        families(k), ((0, 0), (0, 0), (0, most - k)), constant_values=INVALID
      )
      drawn = jnp.where((count == k)[..., None], family, drawn)
  place = jnp.broadcast_to(above * most + rank, (B, rank.shape[-1]))
  return jnp.take_along_axis(drawn.reshape(B, m * most), place, axis=1)


def spread(tree: Tree | Adaptive, laws: jax.Array) -> jax.Array:
  """Gives each node its law, [.., N, V] of [.., M, V]; leaves get any row."""
  return laws[..., place_of(tree), :]
