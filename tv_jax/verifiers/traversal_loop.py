"""Traversal verification as the paper writes it: one node after the other.

Algorithm 3 as a `lax.while_loop` over the array-encoded tree, with early exit,
and without a look below a node that is entered with chance 0: cheapest where
compute is scarce. The tree may be a traced `Topology`, so that changing it does
not recompile. `traversal.py`, all rows at once, takes the same decisions.

Axes: N nodes, K children of a node, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Topology, Tree
from tv_jax.verifiers import drafted, residual
from tv_jax.verifiers.decision import NOT_OFFERED, Decision
from tv_jax.verifiers.traversal import first_hit_law


class _State(NamedTuple):
  """The walk looks at child `child` of `node`, or has just rejected it."""

  node: jax.Array  # [] the parent
  child: jax.Array  # [] the child's rank; past the last: none is left
  rejected: jax.Array  # [] whether that child was rejected
  done: jax.Array  # [] whether `node` was accepted, or a fault was met
  fault: jax.Array  # [] whether a NaN was met
  g: residual.Residual  # [N, ..] of all nodes entered so far
  rest: jax.Array  # [N] q off the children's tokens, once it was needed
  accept: jax.Array  # [N]


def _walk(draft, proposal, eta) -> _State:
  """The walk's end. A coin of 1 or more never hits."""
  children = draft.topology.children
  N, K = children.shape

  def look(state: _State) -> _State:
    """Enters the child, skips it, or offers the node: scalars only."""
    node, child = state.node, state.child
    rest = drafted.rest(draft, proposal, node, child, state.rest[node])
    own = drafted.family(draft, proposal, node, rest)
    target = jnp.where(child < K, children[node, child], NO_CHILD)
    chance = drafted.enter(_of(state.g, node), own, child)
    absent = target == NO_CHILD
    entered = ~absent & (chance > 0)
    # Drawn but never to be entered: rejected, with all that hangs below.
    lost = ~absent & own.laws.exists[child] & ~entered
    mass = state.g.mass[node]
    hit = absent & ((node == ROOT) | (eta[node] < mass))
    missed = absent & ~hit
    fresh = residual.begin(draft.p_at[target], chance)
    offered = absent & (node != ROOT)
    return _State(
      node=jnp.select(
        [entered, missed], [target, draft.topology.parent[node]], node
      ),
      child=jnp.select(
        [entered, missed, lost],
        [jnp.zeros_like(child), draft.topology.rank[node], child],
        child + 1,
      ),
      rejected=lost | missed,
      done=hit | state.fault,
      fault=state.fault | jnp.isnan(chance) | jnp.isnan(mass),
      g=_set(state.g, target, fresh, where=entered),
      rest=state.rest.at[node].set(rest),
      accept=_set(state.accept, node, mass, where=offered),
    )

  def look_on(state: _State) -> _State:
    return jax.lax.while_loop(lambda s: ~(s.rejected | s.done), look, state)

  def reject(state: _State) -> _State:
    """Takes the rejected child out of its parent's residual: one pass."""
    node, child = state.node, state.child
    own = drafted.family(draft, proposal, node, state.rest[node])
    later = np.arange(K, dtype=np.int32) > child
    more = jnp.any((own.tokens != INVALID) & later)
    g = drafted.reject(
      draft,
      _of(state.g, node),
      own,
      node,
      child,
      spared=(node == ROOT) & ~more,  # accepted, whatever its mass
    )
    return look_on(
      state._replace(
        child=child + 1,
        rejected=jnp.array(False),
        g=_set(state.g, node, g, where=True),
      )
    )

  zero = jnp.zeros((), jnp.int32)
  zeros = jnp.zeros(N, draft.p.dtype)
  g = jax.vmap(residual.begin)(draft.p_at, zeros)
  whole = residual.begin(draft.p_at[ROOT], jnp.ones_like(zeros[0]))
  start = _State(
    node=zero,
    child=zero,
    rejected=jnp.array(False),
    done=jnp.array(False),
    fault=jnp.array(False),
    g=_set(g, ROOT, whole, where=True),
    rest=zeros,
    accept=jnp.full_like(zeros, NOT_OFFERED),
  )
  return jax.lax.while_loop(lambda s: ~s.done, reject, look_on(start))


def decide(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
) -> Decision:
  """See `decision.Verifier`."""
  draft = drafted.gather(tree, tokens, q, p)
  end = _walk(draft, proposal, eta)
  return drafted.conclude(
    draft, end.node, _of(end.g, end.node), end.accept, end.fault
  )


def stop_law(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] from the thresholds of a walk in which every coin misses."""
  draft = drafted.gather(tree, tokens, q, p)
  end = _walk(draft, proposal, jnp.ones(len(tokens), p.dtype))
  offered = (end.accept != NOT_OFFERED) & ~end.fault
  return first_hit_law(
    draft.topology.postorder, jnp.where(offered, end.accept, 0)
  )


def _of(items, node):
  return jax.tree.map(lambda array: array[node], items)


def _set(items, node, values, *, where):
  """The items with `values` at `node`, or unchanged."""

  def update(array, value):
    return array.at[node].set(jnp.where(where, value, array[node]))

  return jax.tree.map(update, items, values)
