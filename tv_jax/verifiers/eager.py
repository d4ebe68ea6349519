"""One drafted tree, verified by hand: checked first, where it can be."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import Tree
from tv_jax.verifiers.decision import Decide, Verifier
from tv_jax.verifiers.table import misfit, resolve
from tv_jax.verifiers.verdict import Verdict, checked, toss_and_draw

# How far a row may sum from 1 before it is taken for something else.
TOLERANCE = 1e-3


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _jitted(key, rule, tree, proposal, tokens, q, p):
  more = rule.num_coins(tree) - len(tree)
  decide = checked(rule.decide)
  return toss_and_draw(key, decide, tree, proposal, tokens, q, p, more=more)


def check_draft(tree: Tree, tokens, q, p) -> None:
  """Refuses a draft that no verifier could judge, naming what is wrong."""
  if not isinstance(tree, Tree):
    raise ValueError(f"tree is {tree!r}: give a Tree, as tree.parse makes one")
  N = len(tree)
  tokens, q, p = np.asarray(tokens), np.asarray(q), np.asarray(p)
  if tokens.shape != (N,) or not np.issubdtype(tokens.dtype, np.integer):
    raise ValueError(
      f"tokens are {tokens.dtype}{list(tokens.shape)}; the tree has {N} nodes:"
      f" give integers [{N}]"
    )
  if p.ndim != 2 or len(p) != N or q.shape != p.shape or q.dtype != p.dtype:
    raise ValueError(
      f"laws are q {q.dtype}{list(q.shape)} and p {p.dtype}{list(p.shape)};"
      f" the tree has {N} nodes: give both [{N}, V], of one dtype"
    )
  if not np.issubdtype(p.dtype, np.floating) and p.dtype.name != "bfloat16":
    raise ValueError(f"laws are of dtype {p.dtype}: give floats")
  V = p.shape[1]
  drawn = np.ones(N, bool)
  for node in range(1, N):
    token = tokens[node]
    if token != INVALID and not 0 <= token < V:
      raise ValueError(
        f"node {node} has token {token}; tokens are 0 to {V - 1}, or"
        f" {INVALID} where there was none to draw"
      )
    drawn[node] = token != INVALID
    if drawn[node] and not drawn[tree.parent[node]]:
      raise ValueError(
        f"node {node} has token {token} below node {tree.parent[node]}, which"
        f" has none ({INVALID}): nothing can be drawn there"
      )
  for name, laws, nodes in (
    ("p", p, np.flatnonzero(drawn)),
    ("q", q, np.flatnonzero(drawn & (tree.num_children > 0))),
  ):
    for node in nodes:
      row = laws[node]
      if not np.isfinite(row).all():
        raise ValueError(f"{name}[{node}] holds a NaN or an infinity")
      if row.min() < 0:
        raise ValueError(f"{name}[{node}] holds {row.min()}: no probability")
      total = row.sum(dtype=np.float64)
      if abs(total - 1) > TOLERANCE:
        raise ValueError(
          f"{name}[{node}] sums to {total:.6g}, not to 1: give laws, not"
          " logits or truncated laws"
        )


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

  Returns:
    What the cycle yields.

  Raises:
    ValueError: The draft is malformed (checked where the arrays are concrete,
      so not under `jit`), or the rule is not defined for this tree.
  """
  proposal, rule = proposals.resolve(proposal), resolve(verifier)
  if not any(isinstance(array, jax.core.Tracer) for array in (tokens, q, p)):
    check_draft(tree, tokens, q, p)
  if reason := misfit(rule, tree, proposal):
    raise ValueError(reason)
  tokens = jnp.asarray(tokens, jnp.int32)
  q, p = jnp.asarray(q), jnp.asarray(p)
  return _jitted(key, rule, tree, proposal, tokens, q, p)
