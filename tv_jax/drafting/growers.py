"""Trees of drafted tokens, grown level by level.

Axes: B batch, N nodes, M nodes that have children, n nodes of a level,
K children of a node, V vocabulary.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import adaptive
from tv_jax.drafting.drafter import Drafter, News, committed
from tv_jax.drafting.kinds import place_of
from tv_jax.models import Cache, mask
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import NO_CHILD, NO_PARENT, ROOT, Adaptive, Topology, Tree


class Drafted(NamedTuple):
  """A tree for each row, as it was drafted."""

  tokens: jax.Array  # [B, N] int32; the root is the last committed token
  laws: jax.Array  # [B, M, V] of the token after each inner node
  topology: Topology | None  # [B, ..] of each row; None: that of the plan
  root: jax.Array  # [B] the root's slot in the draft's cache
  cache: Cache | None  # the draft's
  fault: jax.Array | None = None  # [B] bool: of what shaped it; None: nothing


class Growing(NamedTuple):
  """What trees are drafted with."""

  drafter: Drafter
  params: dict  # its model's
  proposal: Proposal  # how siblings are drawn
  law: Callable[[jax.Array], jax.Array]  # logits [.., V] to what is drawn from
  keys: jax.Array  # [B] one of each row; `grow` makes them [B, n], by node
  going: jax.Array  # [B] bool: whether the row is not done


class _Processed(NamedTuple):
  """What the draft says after the nodes of a level."""

  laws: jax.Array  # [B, n, V]
  features: jax.Array  # [B, n, E]
  cache: Cache


def grow(
  growing: Growing,
  tree: Tree | Adaptive,
  news: News,
  length: jax.Array,
  cache: Cache,
) -> Drafted:
  """Drafts a tree for each row.

  Args:
    growing: The drafter, and how it draws.
    tree: The trees' shape, or what shapes them.
    news: What was committed since the last draft.
    length: [B] how many tokens are committed.
    cache: The draft's.
  """
  # All at once: a generator's loop for each level takes long to compile.
  fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
  nodes = np.arange(np.max(tree.inner, initial=ROOT) + 1, dtype=np.int32)
  growing = growing._replace(keys=fold(growing.keys, nodes))
  logits, features, cache = growing.drafter.begin(
    growing.params, news, length, cache
  )
  above = _Processed(growing.law(logits), features, cache)
  grower = _shaped if isinstance(tree, Adaptive) else _static
  drafted = grower(growing, tree, committed(news), above)
  # What a pass left for the levels of this tree goes with it.
  last = cast(Cache, drafted.cache)
  kept = Cache(keys=last.keys, values=last.values, length=last.length)
  return drafted._replace(cache=kept)


def _process(growing, depth, root, tokens, features, related, cache):
  """Processes the nodes of a level.

  Args:
    growing: The drafter.
    depth: Of the nodes.
    root: [B] the root's slot.
    tokens: [B, n].
    features: [B, n, E] their parents'.
    related: [B, n, M] or [n, M] whether an inner node is a node or above it.
    cache: The draft's.
  """
  logits, features, cache = growing.drafter.extend(
    growing.params,
    tokens,
    features,
    jnp.broadcast_to((root + depth)[:, None], tokens.shape),
    mask.tree(root, related, cache.slots),
    cache,
  )
  return _Processed(growing.law(logits), features, cache)


def _ends(drafter, features) -> jax.Array | None:
  """[B, n] below which nodes nothing is to be drafted; None: below none."""
  return drafter.confidence(features) < drafter.stop if drafter.stop else None


# Trees that are known beforehand.


def _static(growing, tree, drawn, above: _Processed) -> Drafted:
  root = above.cache.length - 1
  tokens, laws, inner = [drawn], [above.laws], np.array([ROOT])
  for level_above, level in itertools.pairwise(tree.levels):
    below = _draw(growing, tree, inner, above.laws)
    # Nothing hangs below what could not be drawn.
    parents = tree.parent[np.array(level)]
    none = drawn[:, parents - level_above.start] == INVALID
    if (ends := _ends(growing.drafter, above.features)) is not None:
      none |= ends[:, np.searchsorted(inner, parents)]
    drawn = jnp.where(none, INVALID, below)
    tokens.append(drawn)
    inner_above, inner = inner, tree.inner[np.isin(tree.inner, level)]
    if not len(inner):
      break
    place = np.searchsorted(inner_above, tree.parent[inner])
    above = _process(
      growing,
      int(tree.depth[level.start]),
      root,
      drawn[:, inner - level.start],
      above.features[:, place],
      jnp.asarray(tree.ancestors[inner][:, tree.inner]),
      above.cache,
    )
    laws.append(above.laws)
  return Drafted(
    tokens=jnp.concatenate(tokens, axis=1),
    laws=jnp.concatenate(laws, axis=1),
    topology=None,
    root=root,
    cache=above.cache,
  )


def _draw(growing, tree, nodes, laws) -> jax.Array:
  """[B, n] the tokens of the next level; `laws` [B, m, V] are of `nodes`."""
  counts, nested = tree.num_children[nodes], growing.proposal.nested
  tokens, children = [], []
  for k in [counts.max()] if nested else np.unique(counts):
    some = np.flatnonzero((counts == k) | nested).astype(np.int32)
    drawn = _draw_families(growing, nodes[some], laws[:, some], int(k))
    tokens.append(drawn.reshape(len(drawn), -1))
    children.append(tree.children[nodes[some], :k].ravel())
  children = np.concatenate(children)
  # In level order, without those that a node does not have.
  order = np.argsort(children, kind="stable").astype(np.int32)
  order = order[children[order] != NO_CHILD]
  return jnp.concatenate(tokens, axis=1)[:, order]


def _draw_families(growing, nodes, laws, k: int) -> jax.Array:
  """[B, n, k] children of the nodes [n], each from a key of its own."""
  B, n, V = laws.shape
  # In one axis: one within another takes longer to trace.
  draw = jax.vmap(functools.partial(growing.proposal.draw, k=k))
  keys = growing.keys[:, nodes].reshape(B * n)
  return draw(keys, laws.reshape(B * n, V)).reshape(B, n, k)


# Trees that the laws shape, another one in each row.


class _Level(NamedTuple):
  """A level that was drawn."""

  tokens: jax.Array  # [B, n]
  parent: jax.Array  # [B, n] their parents' places
  worth: jax.Array  # [B, n] 0 where nothing is
  place: jax.Array  # [B, n] the place of each one's parent in the level above
  fault: jax.Array  # [B] bool: of the policy


def _shaped(growing, shape, drawn, above: _Processed) -> Drafted:
  """Grows a tree in each row.

  A level is chosen before any of its tokens is drawn. All places but those of
  the last level are processed, whether anything is there or not, as long as
  there is anything in some row that is not done; what is below is skipped.
  """
  root, M = above.cache.length - 1, len(shape.inner)
  worth = growing.going[:, None].astype(jnp.float32)
  levels, laws = [_draw_level(growing, shape, 1, worth, above)], [above.laws]
  related = jnp.zeros((len(drawn), 1, M), bool).at[:, :, ROOT].set(True)
  for depth, places in enumerate(shape.levels[1:-1], 1):
    level = levels[-1]
    parent = level.place[..., None]
    itself = np.eye(M, dtype=bool)[places.start : places.stop]
    related = jnp.take_along_axis(related, parent, axis=1) | itself[None]

    def go_on(
      features, cache, depth=depth, level=level, parent=parent, related=related
    ):
      features = jnp.take_along_axis(features, parent, axis=1)
      above = _process(
        growing, depth, root, level.tokens, features, related, cache
      )
      return above, _draw_level(growing, shape, depth + 1, level.worth, above)

    goes_on = jnp.any(level.worth > 0)
    above, below = _if(goes_on, go_on, above.features, above.cache)
    laws.append(above.laws)
    levels.append(below)
  parent = jnp.concatenate([level.parent for level in levels], axis=1)
  parent = jnp.pad(parent, ((0, 0), (1, 0)), constant_values=NO_PARENT)
  return Drafted(
    tokens=jnp.concatenate([drawn, *(x.tokens for x in levels)], axis=1),
    laws=jnp.concatenate(laws, axis=1),
    topology=jax.vmap(functools.partial(adaptive.topology, shape))(parent),
    root=root,
    cache=above.cache,
    fault=functools.reduce(jnp.logical_or, (level.fault for level in levels)),
  )


def _draw_level(growing, shape, depth, worth, above: _Processed) -> _Level:
  """The level at a depth, of what is known of the one above, and its worth."""
  places = np.array(shape.levels[depth - 1], np.int32)
  if (ends := _ends(growing.drafter, above.features)) is not None:
    worth = jnp.where(ends, 0, worth)
  chosen = jax.vmap(functools.partial(adaptive.choose, shape, depth))(
    above.laws, worth, growing.drafter.confidence(above.features)
  )
  drawn = _draw_chosen(growing, shape.most, places, above.laws, chosen)
  drawn = jnp.where(chosen.exists, drawn, INVALID)
  return _Level(
    tokens=drawn,
    parent=jnp.where(chosen.exists, chosen.above + places[0], NO_PARENT),
    worth=jnp.where(drawn == INVALID, 0, chosen.worth),
    place=chosen.above,
    fault=chosen.fault,
  )


def _draw_chosen(growing, most, nodes, laws, chosen) -> jax.Array:
  """[B, n] the tokens of the chosen children; `laws` [B, m, V] of `nodes`."""
  if growing.proposal.nested:
    drawn = _draw_families(growing, nodes, laws, most)
  else:  # what the first is drawn from depends on how many there are
    rows = jnp.arange(len(laws), dtype=jnp.int32)[:, None]
    count = jnp.zeros(laws.shape[:2], jnp.int32)
    count = count.at[rows, chosen.above].add(chosen.exists.astype(jnp.int32))
    drawn = jnp.full((*laws.shape[:2], most), INVALID, jnp.int32)
    for k in range(1, most + 1):
      family = _draw_families(growing, nodes, laws, k)
      family = jnp.pad(
        family, ((0, 0), (0, 0), (0, most - k)), constant_values=INVALID
      )
      drawn = jnp.where((count == k)[..., None], family, drawn)
  place = chosen.above * most + chosen.rank
  return jnp.take_along_axis(drawn.reshape(len(laws), -1), place, axis=1)


def _if(wanted, go_on, features, cache):
  """Returns what `go_on` does, or else nothing, and the cache as it was.

  A loop of one turn: a `cond` would copy the cache, which a loop updates where
  it is. Where nothing is no law is read; uniform ones are laws, at no cost.
  """
  above, below = jax.eval_shape(go_on, features, cache)
  empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), below)
  empty = empty._replace(
    tokens=jnp.full_like(empty.tokens, INVALID),
    parent=jnp.full_like(empty.parent, NO_PARENT),
  )
  nothing = _Processed(
    laws=jnp.full(above.laws.shape, 1 / above.laws.shape[-1], above.laws.dtype),
    features=jnp.zeros(above.features.shape, above.features.dtype),
    cache=cache,
  )
  return jax.lax.while_loop(
    lambda carry: carry[0],
    lambda carry: (jnp.bool(False), go_on(features, carry[1][0].cache)),
    (wanted, (nothing, empty)),
  )[1]


def spread(tree: Tree | Adaptive, laws: jax.Array) -> jax.Array:
  """Gives each node its law, [.., N, V] of [.., M, V]; leaves get any row."""
  return laws[..., place_of(tree), :]
