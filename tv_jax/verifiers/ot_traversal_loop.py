"""The traversal with siblings planned for in pairs, one node after the other.

Plans are made when the walk first looks at a pair, so that what lies behind the
accepted node costs nothing: a plan is most of what a decision takes where rows
are verified one after the other. The tree may be a traced `Topology`.

Axes: N nodes, K children of a node, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Topology, Tree
from tv_jax.verifiers import drafted, pairs
from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle
from tv_jax.verifiers.ot_traversal import Node, two
from tv_jax.verifiers.traversal import first_hit_law


class _State(NamedTuple):
  """The walk looks at child `child` of `node`."""

  node: jax.Array  # [] the parent
  child: jax.Array  # [] the child's rank; past the last: none is left
  unplanned: jax.Array  # [] whether its pair must be planned for
  done: jax.Array  # [] whether `node` was accepted, or a fault was met
  fault: jax.Array  # [] whether a NaN was met
  planned: jax.Array  # [N] how many children were planned for
  chances: jax.Array  # [N, 2] to enter those of the last pair
  g: jax.Array  # [N, V] once a child was planned for
  mass: jax.Array  # [N] of all nodes entered so far
  deficit: jax.Array  # [N]
  scale: jax.Array  # [N]
  accept: jax.Array  # [N]


def _walk(draft: drafted.Draft, eta, how) -> _State:
  """The walk's end. A coin of 1 or more never hits."""
  children, parent = draft.topology.children, draft.topology.parent
  N, K = children.shape
  # A pair may begin at the last child.
  tokens = jnp.pad(draft.tokens, ((0, 0), (0, 1)), constant_values=INVALID)

  def look(state: _State) -> _State:
    """Enters the child, skips it, or offers the node: scalars only."""
    node, child = state.node, state.child
    target = jnp.where(child < K, children[node, child], NO_CHILD)
    absent = target == NO_CHILD
    unplanned = ~absent & (child >= state.planned[node])
    chance = state.chances[node, child % 2]
    entered = ~absent & ~unplanned & (chance > 0)
    mass = state.mass[node]
    hit = absent & ((node == ROOT) | (eta[node] < mass))
    missed = absent & ~hit
    skipped = ~(absent | unplanned | entered)
    offered = absent & (node != ROOT)
    fault = state.fault | jnp.isnan(mass)
    return state._replace(
      node=jnp.select([entered, missed], [target, parent[node]], node),
      child=jnp.select(
        [entered, missed, skipped],
        [jnp.zeros_like(child), draft.topology.rank[node] + 1, child + 1],
        child,
      ),
      unplanned=unplanned,
      done=hit | fault,
      fault=fault,
      mass=_set(state.mass, target, chance, where=entered),
      deficit=_set(state.deficit, target, 1 - chance, where=entered),
      accept=_set(state.accept, node, mass, where=offered),
    )

  def look_on(state: _State) -> _State:
    return jax.lax.while_loop(lambda s: ~(s.unplanned | s.done), look, state)

  def plan(state: _State) -> _State:
    """Plans for the pair that begins with the child: a few passes."""
    node, child = state.node, state.child
    elders = np.arange(K + 1, dtype=np.int32) < child
    own = tokens[node]
    mass = state.mass[node]
    both = None
    if K > 1:
      second = jnp.minimum(child + 1, K - 1)
      both = (child + 1 < K) & (children[node, second] != NO_CHILD)
    chances, after = two(
      Node(
        g=jnp.where(child == 0, mass * draft.p[node], state.g[node]),
        mass=mass,
        deficit=state.deficit[node],
        rest=drafted.put(draft.q[node], jnp.where(elders, own, INVALID), 0),
        scale=state.scale[node],
      ),
      jax.lax.dynamic_slice(own, (child,), (2,)),
      both,
      how,
    )
    fault = jnp.any(jnp.isnan(chances)) | jnp.isnan(after.mass)
    return look_on(
      state._replace(
        unplanned=jnp.array(False),
        done=state.done | fault,  # of a lane that waits for others
        fault=state.fault | fault,
        planned=state.planned.at[node].set(child + 2),
        chances=state.chances.at[node].set(chances),
        g=state.g.at[node].set(after.g),
        mass=state.mass.at[node].set(after.mass),
        deficit=state.deficit.at[node].set(after.deficit),
        scale=state.scale.at[node].set(after.scale),
      )
    )

  zeros, no = jnp.zeros(N, draft.p.dtype), jnp.array(False)
  start = _State(
    node=jnp.zeros((), jnp.int32),
    child=jnp.zeros((), jnp.int32),
    unplanned=no,
    done=no,
    fault=no,
    planned=jnp.zeros(N, jnp.int32),
    chances=jnp.zeros((N, 2), zeros.dtype),
    g=jnp.zeros_like(draft.p),
    mass=zeros.at[ROOT].set(1),
    deficit=zeros,
    scale=jnp.ones_like(zeros),
    accept=jnp.full_like(zeros, NOT_OFFERED),
  )
  return jax.lax.while_loop(lambda s: ~s.done, plan, look_on(start))


def decide(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
  *,
  how: pairs.How = pairs.USUAL,
) -> Decision:
  """See `decision.Verifier`."""
  del proposal  # without_replacement
  draft = drafted.gather(tree, tokens, q, p)
  end = _walk(draft, eta, how)
  return _settled(draft, end, end.node, end.accept, end.fault)


def stop_law(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  *,
  how: pairs.How = pairs.USUAL,
) -> jax.Array:
  """[N] from the thresholds of a walk in which every coin misses."""
  del proposal
  draft = drafted.gather(tree, tokens, q, p)
  return _law(draft, _walk(draft, jnp.ones(len(tokens), p.dtype), how))


def decide_and_stop(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
  *,
  how: pairs.How = pairs.USUAL,
) -> tuple[Decision, jax.Array]:
  """`decide` and `stop_law` of one walk, in which every coin misses.

  Another walk is the same until its first hit, and what was planned for below a
  node is not touched again once the node was offered.
  """
  del proposal
  draft = drafted.gather(tree, tokens, q, p)
  end = _walk(draft, jnp.ones(len(tokens), p.dtype), how)
  hit, first, accept = drafted.first_hit(draft, end.accept, eta)
  decision = _settled(
    draft,
    end,
    node=jnp.where(hit, first, ROOT),
    accept=accept,
    fault=end.fault & ~hit,
  )
  return decision, _law(draft, end)


def _settled(draft, end, node, accept, fault) -> Decision:
  """The decision for a node that the walk has been at."""
  node = jnp.where(fault, ROOT, node)
  inner = (draft.topology.children[node, 0] != NO_CHILD) & ~fault
  return settle(
    node=node,
    weights=jnp.where(inner, end.g[node], draft.p[node]),
    p=draft.p,
    accept=accept,
    fault=fault,
  )


def _law(draft, end) -> jax.Array:
  offered = (end.accept != NOT_OFFERED) & ~end.fault
  return first_hit_law(
    draft.topology.postorder, jnp.where(offered, end.accept, 0)
  )


def _set(array, node, value, *, where):
  """The array with `value` at `node`, or unchanged."""
  return array.at[node].set(jnp.where(where, value, array[node]))
