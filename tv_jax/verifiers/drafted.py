"""A draft as a walk over one node at a time reads it: what the loops share.

Axes: N nodes, K children of a node, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Topology, Tree
from tv_jax.verifiers import residual
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle


class Walked(NamedTuple):
  """What of a tree a walk reads, as arrays."""

  parent: jax.Array  # [N]
  rank: jax.Array  # [N]
  children: jax.Array  # [N, K]
  postorder: jax.Array  # [N]


class Draft(NamedTuple):
  """The tree, and the numbers at the drafted tokens."""

  topology: Walked
  tokens: jax.Array  # [N, K] of the children; INVALID where there is none
  p_at: jax.Array  # [N, K] the parent's target law at them
  q_at: jax.Array  # [N, K] the parent's base draft law at them
  q: jax.Array  # [N, V]
  p: jax.Array  # [N, V]


def gather(tree: Tree | Topology, tokens, q, p) -> Draft:
  """The draft over a tree, known or traced."""
  arrays = (jnp.asarray(getattr(tree, name)) for name in Walked._fields)
  topology = Walked(*arrays)
  absent = topology.children == NO_CHILD
  drawn = jnp.where(absent, INVALID, tokens[jnp.maximum(topology.children, 0)])
  node = jnp.arange(len(drawn), dtype=jnp.int32)[:, None]
  place = jnp.maximum(drawn, 0)
  return Draft(topology, drawn, p[node, place], q[node, place], q, p)


def family(draft: Draft, proposal, node, rest) -> residual.Siblings:
  """The children of one node."""
  return residual.siblings(
    proposal, draft.tokens[node], draft.p_at[node], draft.q_at[node], rest
  )


def child_law(own: residual.Siblings, child) -> residual.Law:
  """What one child was drawn from."""
  return jax.tree.map(lambda x: x[child], own.laws)


def enter(g: residual.Residual, own: residual.Siblings, child) -> jax.Array:
  """[] the chance to enter a child."""
  law = child_law(own, child)
  return residual.enter(g.at[child], law.at[child], law.exists)


def rest(draft: Draft, proposal: proposals.Proposal, node, child, known):
  """[] the mass of q off the children of `node`; summed when first needed.

  That is when the walk looks at the first child whose law depends on it:
  before, the value is of no consequence, and afterwards it is `known`.
  """
  if draft.tokens.shape[1] <= proposal.rest_from:
    return known
  first = draft.topology.children[node, proposal.rest_from] != NO_CHILD
  return jax.lax.cond(
    first & (child == proposal.rest_from),
    lambda: sum_off(draft.q[node], draft.tokens[node]),
    lambda: known,
  )


def reject(
  draft: Draft, g, own, node, child, *, spared, where=True
) -> residual.Residual:
  """The residual of `node` after the rejection of one child.

  Args:
    draft: The draft.
    g: The residual before.
    own: The family.
    node: [] the parent.
    child: [] the rank of the rejected child.
    spared: [] whether the mass no longer matters, which saves the pass.
    where: [] whether it was rejected; else g stays.
  """
  law = child_law(own, child)
  shifted = residual.shift(g, law)

  def off():
    terms = shifted.alpha * draft.p[node] - shifted.beta * draft.q[node]
    return sum_off(residual.positive(terms), own.tokens)

  # A number is all that the branch gives: more would be copied.
  kept = jax.lax.cond(where & ~spared, off, lambda: jnp.zeros_like(g.mass))
  kept += residual.mass_on(shifted, own.fresh)
  after = jax.tree.map(
    lambda ours, theirs: jnp.where(spared, ours, theirs),
    shifted,
    residual.rescale(g, shifted, law, kept),
  )
  return jax.tree.map(lambda new, old: jnp.where(where, new, old), after, g)


def first_hit(
  draft: Draft, accept: jax.Array, eta: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """What a walk up would have come to, by thresholds of one that never hits.

  Args:
    draft: The draft.
    accept: [N] thresholds; the root's is NOT_OFFERED.
    eta: [N] coins.

  Returns:
    Whether any node is hit, the first of these in post-order, and the
    thresholds up to that node.
  """
  order = draft.topology.postorder
  hits = ((accept != NOT_OFFERED) & (eta < accept))[order]
  first = jnp.argmax(hits).astype(jnp.int32)
  later = (
    jnp.zeros(len(accept), bool)
    .at[order]
    .max(jnp.arange(len(order), dtype=jnp.int32) > first)
  )
  hit = hits[first]
  upto = jnp.where(hit & later, NOT_OFFERED, accept)
  return hit, order[first], upto


def conclude(
  draft: Draft, node, g: residual.Residual, accept, fault
) -> Decision:
  """As `decision.conclude`, by branches: less work where branches are cheap.

  Args:
    draft: The draft.
    node: [] the accepted node.
    g: Its residual.
    accept: [N] thresholds.
    fault: [] whether a NaN was met.
  """
  tokens = draft.tokens[node]

  def sound(total):
    return ~fault & (total > 0) & (total < jnp.inf)

  def untouched():
    # Or a CPU copies it twice: for the sum, and to be given.
    row = jax.lax.platform_dependent(
      draft.p[node], cpu=jax.lax.optimization_barrier, default=lambda row: row
    )
    return row, sound(jnp.sum(row))

  def reduced():
    ratio = jnp.minimum(g.beta / g.alpha, residual.largest(g.beta.dtype))
    row = residual.positive(draft.p[node] - ratio * draft.q[node])
    row = put(row, tokens, g.at / g.alpha)
    total = jnp.sum(row)
    usable = sound(total)
    return jax.lax.cond(usable, lambda: row / total, lambda: row), usable

  law, usable = jax.lax.cond(jnp.all(tokens == INVALID), untouched, reduced)
  law, lost = _settled(usable, law, node, draft.p, accept, fault)
  return Decision(
    node=jnp.where(lost, ROOT, node),
    residual=law,
    accept=jnp.where(lost, NOT_OFFERED, accept),
    fault=lost,
  )


def _settle(usable, law, node, p, accept, fault):
  """What is to be done where a law is not usable, and whether by a fault."""
  row = jnp.where(fault, p[ROOT], law)
  own = settle(node=node, weights=row, p=p, accept=accept, fault=fault)
  return jnp.where(usable, law, own.residual), ~usable & own.fault


@jax.custom_batching.custom_vmap
def _settled(usable, law, *rest):
  """`_settle` where the law is not usable.

  In a loop that turns once or not at all: of two branches, one would copy it.
  """

  def turn(state):
    return (jnp.array(True), *_settle(*state[:2], *rest))

  start = usable, law, jnp.array(False)
  return jax.lax.while_loop(lambda state: ~state[0], turn, start)[1:]


@_settled.def_vmap
def _(size, batched, *given):
  """All rows do both anyway."""
  del size
  axes = [0 if own else None for own in batched]
  return jax.vmap(_settle, axes)(*given), (True, True)


def sum_off(row, tokens):
  """The sum of a row off the tokens: `residual.mass_off` as a CPU likes it."""
  return jnp.sum(put(row, tokens, jnp.zeros((), row.dtype)))


def put(row, tokens, values):
  """The row with `values` at the tokens, where there are any."""
  # -1 would wrap; and one place more than K keeps it a scatter at K = 1, which
  # becomes a copy of the row otherwise.
  place = jnp.where(tokens == INVALID, len(row), tokens)
  place = jnp.append(place, len(row))
  values = jnp.append(jnp.broadcast_to(values, tokens.shape), 0)
  return row.at[place].set(values, mode="drop")
