"""The coin-independent part of a rule, with its decision and stop law.

A rule computes its `Offers` from a draft. The decision for given coins and the
stop law, which is the distribution of the accepted node, are both derived from
them. A rule walks in one of three ways:

- `DOWN`: from the root, offer the children of the current node in draw order,
  and step to the first one that is accepted. Stop when all are rejected.
- `UP`: offer all nodes in post-order, children before parents, until one is
  accepted.
- another order: offer all nodes in this order, until one is accepted.

The root is accepted if no other node is. All arithmetic here is on N scalars,
without loops on the device.

Axes: N nodes, K children of a node, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle

DOWN, UP = "down", "up"
# `tree -> [N]` All nodes, sorted by when they are offered, with the root last.
Order = Callable[[Tree], np.ndarray]


class Offers(NamedTuple):
  """The coin-independent part of a rule on one draft.

  Attributes:
    chance: [N] Probability to accept a node when it is offered. The root's is
      not used, but a NaN anywhere is a fault.
    offered: [N] bool: Whether the node can be offered at all.
    residual: `node [] -> [V]`: Distribution of the bonus token after a node, up
      to a factor. Called once, for the accepted node.
  """

  chance: jax.Array
  offered: jax.Array
  residual: Callable[[jax.Array], jax.Array]


def decide(walk: str | Order, offers: Offers, tree, tokens, p, eta) -> Decision:
  """Makes the decision for the coins eta [N]."""
  offered, fault = _offered(offers, tokens)
  hit = offered & (eta < offers.chance)
  if walk == DOWN:
    node, compared = _walk_down(tree, offered, hit)
  else:
    node, compared = _first_in(_order(walk, tree), offered, hit)
  node = jnp.where(fault, ROOT, node)
  return settle(
    node=node,
    weights=offers.residual(node),
    p=p,
    accept=jnp.where(compared, offers.chance, NOT_OFFERED),
    fault=fault,
  )


def stop_law(walk: str | Order, offers: Offers, tree, tokens) -> jax.Array:
  """Returns each node's probability [N] to be the accepted one."""
  offered, fault = _offered(offers, tokens)
  chance = jnp.where(offered & ~fault, offers.chance, 0)
  if walk == DOWN:
    return _stop_law_down(tree, chance)
  return _stop_law_in(_order(walk, tree), chance)


def _offered(offers, tokens):
  """Returns which nodes can be offered [N], and whether there is a fault []."""
  drafted = (tokens != INVALID) & (np.arange(len(tokens)) != ROOT)
  return offers.offered & drafted, jnp.any(jnp.isnan(offers.chance))


# UP, and other orders: the first accepted node in the order.


def _order(walk, tree):
  return tree.postorder if walk == UP else walk(tree)


def _first_in(order, offered, hit):
  """Returns the accepted node [], and which nodes were offered [N]."""
  root = np.arange(len(hit)) == ROOT
  first = jnp.argmax((hit | root)[order]).astype(jnp.int32)
  place = np.argsort(order).astype(np.int32)
  return jnp.asarray(order)[first], offered & (place <= first)


def _stop_law_in(order, chance):
  """Returns [N], the probability of each node to be the first accepted one."""
  order = jnp.asarray(order)
  hit = jnp.where(order == ROOT, 1, chance[order])
  missed = jnp.cumprod(jnp.concatenate([jnp.ones_like(hit[:1]), 1 - hit[:-1]]))
  return jnp.zeros_like(chance).at[order].add(hit * missed)


# DOWN: the deepest node such that each node on its path is the first accepted
# of its siblings.


def _walk_down(tree, offered, hit):
  """Returns the accepted node [], and which nodes were offered [N]."""
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
  """Returns [N], the probability to reach each node and to stay there."""
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
  """Returns [K - 1, N], each node's elder sibling of each rank, or NO_CHILD."""
  # The root's parent is -1, so its row is wrong. Its rank of 0 masks the row.
  siblings = jnp.asarray(tree.children)[tree.parent]
  ranks = np.arange(siblings.shape[1], dtype=np.int32)[None]
  none = ranks >= jnp.asarray(tree.rank)[:, None]
  return jnp.where(none, NO_CHILD, siblings).T[:-1]


def _above(tree):
  """Returns [D, N], the node at each depth on the path to each node."""
  return jnp.asarray(tree.paths).T[1:]
