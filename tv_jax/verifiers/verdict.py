"""The coins of a decision, and the token that comes of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tv_jax import probs, proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers.decision import Decision, settle
from tv_jax.verifiers.table import misfit, resolve
from tv_jax.verifiers.verifier import Decide, Shape, Verifier

# How far a row may sum from 1 before it is taken for something else.
TOLERANCE = 1e-3


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
  """What one cycle yields: the path to `node`, then `token`."""

  node: jax.Array  # [] int32 the accepted node
  length: jax.Array  # [] int32 tokens gained: its depth, and the bonus
  token: jax.Array  # [] int32 the bonus token
  fault: jax.Array  # [] bool, as in `Decision`


def toss(key: jax.Array, count: int, dtype) -> jax.Array:
  """Tosses the coins [count] of one verification."""
  coins, _ = jax.random.split(key)
  # One draw has 23 bits in float32: any threshold above 0 would be passed by at
  # least 1 coin in 2^23. A second one fills in the digits below.
  coarse, fine = jax.random.uniform(coins, (2, count), dtype)
  eta = coarse + fine * jnp.finfo(dtype).eps
  return jnp.minimum(eta, 1 - jnp.finfo(dtype).epsneg)


def draw_bonus(key: jax.Array, decision: Decision) -> jax.Array:
  """Draws the token after the accepted node; `toss` takes the same key."""
  _, bonus = jax.random.split(key)
  return probs.draw(bonus, decision.residual)


def checked(decision: Decision, tokens: jax.Array, p: jax.Array) -> Decision:
  """Returns a decision, or one plain step where it can be none.

  That is where the node is none of the tree's or holds no token, or where the
  residual is no law. What comes of `Offers` is sound, and need not be checked.
  """
  node = jnp.asarray(decision.node, jnp.int32)
  decision = dataclasses.replace(decision, node=node)
  total = jnp.sum(decision.residual)
  inside = (node >= ROOT) & (node < len(tokens))
  drawn = tokens[jnp.where(inside, node, ROOT)] != INVALID
  sound = inside & (drawn | (node == ROOT))
  sound &= (total > 0) & (total < jnp.inf) & (jnp.min(decision.residual) >= 0)
  plain = settle(
    node=jnp.full_like(node, ROOT),
    weights=p[ROOT],
    p=p,
    accept=decision.accept,
    fault=jnp.array(True),
  )
  return jax.tree.map(lambda x, y: jnp.where(sound, x, y), decision, plain)


def draw_verdict(
  key: jax.Array, verifier: Verifier, tree: Shape, proposal, tokens, q, p
) -> Verdict:
  """Does one verification with randomness from `key`; pure, for jitted code."""
  eta = toss(key, len(tokens), p.dtype)
  decision = verifier.decide(tree, proposal, tokens, q, p, eta)
  if not verifier.offers:
    decision = checked(decision, tokens, p)
  return Verdict(
    node=decision.node,
    length=jnp.asarray(tree.depth)[decision.node] + 1,
    token=draw_bonus(key, decision),
    fault=decision.fault,
  )


_jitted = jax.jit(draw_verdict, static_argnums=(1, 2, 3))


def verify(
  key: jax.Array,
  verifier: Verifier | Decide | str,
  tree: Tree,
  proposal: proposals.Proposal | str,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> Verdict:
  """Verifies one drafted tree.

  Args:
    key: A `jax.random.key`, for the coins and the bonus token.
    verifier: A name of `VERIFIERS`, a `Verifier`, or a bare `decide`.
    tree: The draft's topology.
    proposal: A name of `PROPOSALS`, or a `Proposal`: how siblings were drawn.
    tokens: [N] integers; the root's is ignored, INVALID where there is none.
    q: [N, V] the draft's law of the token after each node; rows of leaves are
      ignored.
    p: [N, V] the target's law of the token after each node.

  Raises:
    ValueError: The draft is malformed (checked where the arrays are concrete,
      so not under `jit`), or the rule is not defined for this tree.
  """
  proposal, rule = proposals.resolve(proposal), resolve(verifier)
  if not any(isinstance(array, Tracer) for array in (tokens, q, p)):
    check_draft(tree, tokens, q, p)
  if reason := misfit(rule, tree, proposal):
    raise ValueError(reason)
  tokens = jnp.asarray(tokens, jnp.int32)
  q, p = jnp.asarray(q), jnp.asarray(p)
  return _jitted(key, rule, tree, proposal, tokens, q, p)


def check_draft(tree: Tree, tokens, q, p) -> None:
  """Refuses a draft that no verifier could judge, naming what is wrong."""
  N = len(tree)
  tokens, q, p = np.asarray(tokens), np.asarray(q), np.asarray(p)
  if tokens.shape != (N,) or p.shape[:1] != (N,) or q.shape != p.shape:
    raise ValueError(
      f"tokens {list(tokens.shape)}, q {list(q.shape)}, p {list(p.shape)}: the"
      f" tree has {N} nodes, give [{N}], [{N}, V] and [{N}, V]"
    )
  drawn = (tokens != INVALID) | (np.arange(N) == ROOT)
  known = (tokens >= 0) & (tokens < p.shape[1]) & drawn[tree.parent]
  if wrong := np.flatnonzero(drawn[1:] & ~known[1:]).tolist():
    raise ValueError(
      f"node {wrong[0] + 1} has token {tokens[wrong[0] + 1]}: give"
      f" 0 to {p.shape[1] - 1}, or {INVALID} where there was none to draw, and"
      " below such a node"
    )
  inner = drawn & (tree.num_children > 0)
  for name, laws, nodes in (("p", p, drawn), ("q", q, inner)):
    for node in np.flatnonzero(nodes):
      row = laws[node].astype(np.float64)
      # A NaN is in neither range.
      if not (row.min() >= 0 and abs(row.sum() - 1) <= TOLERANCE):
        raise ValueError(
          f"{name}[{node}] sums to {row.sum():.6g} and is {row.min():.6g} at"
          " least: give laws, not logits or truncated laws"
        )
