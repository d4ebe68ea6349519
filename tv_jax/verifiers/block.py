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
  """Computes the offers on a chain."""
  if reason := chains_only(draft.tree):
    raise UserError(f"block verification {reason}")
  drawn, token, q = drawn_from(draft.proposal, draft.tokens, draft.q)
  at = np.arange(len(token), dtype=np.int32), token
  drawn = drawn.at[1:].set(drawn[1:] & ~(q[at] <= 0))
  return of_chain(drawn, token, q, draft.p)


def drawn_from(proposal, tokens, q):
  """Returns the drawn part of a chain, with the distributions of its tokens.

  Args:
    proposal: How tokens were drawn.
    tokens: [N]
    q: [N, V] Draft probabilities after the nodes.

  Returns:
    Whether the chain reaches each node [N], the tokens below the root [N - 1],
    and their distributions [N - 1, V].
  """
  drawn = jnp.cumprod((tokens != INVALID).at[ROOT].set(True)).astype(bool)
  token = jnp.where(drawn, tokens, 0)[1:]
  vocabulary = jnp.arange(q.shape[1], dtype=jnp.int32)
  at_token = vocabulary[None, :] == token[:, None]
  at = np.arange(len(token), dtype=np.int32), token
  rest = jnp.sum(jnp.where(at_token, 0, q[:-1]), axis=1)
  scale, values = jax.vmap(proposal.laws)(q[at][:, None], rest, drawn[1:, None])
  return drawn, token, jnp.where(at_token, values[:, 0], scale * q[:-1])


def of_chain(drawn, tokens, q, p) -> Offers:
  """Computes the formulas above.

  Args:
    drawn: [N] Whether the chain reaches each node.
    tokens: [N - 1] Tokens of the nodes below the root; arbitrary where none was
      drawn.
    q: [N - 1, V] The distributions of these tokens.
    p: [N, V] Target probabilities after the nodes.
  """
  at = np.arange(len(tokens), dtype=np.int32), tokens
  ratio = p[at] / jnp.where(q[at] <= 0, 1, q[at])
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
  # Values below a node that was not drawn may be NaN. They are never offered.
  h = jnp.where(drawn, h, 0)

  def residual(node):
    row = jnp.minimum(node, len(q) - 1)  # the leaf has no row of q
    weights = _positive(reach[node] * p[node] - q[row])
    return jnp.where(last[node], p[node], weights)

  # On a chain post-order begins at the leaf, so UP accepts the deepest hit.
  return Offers(jnp.where(last, reach, h), drawn & (reach > 0), residual)


def _positive(x):
  return jnp.where(x <= 0, 0, x)  # `maximum` may lose a NaN


RULE = Verifier(
  name="block", offers=offers, walk=UP, by_path=True, refuses=chains_only
)
