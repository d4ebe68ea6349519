"""Block verification (Sun et al. 2025, Algorithm 2), for chains.

On chains, the traversal must make the same decisions, coin for coin. As an
independent check, this file shares no arithmetic with the other rules. It
follows the formulas of the paper on block verification.

With p_0 = 1 and, for the i-th drafted token x_i of a chain of length L,

    p_i = min(p_{i-1} p(x_i) / q(x_i), 1)
    A_i = sum [p_i p - q]_+      (p and q of the token after x_i)
    h_i = A_i / (A_i + 1 - p_i)  (1 when p_i = 1 and A_i = 0),   h_L = p_L

the last i with eta_i < h_i is accepted. The bonus token is drawn from
[p_i p - q]_+, normalised, or from p at the end of the chain.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT
from tv_jax.verifiers.base import Draft, Offers, Verifier, chains_only
from tv_jax.verifiers.walk import UP


def offers(draft: Draft) -> Offers:
  """Computes the formulas above."""
  tree, proposal, tokens, q, p = draft
  if reason := chains_only(tree):
    raise UserError(f"block verification {reason}")
  # The distributions q [N - 1, V] of the tokens below the root.
  reached = jnp.cumprod((tokens != INVALID).at[ROOT].set(True)).astype(bool)
  token = jnp.where(reached, tokens, 0)[1:]
  index = np.arange(len(token), dtype=np.int32), token
  is_token = jnp.arange(q.shape[1], dtype=jnp.int32)[None] == token[:, None]
  rest = jnp.sum(jnp.where(is_token, 0, q[:-1]), axis=1)
  scale, at = jax.vmap(proposal.laws)(
    q[index][:, None], rest, reached[1:, None]
  )
  q = jnp.where(is_token, at[:, 0], scale * q[:-1])
  drawn = reached.at[1:].set(reached[1:] & ~(q[index] <= 0))
  ratio = p[index] / jnp.where(q[index] <= 0, 1, q[index])
  ratio = jnp.where(drawn[1:], ratio, 0)
  p_i = [jnp.ones_like(ratio[0])]
  for r in ratio:
    p_i.append(jnp.minimum(p_i[-1] * r, 1))
  p_i = jnp.stack(p_i)
  A = jnp.sum(_positive(p_i[:-1, None] * p[:-1] - q), axis=1)
  A = jnp.append(A, 0)
  last = drawn & ~jnp.append(drawn[1:], False)
  certain = (p_i == 1) & (A == 0)
  h = jnp.where(certain, 1, A / jnp.where(certain, 1, A + (1 - p_i)))
  # Values below a node that was not drawn may be NaN. They are never offered.
  h = jnp.where(drawn, h, 0)

  def residual(node):
    row = jnp.minimum(node, len(q) - 1)  # the leaf has no row of q
    weights = _positive(p_i[node] * p[node] - q[row])
    return jnp.where(last[node], p[node], weights)

  # On a chain post-order begins at the leaf, so UP accepts the deepest hit.
  return Offers(jnp.where(last, p_i, h), drawn & (p_i > 0), residual)


def _positive(x):
  return jnp.where(x <= 0, 0, x)  # `maximum` may lose a NaN


RULE = Verifier(
  name="block", offers=offers, walk=UP, by_path=True, refuses=chains_only
)
