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
from tv_jax.drafting.drafter import Drafter, News
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
  # [B] bool: a NaN of what shaped it; None: nothing did
  fault: jax.Array | None = None


class Growing(NamedTuple):
  """What trees are drafted with."""

  drafter: Drafter  # with its model's apply
  params: dict  # the model's
  proposal: Proposal  # how siblings are drawn
  law: Callable[[jax.Array], jax.Array]  # logits [.., V] to what is drawn from
  keys: jax.Array  # [B] one of each row; `grow` makes them [B, n], by node
  going: jax.Array  # [B] bool: whether the row is not done


def grow(
  how: Growing,
  tree: Tree | Adaptive,
  news: News,
  length: jax.Array,
  cache: Cache,
) -> Drafted:
  """Drafts a tree for each row.

  Args:
    how: The drafter, and how it draws.
    tree: The trees' shape, or what shapes them.
    news: What was committed since the last draft.
    length: [B] how many tokens are committed.
    cache: The draft's.

  Returns:
    The trees.
  """
  # All at once: a generator's loop for each level takes long to compile.
  fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
  nodes = np.arange(np.max(tree.inner, initial=ROOT) + 1, dtype=np.int32)
  how = how._replace(keys=fold(how.keys, nodes))
  logits, features, cache = how.drafter.begin(how.params, news, length, cache)
  last = jnp.maximum(news.gain, 1)[:, None]
  token = jnp.take_along_axis(news.tokens, last, axis=1)
  grower = _adaptive if isinstance(tree, Adaptive) else _static
  drafted = grower(how, tree, token, logits, features, cache)
  # What a pass left for the levels of this tree goes with it.
  last = cast(Cache, drafted.cache)
  kept = Cache(keys=last.keys, values=last.values, length=last.length)
  return drafted._replace(cache=kept)


def _static(how, tree, drawn, logits, features, cache) -> Drafted:
  """A tree that is known beforehand."""
  root = cache.length - 1
  tokens, laws, inner = [drawn], [], np.array([ROOT])
  fault = jnp.zeros(len(root), bool) if how.drafter.stop else None
  for above, level in itertools.pairwise(tree.levels):
    laws.append(how.law(logits))
    below = _draw(how.proposal, tree, how.keys, inner, laws[-1])
    # Nothing hangs below what could not be drawn.
    parents = tree.parent[np.array(level)]
    none = drawn[:, parents - above.start] == INVALID
    if how.drafter.stop:
      there = drawn[:, inner - above.start] != INVALID
      sure = how.drafter.confidence(features)
      fault |= _is_nan(sure, there)
      none |= _ends(how.drafter, sure)[:, np.searchsorted(inner, parents)]
    drawn = jnp.where(none, INVALID, below)
    tokens.append(drawn)
    before, inner = inner, tree.inner[np.isin(tree.inner, level)]
    if not len(inner):
      break
    depth = int(tree.depth[level.start])
    related = jnp.asarray(tree.ancestors[inner][:, tree.inner])
    logits, features, cache = how.drafter.extend(
      how.params,
      drawn[:, inner - level.start],
      features[:, np.searchsorted(before, tree.parent[inner])],
      jnp.broadcast_to((root + depth)[:, None], (len(root), len(inner))),
      mask.tree(root, related, cache.slots),
      cache,
    )
  return Drafted(
    tokens=jnp.concatenate(tokens, axis=1),
    laws=jnp.concatenate(laws, axis=1),
    topology=None,
    root=root,
    cache=cache,
    fault=fault,
  )


class _Level(NamedTuple):
  """What a level leaves to the next."""

  tokens: jax.Array  # [B, n]
  parent: jax.Array  # [B, n] their parents' places
  worth: jax.Array  # [B, n] 0 where nothing is
  chosen: jax.Array  # [B, n] the place of each one's parent in the level above
  fault: jax.Array  # [B] bool: a NaN of the policy or of a confidence


def _adaptive(how, shape, drawn, logits, features, cache) -> Drafted:
  """Trees that the laws shape, another one in each row.

  A level is chosen before any of its tokens is drawn. All places but those of
  the last level are processed, whether anything is there or not, as long as
  there is anything in some row that is not done; what is below is skipped.
  """
  root, rows = cache.length - 1, len(drawn)
  M = len(shape.inner)
  laws = [how.law(logits)]
  worth = how.going[:, None].astype(jnp.float32)
  found = [_below(how, shape, 1, laws[0], worth, features)]
  related = jnp.zeros((rows, 1, M), bool).at[:, :, ROOT].set(True)
  for depth, level in enumerate(shape.levels[1:-1], 1):
    before = found[-1]
    # A node's own slot is that of its place.
    own = np.eye(M, dtype=bool)[level.start : level.stop]
    over = before.chosen[..., None]
    related = jnp.take_along_axis(related, over, axis=1) | own[None]

    def go_on(
      features, cache, depth=depth, before=before, over=over, related=related
    ):
      logits, features, cache = how.drafter.extend(
        how.params,
        before.tokens,
        jnp.take_along_axis(features, over, axis=1),
        jnp.broadcast_to((root + depth)[:, None], before.tokens.shape),
        mask.tree(root, related, cache.slots),
        cache,
      )
      law = how.law(logits)
      below = _below(how, shape, depth + 1, law, before.worth, features)
      return law, below, features, cache

    law, below, features, cache = _if(
      _goes_on(before.worth), go_on, features, cache
    )
    laws.append(law)
    found.append(below)
  first = jnp.full_like(drawn, NO_PARENT)
  of_each = jax.vmap(functools.partial(adaptive.topology, shape))
  return Drafted(
    tokens=jnp.concatenate([drawn, *(one.tokens for one in found)], axis=1),
    laws=jnp.concatenate(laws, axis=1),
    topology=of_each(
      jnp.concatenate([first, *(one.parent for one in found)], axis=1)
    ),
    root=root,
    cache=cache,
    fault=functools.reduce(jnp.logical_or, (one.fault for one in found)),
  )


def _below(how, shape, depth, laws, worth, features) -> _Level:
  """The level at a depth, of what is known of the one above, and its worth."""
  above = shape.levels[depth - 1]
  sure = how.drafter.confidence(features)
  fault = jnp.bool(False) if sure is None else _is_nan(sure, worth > 0)
  if how.drafter.stop:
    worth = jnp.where(_ends(how.drafter, sure), 0, worth)
  chosen = jax.vmap(functools.partial(adaptive.choose, shape, depth))(
    laws, worth, sure
  )
  drawn = _draw_chosen(how, shape, above, laws, chosen)
  drawn = jnp.where(chosen.there, drawn, INVALID)
  return _Level(
    tokens=drawn,
    parent=jnp.where(chosen.there, chosen.above + above.start, NO_PARENT),
    worth=jnp.where(drawn == INVALID, 0, chosen.worth),
    chosen=chosen.above,
    fault=chosen.fault | fault,
  )


def _ends(drafter, sure) -> jax.Array:
  """[B, n] below which nodes nothing is to be drafted: a NaN is never sure."""
  return ~(sure >= drafter.stop)


def _is_nan(sure, there) -> jax.Array:
  """[B] whether the confidence in any node that is there is a NaN."""
  return jnp.any(jnp.isnan(sure) & there, axis=-1)


def _goes_on(worth) -> jax.Array:
  """[] whether anything is in any row of a level."""
  return jnp.any(worth > 0)


def _if(wanted, go_on, features, cache):
  """Returns what `go_on` leaves, or else nothing, and the cache as it was.

  A loop of one turn: a `cond` would copy the cache, which a loop updates where
  it is. Where nothing is no law is read; uniform ones are laws, at no cost.
  """
  law, below, after, _ = jax.eval_shape(go_on, features, cache)
  empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), below)
  empty = empty._replace(
    tokens=jnp.full_like(empty.tokens, INVALID),
    parent=jnp.full_like(empty.parent, NO_PARENT),
  )
  uniform = jnp.full(law.shape, 1 / law.shape[-1], law.dtype)
  nothing = uniform, empty, jnp.zeros_like(after), cache
  return jax.lax.while_loop(
    lambda carry: carry[0],
    lambda carry: (jnp.bool(False), go_on(features, carry[1][-1])),
    (wanted, nothing),
  )[1]


def spread(tree: Tree | Adaptive, laws: jax.Array) -> jax.Array:
  """Gives each node its law, [.., N, V] of [.., M, V]; leaves get any row."""
  return laws[..., place_of(tree), :]


def _draw(proposal, tree, keys, nodes, laws):
  """[B, n] the tokens of the next level; `laws` [B, m, V] are of `nodes`."""
  counts = tree.num_children[nodes]
  sizes = [counts.max()] if proposal.nested else np.unique(counts)
  rows, children = [], []
  for k in sizes:
    own = np.flatnonzero((counts == k) | proposal.nested).astype(np.int32)
    drawn = _draw_families(proposal, keys, nodes[own], laws[:, own], int(k))
    rows.append(drawn.reshape(len(keys), -1))
    children.append(tree.children[nodes[own], :k].ravel())
  children = np.concatenate(children)
  # In level order, without those that a node does not have.
  order = np.argsort(children, kind="stable").astype(np.int32)
  order = order[children[order] != NO_CHILD]
  return jnp.concatenate(rows, axis=1)[:, order]


def _draw_families(proposal, keys, nodes, laws, k: int) -> jax.Array:
  """[B, n, k] children of the nodes [n], each from a key of its own."""
  B, n, V = laws.shape
  # In one axis: one within another takes longer to trace.
  draw = jax.vmap(functools.partial(proposal.draw, k=k))
  drawn = draw(keys[:, nodes].reshape(B * n), laws.reshape(B * n, V))
  return drawn.reshape(B, n, k)


def _draw_chosen(how, shape, above, laws, chosen) -> jax.Array:
  """[B, n] the tokens of the chosen children; `laws` [B, m, V] of the above."""
  nodes = np.array(above, np.int32)
  families = functools.partial(
    _draw_families, how.proposal, how.keys, nodes, laws
  )
  if how.proposal.nested:
    drawn = families(shape.most)
  else:  # what the first is drawn from depends on how many there are
    rows = jnp.arange(len(laws), dtype=jnp.int32)[:, None]
    count = jnp.zeros(laws.shape[:2], jnp.int32)
    count = count.at[rows, chosen.above].add(chosen.there.astype(jnp.int32))
    drawn = jnp.full((*laws.shape[:2], shape.most), INVALID, jnp.int32)
    for k in range(1, shape.most + 1):
      some = jnp.pad(
        families(k),
        [(0, 0)] * 2 + [(0, shape.most - k)],
        constant_values=INVALID,
      )
      drawn = jnp.where((count == k)[..., None], some, drawn)
  place = chosen.above * shape.most + chosen.rank
  return jnp.take_along_axis(drawn.reshape(len(laws), -1), place, axis=1)
