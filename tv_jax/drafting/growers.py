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
from tv_jax.tree import NO_PARENT, ROOT, Adaptive, Topology, Tree


class Drafted(NamedTuple):
  """A tree for each row, as it was drafted."""

  tokens: jax.Array  # [B, N] int32; the root is the last committed token
  laws: jax.Array  # [B, M, V] of the token after each inner node
  topology: Topology | None  # [B, ..] of each row; None: that of the plan
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


def _confidence(drafter, features, exists):
  """Asks the draft how sure it is after the nodes of a level.

  Returns:
    What it says [B, n], or None; where nothing is to be drafted below [B, n],
    since a NaN is never sure; and whether there is a NaN [B].
  """
  sure = drafter.confidence(features)
  if sure is None:
    return None, jnp.bool(False), jnp.bool(False)
  ends = ~(sure >= drafter.stop) if drafter.stop else jnp.bool(False)
  return sure, ends, jnp.any(jnp.isnan(sure) & exists, axis=-1)


def _draw(growing, nodes, laws, above, rank, sizes, count) -> jax.Array:
  """Draws the tokens of a level: [B, n].

  Args:
    growing: The drafter.
    nodes: [m] the nodes above, by which the keys go.
    laws: [B, m, V] after these.
    above: [B, n] or [n] the place of each one's parent among these.
    rank: [B, n] or [n].
    sizes: How many children a node may have, rising.
    count: [B, m] or [m] how many each has.
  """
  B, m, V = laws.shape
  keys = growing.keys[:, nodes].reshape(B * m)

  def families(k):
    # In one axis: one within another takes longer to trace.
    draw = jax.vmap(functools.partial(growing.proposal.draw, k=k))
    return draw(keys, laws.reshape(B * m, V)).reshape(B, m, k)

  most = sizes[-1]
  if growing.proposal.nested:
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


# Trees that are known beforehand.


def _static(growing, tree, drawn, above: _Processed) -> Drafted:
  root = above.cache.length - 1
  tokens, laws, inner = [drawn], [above.laws], np.array([ROOT])
  fault = jnp.zeros(len(root), bool) if growing.drafter.stop else None
  for level_above, level in itertools.pairwise(tree.levels):
    parents, counts = tree.parent[level.start : level.stop], tree.num_children
    place = np.searchsorted(inner, parents)
    below = _draw(
      growing,
      inner,
      above.laws,
      place,
      tree.rank[level.start : level.stop],
      np.unique(counts[inner]).tolist(),
      counts[inner],
    )
    # Nothing hangs below what could not be drawn.
    none = drawn[:, parents - level_above.start] == INVALID
    if fault is not None:
      exists = drawn[:, inner - level_above.start] != INVALID
      _, ends, nan = _confidence(growing.drafter, above.features, exists)
      none, fault = none | ends[:, place], fault | nan
    drawn = jnp.where(none, INVALID, below)
    tokens.append(drawn)
    inner_above, inner = inner, tree.inner[np.isin(tree.inner, level)]
    if not len(inner):
      break
    above = _process(
      growing,
      int(tree.depth[level.start]),
      root,
      drawn[:, inner - level.start],
      above.features[:, np.searchsorted(inner_above, tree.parent[inner])],
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
    fault=fault,
  )


# Trees that the laws shape, another one in each row.


class _Level(NamedTuple):
  """A level that was drawn."""

  tokens: jax.Array  # [B, n]
  parent: jax.Array  # [B, n] their parents' places
  worth: jax.Array  # [B, n] 0 where nothing is
  place: jax.Array  # [B, n] the place of each one's parent in the level above
  fault: jax.Array  # [B] bool: a NaN of the policy or of a confidence


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

    above, below = _if(
      _goes_on(level.worth), go_on, above.features, above.cache
    )
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
  sure, ends, fault = _confidence(growing.drafter, above.features, worth > 0)
  chosen = jax.vmap(functools.partial(adaptive.choose, shape, depth))(
    above.laws, jnp.where(ends, 0, worth), sure
  )
  rows = jnp.arange(len(worth), dtype=jnp.int32)[:, None]
  count = jnp.zeros(worth.shape, jnp.int32)
  count = count.at[rows, chosen.above].add(chosen.exists.astype(jnp.int32))
  drawn = _draw(
    growing,
    places,
    above.laws,
    chosen.above,
    chosen.rank,
    shape.family_sizes,
    count,
  )
  drawn = jnp.where(chosen.exists, drawn, INVALID)
  return _Level(
    tokens=drawn,
    parent=jnp.where(chosen.exists, chosen.above + places[0], NO_PARENT),
    worth=jnp.where(drawn == INVALID, 0, chosen.worth),
    place=chosen.above,
    fault=chosen.fault | fault,
  )


def _goes_on(worth) -> jax.Array:
  """[] whether anything is in any row of a level."""
  return jnp.any(worth > 0)


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
