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

from tv_jax import proposals
from tv_jax.tree import NO_PARENT, ROOT, Topology, Tree
from tv_jax.verifiers import drafted, residual
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, conclude
from tv_jax.verifiers.traversal import first_hit_law


class _State(NamedTuple):
  """What is left at the nodes when some of them have been looked at."""

  alpha: jax.Array  # [N] w; G = [alpha p - beta q]_+ off the children's tokens
  beta: jax.Array  # [N]
  mass: jax.Array  # [N] sum G
  at: jax.Array  # [N, K] G at the children's tokens
  missed: jax.Array  # [N] by depth: C, and once all are looked at 1 - sum w
  fault: jax.Array  # []


class _Offers(NamedTuple):
  """Everything that no coin changes."""

  draft: drafted.Draft
  left: _State
  threshold: jax.Array  # [N]
  entered: jax.Array  # [N] whether the node can be offered at all
  fault: jax.Array  # []


def _offers(tree, proposal, tokens, q, p) -> _Offers:
  draft = drafted.gather(tree, tokens, q, p)
  depth = jnp.asarray(tree.depth)
  N, K = draft.tokens.shape
  rest = jnp.zeros(N, p.dtype)
  if proposal.rest_from < K:
    rest = jax.vmap(drafted.sum_off)(q, draft.tokens)

  def look(node, state: _State) -> _State:
    """Takes a node's share out of what is left at its parent."""
    v, rank = draft.topology.parent[node], draft.topology.rank[node]
    there = v != NO_PARENT  # a place may be empty
    own = drafted.family(draft, proposal, v, rest[v])
    layer = jnp.where(depth == depth[v], state.mass, 0)
    S = state.missed[depth[v]] + jnp.sum(layer)
    law = drafted.child_law(own, rank)
    at = S * law.at
    law = residual.Law(
      scale=S * law.scale, at=at, exists=law.exists & there & ~(at[rank] <= 0)
    )
    g = residual.Residual(
      state.alpha[v], state.beta[v], state.mass[v], 0, state.at[v]
    )
    entry = residual.enter(g.at[rank], law.at[rank], law.exists)
    g = residual.shift(g, law)
    off = residual.mass_off(g.alpha, g.beta, p[v], q[v], own.tokens)
    mass = off + residual.mass_on(g, own.fresh)
    mass = jnp.where(law.exists, mass, g.mass)
    w = state.missed[depth[node]] * entry
    return _State(
      alpha=state.alpha.at[node].set(w),
      beta=state.beta.at[v].set(g.beta),
      mass=state.mass.at[v].set(mass).at[node].set(w),
      at=state.at.at[v].set(g.at).at[node].set(w * draft.p_at[node]),
      missed=state.missed.at[depth[node]].multiply(1 - entry),
      fault=state.fault | jnp.isnan(entry) | jnp.isnan(mass),
    )

  whole = jnp.zeros(N, p.dtype).at[ROOT].set(1)
  start = _State(
    alpha=whole,
    beta=jnp.zeros_like(whole),
    mass=whole,
    at=jnp.zeros_like(draft.p_at).at[ROOT].set(draft.p_at[ROOT]),
    missed=1 - whole,  # the root misses nothing
    fault=jnp.array(False),
  )
  left = jax.lax.fori_loop(1, N, look, start)
  same = depth[:, None] == depth[None, :]
  upto = same & (np.arange(N)[:, None] >= np.arange(N)[None, :])
  size = left.missed[depth] + jnp.sum(jnp.where(upto, left.mass[None], 0), 1)
  return _Offers(
    draft=draft,
    left=left,
    threshold=left.mass / jnp.where(size <= 0, 1, size),
    entered=(left.alpha > 0) & (np.arange(N) != ROOT),
    fault=left.fault,
  )


def decide(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
) -> Decision:
  """See `decision.Verifier`."""
  offers = _offers(tree, proposal, tokens, q, p)
  left, number = offers.left, np.arange(len(tokens), dtype=np.int32)
  # Layers stand one after the other: the last node that is hit.
  hit = offers.entered & (eta < offers.threshold)
  node = jnp.max(jnp.where(hit, number, ROOT))
  return conclude(
    node=node,
    g=residual.Residual(
      left.alpha[node], left.beta[node], left.mass[node], 0, left.at[node]
    ),
    tokens=offers.draft.tokens[node],
    q=q,
    p=p,
    accept=jnp.where(
      offers.entered & (number >= node), offers.threshold, NOT_OFFERED
    ),
    fault=offers.fault,
  )


def stop_law(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] the chance of each node to be the last that is hit."""
  offers = _offers(tree, proposal, tokens, q, p)
  return first_hit_law(
    np.arange(len(tokens), dtype=np.int32)[::-1],
    jnp.where(offers.entered & ~offers.fault, offers.threshold, 0),
  )
