"""Greedy multi-path block verification (GBV, arXiv 2602.16961).

For K chains below the root, of one length, all drawn independently. Order the
tokens after every context by p / q, equals by their id. The greatest of the K
paths in the lexicographic order is itself a draw from a law r that is known, so
block verification (`block.py`) of that one path against r instead of q is
lossless: whatever r is, its theorem holds.

With L(x) the sum of q over the tokens below x, Q the chance that one path
begins with what was chosen so far, and lambda the chance that it is below that,
K paths have their greatest begin with it with chance (lambda + Q)^K - lambda^K.
A step down to x makes lambda + Q L(x) of lambda and Q q(x) of Q, hence

    r(x) = ((lambda + Q (L(x) + q(x)))^K - (lambda + Q L(x))^K)
           / ((lambda + Q)^K - lambda^K)

Neither difference is formed: a^K - b^K = (a - b) (a^(K-1) + a^(K-2) b + ..),
and lambda and Q are kept as shares of their sum. That p / q is rounded changes
nothing: any order will do in which the drawn tokens have no say. Paths that
share what is chosen share its laws, those of the first among them.

A loop down the chains, as the next law is that after the chosen token: one sort
of V at each depth, however many chains there are, and of the other chains only
the tokens are read. On one chain it is block verification.

Axes: N nodes, C chains, D depth, K paths drawn, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT, Adaptive, Tree
from tv_jax.verifiers import block
from tv_jax.verifiers.offers import Offers
from tv_jax.verifiers.verifier import Verifier


def chains_from_the_root(tree: Tree | Adaptive) -> str | None:
  """Says why the rule is not defined on a tree; None: it is."""
  C = len(tree.levels[1])
  straight = isinstance(tree, Tree) and tree.num_children[1:].max() <= 1
  if straight and all(len(level) == C for level in tree.levels[1:]):
    return None
  remedy = ",".join(map(str, [C] + [1] * (tree.max_depth - 1)))
  return (
    f"is defined for chains of one length that part at the root, and the tree"
    f' is {tree!r}: give tree="branching:{remedy}", or another verifier'
  )


class _State(NamedTuple):
  """Where the choice stands."""

  node: jax.Array  # [] the first of those that hold what is chosen
  alive: jax.Array  # [C] the chains that begin with what is chosen
  below: jax.Array  # [] lambda / (lambda + Q)
  equal: jax.Array  # [] Q / (lambda + Q)


def offers(tree, proposal, tokens, q, p) -> Offers:
  """Returns what block verification gives on the chosen path."""
  del proposal  # independent draws from q
  # Each level has the chains in one order, as it stands by parents.
  paths = np.array(tree.levels[1:], np.int32)  # [D, C]
  held = tokens[paths]
  place = jnp.maximum(held, 0)
  drawn = held != INVALID
  count = jnp.sum(drawn[0] & ~(q[ROOT, place[0]] <= 0))

  def step(state, level):
    nodes, place, drawn = level
    p_row, q_row = p[state.node], q[state.node]
    ratio = p_row / jnp.where(q_row <= 0, 1, q_row)
    order = jnp.argsort(ratio, stable=True)
    rank = jnp.zeros_like(order).at[order].set(jnp.arange(len(order)))
    ascending = q_row[order]
    upto = jnp.cumsum(ascending)
    under = jnp.concatenate([jnp.zeros_like(upto[:1]), upto[:-1]])
    high = state.below + state.equal * upto
    low = state.below + state.equal * under
    whole = _ways(jnp.ones_like(state.below), state.below, count, len(nodes))
    law = ascending * _ways(high, low, count, len(nodes)) / whole
    candidate = state.alive & drawn & ~(q_row[place] <= 0)
    best = jnp.argmax(jnp.where(candidate, rank[place], -1))
    token = place[best]
    share = high[rank[token]]
    share = jnp.where(share <= 0, 1, share)
    after = _State(
      node=nodes[best],
      alive=candidate & (place == token),
      below=low[rank[token]] / share,
      equal=state.equal * q_row[token] / share,
    )
    return after, (nodes[best], token, jnp.any(candidate), law[rank])

  start = _State(
    node=jnp.asarray(ROOT, jnp.int32),
    alive=jnp.ones(paths.shape[1], bool),
    below=jnp.zeros((), p.dtype),
    equal=jnp.ones((), p.dtype),
  )
  _, (nodes, token, more, laws) = jax.lax.scan(
    step, start, (jnp.asarray(paths), place, drawn)
  )
  nodes = jnp.concatenate([jnp.full_like(nodes[:1], ROOT), nodes])
  more = jnp.concatenate([jnp.ones(1, bool), more])
  chance, offered, residual = block.of_chain(more, token, laws, p[nodes])
  depth = jnp.asarray(tree.depth)
  return Offers(
    chance=jnp.zeros(len(tree), p.dtype).at[nodes].set(chance),
    offered=jnp.zeros(len(tree), bool).at[nodes].set(offered),
    residual=lambda node: residual(depth[node]),
  )


def _ways(a, b, count, most):
  """a^(K-1) + a^(K-2) b + .. + b^(K-1) for K = count, at most `most`."""
  total, power = jnp.ones_like(a), jnp.ones_like(a)
  for k in range(1, most):
    power *= b
    total = jnp.where(k < count, a * total + power, total)
  return total


def last_first(tree) -> np.ndarray:
  """Orders nodes from the last to the root: a `Verifier.walk`.

  What paths share stands in the first of them alone.
  """
  return np.arange(len(tree.parent), dtype=np.int32)[::-1]


rule = Verifier(
  name="gbv",
  offers=offers,
  walk=last_first,
  refuses=chains_from_the_root,
  proposals=("with_replacement",),
)
