"""Greedy multi-path block verification (GBV, arXiv 2602.16961).

For K chains of equal length below the root, drawn independently. After every
context, order the tokens by p / q, and by id if the ratios are equal. The
greatest of the K paths in lexicographic order is a draw from a known law r. So
block verification (`block.py`) of that path, with r instead of q, is lossless:
its theorem holds for any r.

Let Q be the probability that a path begins with the prefix chosen so far, and
lambda the probability that a path is below that prefix in the order. Then the
greatest of K paths begins with the prefix with probability
(lambda + Q)^K - lambda^K. Let L(x) be the sum of q over the tokens below x. A
step to token x changes lambda to lambda + Q L(x) and Q to Q q(x), so

    r(x) = ((lambda + Q (L(x) + q(x)))^K - (lambda + Q L(x))^K)
           / ((lambda + Q)^K - lambda^K)

To avoid cancellation, a^K - b^K = (a - b) (a^(K-1) + a^(K-2) b + ..) replaces
both differences, and lambda and Q are stored as fractions of their sum. It is
harmless that p / q is rounded, because any order works that does not depend on
the drawn tokens. Paths that begin with the chosen prefix have the same p and q
after it, so the first path's rows are used.

The loop goes down one level at a time, because the next law depends on the
chosen token. Each level needs a single sort of V, whatever the number of
chains. With a single chain, the rule is block verification.

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
  """Returns why the rule is not defined on a tree, or None if it is."""
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
  """The prefix chosen so far."""

  node: jax.Array  # [] its last node, in the first chain that begins with it
  alive: jax.Array  # [C] whether the chain begins with the prefix
  below: jax.Array  # [] lambda / (lambda + Q)
  equal: jax.Array  # [] Q / (lambda + Q)


def offers(tree, proposal, tokens, q, p) -> Offers:
  """Returns the offers of block verification on the chosen path."""
  del proposal  # independent draws from q
  # Every level has the chains in the same order, because parents order a level.
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

  If paths share a prefix, only the nodes of the first path are offered.
  """
  return np.arange(len(tree.parent), dtype=np.int32)[::-1]


rule = Verifier(
  name="gbv",
  offers=offers,
  walk=last_first,
  refuses=chains_from_the_root,
  proposals=("with_replacement",),
)
