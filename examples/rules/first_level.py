"""One rule for the first level of a tree, and another below it.

The rule above decides which child of the root is entered. The rule below then
verifies that child's subtree as a separate tree: the child is its root, which
is accepted for certain. The combination is lossless if both rules are.

The probability that a node is accepted is a product: the probability that the
rule above enters its subtree, times the probability that the rule below then
accepts the node. `Verifier(walk=UP)` offers nodes in post-order, so each node's
chance is that product divided by the probability that no earlier node was
accepted.

An entered child without children is accepted without the rule below.

Axes: N nodes, n nodes of a subtree, V vocabulary.
"""

import jax.numpy as jnp
import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.tree import ROOT, from_parents
from tv_jax.verifiers import DOWN, UP, VERIFIERS, Draft, Offers, Verifier


def first_level(above: Verifier, below: Verifier, name: str) -> Verifier:
  """Combines two rules.

  Args:
    above: The rule for the children of the root; it goes `DOWN`.
    below: The rule for the subtrees of these children.
    name: Name of the combination.
  """
  first = above.offers
  if above.walk != DOWN or first is None:
    raise UserError(f"verifier {above.name!r} must go DOWN, as token_level")

  def offers(draft: Draft) -> Offers:
    tree, p, top = draft.tree, draft.p, first(draft)
    chance, parts = jnp.zeros_like(top.chance), []
    for child in tree.levels[1]:
      nodes = np.flatnonzero(tree.ancestors[:, child]).astype(np.int32)
      stop, inner = _below(below, draft, nodes)
      parts.append((nodes, inner))
      entry = jnp.where(top.offered[child], top.chance[child], 0)
      order = [v for v in tree.postorder.tolist() if v in nodes]
      accepted = entry * stop[np.searchsorted(nodes, order)]
      before = jnp.cumsum(accepted) - accepted
      left = jnp.where(before < 1, 1 - before, 1)
      chance = chance.at[np.array(order)].set(jnp.minimum(accepted / left, 1))

    def residual(node):
      law = jnp.where(node == ROOT, top.residual(node), p[node])
      for nodes, inner in parts:
        here = jnp.argmax(nodes == node).astype(jnp.int32)
        law = jnp.where(jnp.any(nodes == node), inner(here), law)
      return law

    return Offers(chance=chance, offered=chance > 0, residual=residual)

  return Verifier(name=name, offers=offers, walk=UP)


def _below(rule: Verifier, draft: Draft, nodes):
  """Returns where a rule stops in a subtree [n], and its residuals."""
  tree, proposal, tokens, q, p = draft
  if len(nodes) == 1:
    return jnp.ones(1, p.dtype), lambda _: p[nodes[0]]
  parents = np.searchsorted(nodes, tree.parent[nodes])
  subtree = from_parents([-1, *parents[1:]])
  assert rule.offers
  part = Draft(subtree, proposal, tokens[nodes], q[nodes], p[nodes])
  found = rule.offers(part)
  return rule.stopping(part, found), found.residual


rule = first_level(
  VERIFIERS["token_level"], VERIFIERS["traversal"], "first_level"
)
