"""Gumbel-coupled sampling (Daliri et al. 2024, arXiv 2408.07978), for chains.

There draft and target share exponential noise E: the draft is the token of the
least E_k / q_k, the target's token that of the least E_k / p_k, and the draft
is accepted if they are one. Here the noise is integrated out, given the draft,
so that the rule takes drafts and coins as all others do. With

    s_k = p_k / (p_k + q_k),    S(s) = sum_k max(s q_k, (1 - s) p_k)

for a drafted token i

    P(the target's token is i | i)          = s_i / S(s_i)
    P(the target's token is j != i | i)     = p_j [G(s_j) - G(s_i)]_+
    G(s) = the integral of 1 / S^2 from 0 to s

Proof: i and j have the least E_k / q_k and E_k / p_k, say a and b, if
E_i = a q_i, E_j = b p_j and E_k >= max(a q_k, b p_k) for all k. That has the
density q_i p_j exp(-(a + b) S(s)) where s = a / (a + b) is between s_i and s_j,
and a + b is integrated out. For j = i there is one variable less.

S is linear between neighbours of the sorted s, where the integral is
(s' - s) / (S(s) S(s')), and S at one of them is a sum of q over all below it
and of p over all above it. All terms are positive, and S is from 1/2 to 1. The
chance to accept is written as [b p - a q]_+ summed, with a / b = p_i / q_i: it
needs no sort, and is 1 where p is q. The sort is for the one node where the
bonus token is drawn.

Axes: N nodes, V vocabulary.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.verifiers import block
from tv_jax.verifiers.offers import DOWN, Offers
from tv_jax.verifiers.residual import positive
from tv_jax.verifiers.verifier import Verifier, chains_only


def offers(tree, proposal, tokens, q, p) -> Offers:
  """Returns what no coin changes, on a chain."""
  if reason := chains_only(tree):
    raise ValueError(f"verifier 'coupled' {reason}")
  drawn, token, q = block.drawn_from(proposal, tokens, q)
  place = np.arange(len(token), dtype=np.int32), token
  p_at, q_at = p[place], q[place]
  exists = drawn[1:] & ~(q_at <= 0)
  most = jnp.where(exists, jnp.where(p_at > q_at, p_at, q_at), 1)
  a, b = p_at / most, q_at / most
  other = jnp.sum(positive(b[:, None] * p[:-1] - a[:, None] * q), axis=1)
  entry = jnp.where(exists, a / jnp.where(exists, a + other, 1), 0)

  def left(node):
    row = jnp.minimum(node, len(q) - 1)  # a leaf has no law of a child
    weights = after_rejection(p[row], q[row], token[row])
    return jnp.where((node == row) & exists[row], weights, p[node])

  entry = jnp.concatenate([jnp.zeros_like(entry[:1]), entry])
  return Offers(chance=entry, offered=entry > 0, residual=left)


def after_rejection(p, q, token) -> jax.Array:
  """Returns p_j [G(s_j) - G(s_i)]_+ of all tokens j, up to scale: [V].

  With t = 2 s - 1 in the place of s, of which small differences are exact where
  p is nearly q. What is below i adds nothing, instead of being subtracted.
  """
  size = p + q
  t = (p - q) / jnp.where(size <= 0, 1, size)
  order = jnp.argsort(t)
  start, t = t[token], t[order]
  below = jnp.cumsum(q[order])
  above = jax.lax.cumsum(p[order], reverse=True)
  above = jnp.concatenate([above[1:], jnp.zeros_like(above[:1])])
  S = (1 + t) * below + (1 - t) * above
  steps = (t[1:] - t[:-1]) / (S[1:] * S[:-1])
  steps = jnp.where(t[:-1] < start, 0, steps)
  G = jnp.concatenate([jnp.zeros_like(t[:1]), jnp.cumsum(steps)])
  return p * jnp.zeros_like(G).at[order].set(G, unique_indices=True)


rule = Verifier(
  name="coupled",
  offers=offers,
  walk=DOWN,
  by_path=True,
  refuses=chains_only,
)
