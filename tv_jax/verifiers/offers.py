"""A rule as what no coin changes; its decisions and its stop law from that.

A rule that goes `DOWN` offers a node's children in draw order, and goes to the
first that is taken; it ends at a node of which none is. One that comes `UP`
offers nodes in post-order, children before parents, until one is taken; one
with an order of its own offers them in that. The root is taken where nothing
else is.

All arithmetic here is on N scalars. Arrays may be traced, and nothing loops on
the device: on a GPU it is a few kernels.

Axes: N nodes, K children of a node, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Topology, Tree
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle

DOWN, UP = "down", "up"
# `tree -> [N]` the nodes as they are offered; where it ends in more than the
# root, that is padding.
Order = Callable[[Tree | Topology], jax.Array | np.ndarray]


class Offers(NamedTuple):
  """What no coin changes. A NaN among the chances is a fault."""

  chance: jax.Array  # [N] of a node when it is offered; the root's is not read
  offered: jax.Array  # [N] bool: whether it can be
  residual: Callable[[jax.Array], jax.Array]  # node [] -> [V] the law of the
  # bonus token there, up to scale: called once, for the accepted node


def decide(walk: str | Order, offers: Offers, tree, tokens, p, eta) -> Decision:
  """Decides with the coins eta [N]."""
  offered, fault = _offered(offers, tokens)
  hit = offered & (eta < offers.chance)
  if walk == DOWN:
    node, compared = _walk_down(tree, offered, hit)
  else:
    node, compared = _first_in(_order(walk, tree), tree, offered, hit)
  node = jnp.where(fault, ROOT, node)
  return settle(
    node=node,
    weights=offers.residual(node),
    p=p,
    accept=jnp.where(compared, offers.chance, NOT_OFFERED),
    fault=fault,
  )


def stop_law(walk: str | Order, offers: Offers, tree, tokens) -> jax.Array:
  """Returns each node's chance [N] to be where the walk ends."""
  offered, fault = _offered(offers, tokens)
  chance = jnp.where(offered & ~fault, offers.chance, 0)
  if walk == DOWN:
    return _stop_law_down(tree, chance)
  return _stop_law_in(_order(walk, tree), chance)


def _offered(offers, tokens):
  """Returns which nodes can be offered [N], and whether there is a fault []."""
  drafted = (tokens != INVALID) & (np.arange(len(tokens)) != ROOT)
  return offers.offered & drafted, jnp.any(jnp.isnan(offers.chance))


# Up: the first in an order.


def _order(walk, tree):
  return tree.postorder if walk == UP else walk(tree)


def _first_in(order, tree, offered, hit):
  """Returns where the walk ends [], and which nodes were offered before [N]."""
  root = np.arange(len(hit)) == ROOT
  first = jnp.argmax((hit | root)[order]).astype(jnp.int32)
  number = np.arange(len(order), dtype=np.int32)
  if isinstance(tree, Tree):  # the order is known, and no scatter needed
    place = np.argsort(order).astype(np.int32)
  else:
    place = jnp.zeros(len(order), jnp.int32).at[order].max(number)
  return jnp.asarray(order)[first], offered & (place <= first)


def _stop_law_in(order, chance):
  """Returns the law [N] of the first hit, node i being hit with chance[i]."""
  order = jnp.asarray(order)
  # Padding names the root again, with nothing left to add.
  hit = jnp.where(order == ROOT, 1, chance[order])
  missed = jnp.cumprod(jnp.concatenate([jnp.ones_like(hit[:1]), 1 - hit[:-1]]))
  return jnp.zeros_like(chance).at[order].add(hit * missed)


# Down: the deepest to which all on the path are the first hit of their
# siblings.


def _walk_down(tree, offered, hit):
  """Returns what `_first_in` does."""
  elder_hit = jnp.zeros_like(hit)
  for elder in _elders(tree):
    elder_hit |= (elder != NO_CHILD) & hit[elder]
  root = np.arange(len(hit)) == ROOT
  chosen = reached = root | (hit & ~elder_hit)
  for above in _above(tree):
    reached &= chosen[above]
  node = jnp.argmax(jnp.where(reached, tree.depth, -1)).astype(jnp.int32)
  return node, offered & reached[tree.parent] & ~elder_hit


def _stop_law_down(tree, chance):
  """Returns the chance [N] to reach a node and to stay there."""
  missed, stay = jnp.ones_like(chance), jnp.ones_like(chance)
  for elder in _elders(tree):
    missed *= jnp.where(elder != NO_CHILD, 1 - chance[elder], 1)
  for child in jnp.asarray(tree.children).T:
    stay *= jnp.where(child != NO_CHILD, 1 - chance[child], 1)
  root = np.arange(len(chance)) == ROOT
  step = jnp.where(root, 1, chance * missed)
  reached = jnp.ones_like(chance)
  for above in _above(tree):
    reached *= step[above]
  return jnp.where(root | (chance > 0), reached * stay, 0)


def _elders(tree):
  """Returns for each rank but the last, [N] each node's elder of that rank."""
  siblings = jnp.asarray(tree.children)[tree.parent]  # the root's wrap: unused
  ranks = np.arange(siblings.shape[1], dtype=np.int32)[None]
  none = ranks >= jnp.asarray(tree.rank)[:, None]
  return jnp.where(none, NO_CHILD, siblings).T[:-1]


def _above(tree):
  """Returns for each depth below the root, [N] the node there on each path."""
  return jnp.asarray(tree.paths).T[1:]
