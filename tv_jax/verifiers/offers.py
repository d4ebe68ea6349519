"""A rule as what no coin changes; its decisions and its stop law from that.

A rule that goes down offers a node's children in draw order, and goes to the
first that is taken; it ends at a node of which none is. One that comes up
offers all nodes in an order, children before parents, until one is taken. The
root is taken by construction, where nothing else is.

All arithmetic here is on N scalars. Arrays may be traced, and nothing loops on
the device: on a GPU it is a few kernels.

Axes: N nodes, K children of a node, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers.decision import (
  DOWN,
  NOT_OFFERED,
  UP,
  Decision,
  Verifier,
  settle,
)


class Offers(NamedTuple):
  """What no coin changes. A NaN among the chances is a fault."""

  chance: jax.Array  # [N] of a node when it is offered; the root's is not read
  offered: jax.Array  # [N] bool: whether it can be
  left: Callable[[jax.Array], jax.Array]  # node [] -> [V] the law of the bonus
  # token there, up to scale: asked for once, at the accepted node


def from_offers(
  offers: Callable[..., Offers],
  *,
  direction: str = UP,
  order: Callable | None = None,
  **fields,
) -> Verifier:
  """Makes the rule whose `Offers` these are.

  Args:
    offers: `(tree, proposal, tokens, q, p) -> Offers`.
    direction: As in `Verifier`.
    order: `tree -> [N]` in which a rule that does not go down offers nodes;
      None: post-order. Where it ends in more than the root, that is padding.
    **fields: More fields of `Verifier`.
  """
  walk = (_down, _down_law)
  if direction != DOWN:
    order = order or _postorder
    walk = functools.partial(_up, order), functools.partial(_up_law, order)
  both = functools.partial(_both, offers, *walk)
  return Verifier(
    decide=functools.partial(_decide, both),
    stop_law=functools.partial(_stop_law, both),
    both=both,
    direction=direction,
    **fields,
  )


def derived(rule: Verifier) -> bool:
  """Returns whether a rule's decisions come from its `both`, none replaced."""
  own = rule.decide, rule.stop_law
  return bool(rule.both) and all(
    getattr(one, "args", ()) == (rule.both,) for one in own
  )


def _decide(both, tree, proposal, tokens, q, p, eta):
  return both(tree, proposal, tokens, q, p)[0](eta)


def _stop_law(both, tree, proposal, tokens, q, p):
  return both(tree, proposal, tokens, q, p)[1]()


def _both(offers, walk, law, tree, proposal, tokens, q, p):
  chance, offered, left = offers(tree, proposal, tokens, q, p)
  fault = jnp.any(jnp.isnan(chance))
  drafted = np.arange(len(tokens)) != ROOT
  offered = offered & (tokens != INVALID) & drafted

  def decide(eta) -> Decision:
    node, compared = walk(tree, offered, offered & (eta < chance))
    node = jnp.where(fault, ROOT, node)
    return settle(
      node=node,
      weights=left(node),
      p=p,
      accept=jnp.where(compared, chance, NOT_OFFERED),
      fault=fault,
    )

  def stop_law() -> jax.Array:
    return law(tree, jnp.where(offered & ~fault, chance, 0))

  return decide, stop_law


# Up: the first in an order.


def _postorder(tree):
  return tree.postorder


def last_first(tree):
  """Returns the order from the deepest level up."""
  return np.arange(len(tree.parent), dtype=np.int32)[::-1]


def _up(order, tree, offered, hit):
  """Where the walk ends [], and which nodes were offered on the way [N]."""
  order = order(tree)
  root = np.arange(len(hit)) == ROOT
  first = jnp.argmax((hit | root)[order]).astype(jnp.int32)
  number = np.arange(len(order), dtype=np.int32)
  if isinstance(tree, Tree):  # the order is known, and no scatter needed
    place = np.argsort(order).astype(np.int32)
  else:
    place = jnp.zeros(len(order), jnp.int32).at[order].max(number)
  return jnp.asarray(order)[first], offered & (place <= first)


def _up_law(order, tree, chance):
  """[N] the law of the first hit when node i is hit with chance[i]."""
  order = jnp.asarray(order(tree))
  # Padding names the root again, with nothing left to add.
  own = jnp.where(order == ROOT, 1, chance[order])
  missed = jnp.cumprod(jnp.concatenate([jnp.ones_like(own[:1]), 1 - own[:-1]]))
  return jnp.zeros_like(chance).at[order].add(own * missed)


# Down: the deepest to which all on the way are the first of their siblings.


def _down(tree, offered, hit):
  """As `_up`."""
  elder_hit = jnp.zeros_like(hit)
  for elder in _elders(tree):
    elder_hit |= (elder != NO_CHILD) & hit[elder]
  root = np.arange(len(hit)) == ROOT
  chosen = reached = root | (hit & ~elder_hit)
  for above in _ways(tree):
    reached &= chosen[above]
  node = jnp.argmax(jnp.where(reached, tree.depth, -1)).astype(jnp.int32)
  return node, offered & reached[tree.parent] & ~elder_hit


def _down_law(tree, chance):
  """[N] the chance to reach a node and to enter none of its children."""
  missed, stay = jnp.ones_like(chance), jnp.ones_like(chance)
  for elder in _elders(tree):
    missed *= jnp.where(elder != NO_CHILD, 1 - chance[elder], 1)
  for child in jnp.asarray(tree.children).T:
    stay *= jnp.where(child != NO_CHILD, 1 - chance[child], 1)
  root = np.arange(len(chance)) == ROOT
  step = jnp.where(root, 1, chance * missed)
  reached = jnp.ones_like(chance)
  for above in _ways(tree):
    reached *= step[above]
  return jnp.where(root | (chance > 0), reached * stay, 0)


def _elders(tree):
  """For each rank but the last, [N] a node's elder sibling of that rank."""
  siblings = jnp.asarray(tree.children)[tree.parent]  # the root's wrap: unused
  ranks = np.arange(siblings.shape[1], dtype=np.int32)[None]
  none = ranks >= jnp.asarray(tree.rank)[:, None]
  return jnp.where(none, NO_CHILD, siblings).T[:-1]


def _ways(tree):
  """For each depth below the root, [N] the node there on the way to each."""
  return jnp.asarray(tree.paths).T[1:]
