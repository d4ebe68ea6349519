"""Block verification (Sun et al. 2025, Algorithm 2), for chains.

Written from its own paper's formulas, sharing no step with the other rules: on
chains it must take the very decisions of the traversal, coin for coin.

With p_0 = 1 and, for the i-th drafted token x_i of a chain of length L,

    p_i = min(p_{i-1} p(x_i) / q(x_i), 1)
    A_i = sum [p_i p - q]_+      (laws of the token after x_i)
    h_i = A_i / (A_i + 1 - p_i)  (1 when p_i = 1 and A_i = 0),   h_L = p_L

all coins are drawn, the last i with eta_i < h_i is accepted, and the bonus
token comes from [p_i p - q]_+ normalised, or from p at the end of the chain.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle


class Chain(NamedTuple):
  """Everything that no coin changes."""

  drawn: jax.Array  # [N] whether the chain reaches this node
  h: jax.Array  # [N] the threshold; the root's is 1
  last: jax.Array  # [N] whether the chain ends here
  reach: jax.Array  # [N] p_i
  q: jax.Array  # [N - 1, V] the laws that the tokens were drawn from
  fault: jax.Array  # []


def judge(
  drawn: jax.Array, tokens: jax.Array, q: jax.Array, p: jax.Array
) -> Chain:
  """The formulas above, whatever law the tokens were drawn from.

  Args:
    drawn: [N] whether the chain reaches this node.
    tokens: [N - 1] of the nodes below the root; any where nothing was drawn.
    q: [N - 1, V] the laws that they were drawn from.
    p: [N, V] the target's laws after the nodes.
  """
  place = np.arange(len(tokens), dtype=np.int32), tokens
  ratio = p[place] / jnp.where(q[place] <= 0, 1, q[place])
  ratio = jnp.where(drawn[1:], ratio, 0)
  reach = [jnp.ones_like(ratio[0])]
  for r in ratio:
    reach.append(jnp.minimum(reach[-1] * r, 1))
  reach = jnp.stack(reach)
  A = jnp.sum(_positive(reach[:-1, None] * p[:-1] - q), axis=1)
  A = jnp.append(A, 0)
  last = drawn & ~jnp.append(drawn[1:], False)
  certain = (reach == 1) & (A == 0)
  h = jnp.where(certain, 1, A / jnp.where(certain, 1, A + (1 - reach)))
  h = jnp.where(last, reach, h)
  return Chain(
    drawn=drawn & (reach > 0),
    h=h.at[ROOT].set(1),
    last=last,
    reach=reach,
    q=q,
    fault=jnp.any(jnp.isnan(h)),
  )


def _chain(tree, proposal, tokens, q, p) -> Chain:
  if not tree.is_chain:
    raise ValueError(
      f"block verification is defined on chains, not on {tree};"
      ' use a tree like "chain:5" or another verifier'
    )
  drawn = jnp.cumprod((tokens != INVALID).at[ROOT].set(True)).astype(bool)
  token = jnp.where(drawn, tokens, 0)[1:]
  vocabulary = jnp.arange(p.shape[1], dtype=jnp.int32)
  at_token = vocabulary[None, :] == token[:, None]
  place = np.arange(len(token), dtype=np.int32), token
  rest = jnp.sum(jnp.where(at_token, 0, q[:-1]), axis=1)
  scale, at = jax.vmap(proposal.laws)(q[place][:, None], rest, drawn[1:, None])
  q = jnp.where(at_token, at[:, 0], scale * q[:-1])
  drawn = drawn.at[1:].set(drawn[1:] & ~(q[place] <= 0))
  return judge(drawn, token, q, p)


def decide(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
) -> Decision:
  """See `decision.Verifier`."""
  return toss(_chain(tree, proposal, tokens, q, p), p, eta)


def toss(chain: Chain, p: jax.Array, eta: jax.Array) -> Decision:
  """The decision on a chain with laws p [N, V] and coins [N]."""
  depth = np.arange(len(p), dtype=np.int32)
  node = jnp.max(jnp.where(chain.drawn & (eta < chain.h), depth, ROOT))
  node = jnp.where(chain.fault, ROOT, node)
  row = jnp.minimum(node, len(chain.q) - 1)  # a leaf has no law of a child
  weights = _positive(chain.reach[node] * p[node] - chain.q[row])
  # Coins above the accepted node were drawn as well, but no longer matter.
  compared = chain.drawn & (depth >= node) & (depth != ROOT)
  return settle(
    node=node,
    weights=jnp.where(chain.last[node] | chain.fault, p[node], weights),
    p=p,
    accept=jnp.where(compared, chain.h, NOT_OFFERED),
    fault=chain.fault,
  )


def stop_law(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] the chance of each node to be the last with eta_i < h_i."""
  return last_hit_law(_chain(tree, proposal, tokens, q, p))


def last_hit_law(chain: Chain) -> jax.Array:
  """[N] the same of a chain."""
  hit = jnp.where(chain.drawn & ~chain.fault, chain.h, 0).at[ROOT].set(1)
  missed_below = jnp.cumprod(jnp.append(1 - hit[1:], 1)[::-1])[::-1]
  return hit * missed_below


def _positive(x):
  return jnp.where(x <= 0, 0, x)  # not `maximum`, which may lose a NaN
