"""From a rule's offers to its decision and its stopping distribution.

A rule walks in one of two ways:

- `DOWN`: from the root, offer the children of the current node in draw order,
  and step to the first one that is accepted. Stop when all are rejected.
- `UP`: offer all nodes in post-order, children before parents, until one is
  accepted.

The root is accepted if no other node is. All arithmetic here is on N scalars,
without loops on the device.

Axes: N nodes, K children of a node, V vocabulary.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT
from tv_jax.verifiers.base import NOT_OFFERED, Decision, Draft, Offers, Walk


def settle(
  *,
  node: jax.Array,
  weights: jax.Array,
  p: jax.Array,
  threshold: jax.Array,
  fault: jax.Array,
) -> Decision:
  """Normalises the residual, and replaces a fault by a step of plain decoding.

  After a fault no node is accepted. The bonus token is then drawn from the
  positive finite entries of the target's probabilities after the root; if there
  are none, from all tokens alike.

  Args:
    node: [] The accepted node.
    weights: [V] Its residual, up to a factor. Invalid weights are a fault.
    p: [N, V] Target probabilities.
    threshold: [N] Thresholds.
    fault: [] Whether a fault was found before.
  """
  total = jnp.sum(weights)
  fault |= ~jnp.isfinite(total) | (jnp.min(weights) < 0)
  # If all weights are 0 without a fault, rounding has emptied the residual
  # after rejections of probability 0.
  divisor = jnp.where(total > 0, total, 1)
  residual = jnp.where(total > 0, weights / divisor, p[node])
  return Decision(
    node=jnp.where(fault, ROOT, node).astype(jnp.int32),
    residual=jnp.where(fault, probs.finite(p[ROOT]), residual),
    threshold=jnp.where(fault, NOT_OFFERED, threshold),
    fault=fault,
  )


# UP: the first accepted node in post-order.


def _up(tree, offered, hit):
  """Returns the accepted node [], and which nodes were offered [N]."""
  order = tree.postorder
  root = np.arange(len(hit)) == ROOT
  first = jnp.argmax((hit | root)[order]).astype(jnp.int32)
  turn = np.argsort(order).astype(np.int32)
  return jnp.asarray(order)[first], offered & (turn <= first)


def _up_chances(tree, chance):
  """Returns [N], the probability of each node to be the first accepted one."""
  order = jnp.asarray(tree.postorder)
  hit = jnp.where(order == ROOT, 1, chance[order])
  missed = jnp.cumprod(jnp.concatenate([jnp.ones_like(hit[:1]), 1 - hit[:-1]]))
  return jnp.zeros_like(chance).at[order].add(hit * missed)


# DOWN: the deepest node such that each node on its path is the first accepted
# of its siblings.


def _down(tree, offered, hit):
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


def _down_chances(tree, chance):
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


def _decide(find, offers: Offers, draft: Draft, eta: jax.Array) -> Decision:
  """Makes the decision for the coins eta [N]."""
  offered, fault = _offered(offers, draft)
  node, compared = find(draft.tree, offered, offered & (eta < offers.chance))
  node = jnp.where(fault, ROOT, node)
  return settle(
    node=node,
    weights=offers.residual(node),
    p=draft.p,
    threshold=jnp.where(compared, offers.chance, NOT_OFFERED),
    fault=fault,
  )


def _stopping(chances, offers: Offers, draft: Draft) -> jax.Array:
  """Returns each node's probability [N] to be the accepted one."""
  offered, fault = _offered(offers, draft)
  return chances(draft.tree, jnp.where(offered & ~fault, offers.chance, 0))


def _offered(offers, draft):
  """Returns which nodes can be offered [N], and whether there is a fault []."""
  drawn = (draft.tokens != INVALID) & (np.arange(len(draft.tokens)) != ROOT)
  return offers.offered & drawn, jnp.any(jnp.isnan(offers.chance))


UP = Walk(
  decide=functools.partial(_decide, _up),
  stopping=functools.partial(_stopping, _up_chances),
)
DOWN = Walk(
  decide=functools.partial(_decide, _down),
  stopping=functools.partial(_stopping, _down_chances),
)
