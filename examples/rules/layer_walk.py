"""The layer walk: the traversal with one step over all nodes of a depth.

The traversal lets the children of one node share its residual. Here all nodes
of a *layer*, which are those of one depth, share: their children are looked at
one after the other, whosever they are, and what one did not take another can.
Not of a paper; for every proposal, and on chains block verification.

Given a draft, w(c) is the chance that the accepted node is c or below it; w of
the root is 1. For the children c of one layer, in the order of the nodes, with
G_v = w(v) p(.|v) and S = C = 1 at the start,

    entry = min(1, G_v(t) / (S q_j(t)))       w(c) = C entry
    G_v <- [G_v - S q_j]_+
    S   <- 1 - sum w(v) + sum G_v             (sums over the layer)
    C   <- C (1 - entry)

Then nodes are offered from the deepest layer up, in a layer from the last node
to the first, and taken with chance

    sum G_v / (1 - sum w(u) + sum over u up to v of sum G_u),

with a bonus token from G_v / sum G_v. The root is taken if nothing was.

Why it is lossless. Let D = min(S q_j, G_v) be what a child takes from G_v, so
that S falls by sum D. (1) The child's token was drawn from q_j, so 1 - entry is
on average 1 - sum D / S: M = C / S is a martingale of the draws, and w(c) at
token x is on average M D(x). D and S are settled before the token is drawn
(q_j depends on elder siblings, the order on no token), so that over the layer's
draws, G at their end and E[M] = 1,

    E[sum of w(c) over children with token x] + E[M G_v(x)] = w(v) p(x|v).

(2) Below the layer nothing is taken with chance C: so it is for the deepest.
Then v is taken with chance sum G_v / S: in all M sum G_v on average, with the
bonus x M G_v(x). By (1) that is the rest of w(v) p(x|v), and nothing of this
layer or below is taken with average chance 1 - sum w(v), which is the C of the
layer above, as (2) asks of it. (3) From the root down, the output passes v and
goes on with x with chance w(v) p(x|v): it follows p.

S couples all children of a layer, so that there is no level-parallel form: a
loop over the nodes, one pass over a row of p and q for each. The tree may be a
traced `Topology`, and so an adaptive one: which nodes a layer has was settled
before its tokens were drawn.

Axes: N nodes, K children of a node, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.tree import NO_PARENT, ROOT
from tv_jax.verifiers import family, residual
from tv_jax.verifiers.offers import Offers
from tv_jax.verifiers.verifier import Verifier


class _State(NamedTuple):
  """What is left at the nodes when some of them have been looked at."""

  alpha: jax.Array  # [N] w; G = [alpha p - beta q]_+ off the children's tokens
  beta: jax.Array  # [N]
  mass: jax.Array  # [N] sum G
  at: jax.Array  # [N, K] G at the children's tokens
  missed: jax.Array  # [N] by depth: C, and once all are looked at 1 - sum w


def offers(tree, proposal, tokens, q, p) -> Offers:
  """Returns what no coin changes."""
  own = family.gather(tree, proposal, tokens, q, p)
  parent, rank = jnp.asarray(tree.parent), jnp.asarray(tree.rank)
  depth, N = jnp.asarray(tree.depth), len(tokens)

  def look(node, state: _State) -> _State:
    """Takes a node's share out of what is left at its parent."""
    v, child = parent[node], rank[node]
    there = v != NO_PARENT  # a place may be empty
    layer = jnp.where(depth == depth[v], state.mass, 0)
    S = state.missed[depth[v]] + jnp.sum(layer)
    law = family.law_of(own, v, child)
    at = S * law.at
    law = residual.Law(
      scale=S * law.scale, at=at, exists=law.exists & there & ~(at[child] <= 0)
    )
    before = _residual(state, v)
    entry = residual.enter(before.at[child], law.at[child], law.exists)
    g = residual.shift(before, law)
    off = residual.mass_off(g.alpha, g.beta, p[v], q[v], own.tokens[v])
    mass = off + jnp.sum(jnp.where(own.fresh[v], g.at, 0))
    mass = jnp.where(law.exists, mass, g.mass)
    w = state.missed[depth[node]] * entry
    return _State(
      alpha=state.alpha.at[node].set(w),
      beta=state.beta.at[v].set(g.beta),
      mass=state.mass.at[v].set(mass).at[node].set(w),
      at=state.at.at[v].set(g.at).at[node].set(w * own.p_at[node]),
      missed=state.missed.at[depth[node]].multiply(1 - entry),
    )

  whole = jnp.zeros(N, p.dtype).at[ROOT].set(1)
  start = _State(
    alpha=whole,
    beta=jnp.zeros_like(whole),
    mass=whole,
    at=jnp.zeros_like(own.p_at).at[ROOT].set(own.p_at[ROOT]),
    missed=1 - whole,  # the root misses nothing
  )
  left = jax.lax.fori_loop(1, N, look, start)
  same = depth[:, None] == depth[None, :]
  upto = same & (np.arange(N)[:, None] >= np.arange(N)[None, :])
  size = left.missed[depth] + jnp.sum(jnp.where(upto, left.mass[None], 0), 1)

  def written(node):
    g = _residual(left, node)
    return residual.write_out(g, own.tokens[node], p[node], q[node])

  return Offers(
    chance=left.mass / jnp.where(size <= 0, 1, size),
    offered=left.alpha > 0,
    residual=written,
  )


def _residual(state, node):
  return residual.Residual(
    alpha=state.alpha[node],
    beta=state.beta[node],
    mass=state.mass[node],
    deficit=jnp.zeros_like(state.mass[node]),  # not used
    at=state.at[node],
  )


def last_first(tree) -> np.ndarray:
  """Orders nodes from the last to the root."""
  return np.arange(len(tree.parent), dtype=np.int32)[::-1]


rule = Verifier(
  name="layer_walk", offers=offers, walk=last_first, static_only=False
)
