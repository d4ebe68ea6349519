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


class _Known(NamedTuple):
  """What the walk knows of one node."""

  g: residual.Residual
  rest: jax.Array  # [] q off the children's tokens, once it was needed
  accept: jax.Array  # []


class _State(NamedTuple):
  """The walk looks at child `child` of `node`, or has just rejected it.

  A step is many small operations, and on a CPU most of its time goes into
  getting from one to the next: so all that is known of a node is one row, which
  is read and written at once. (Under a vmap, as on GPUs, each step passes over
  the vocabulary; the forms for all nodes at once are for that.)
  """

  node: jax.Array  # [] the parent
  child: jax.Array  # [] the child's rank; past the last: none is left
  rejected: jax.Array  # [] whether that child was rejected
  done: jax.Array  # [] whether `node` was accepted, or a fault was met
  fault: jax.Array  # [] whether a NaN was met
  rows: jax.Array  # [N, 6 + K] `_Known` of all nodes entered so far

  @property
  def accept(self) -> jax.Array:
    """[N] thresholds."""
    return jax.vmap(_unpack)(self.rows).accept


def _pack(known: _Known) -> jax.Array:
  """[6 + K] the numbers in a row."""
  *scalars, at = known.g
  return jnp.append(jnp.stack([known.rest, known.accept, *scalars]), at)


def _unpack(row: jax.Array) -> _Known:
  """What `_pack` has put together."""
  rest, accept, *scalars = row[: 1 + len(residual.Residual._fields)]
  at = row[len(scalars) + 2 :]
  return _Known(residual.Residual(*scalars, at), rest, accept)


def _enter(p_at, chance) -> jax.Array:
  """The row of a node that is entered with `chance`."""
  never = jnp.full_like(chance, NOT_OFFERED)
  return _pack(
    _Known(residual.begin(p_at, chance), jnp.zeros_like(chance), never)
  )


def _walk(draft, proposal, eta) -> _State:
  """The walk's end. A coin of 1 or more never hits."""
  children = draft.topology.children
  N, K = children.shape

  def step(state: _State) -> _State:
    """Takes a rejected child out of its parent's residual, and looks on."""
    node, rejected = state.node, state.rejected
    child = jnp.where(rejected, state.child + 1, state.child)
    known = _unpack(state.rows[node])
    rest = drafted.rest(draft, proposal, node, child, known.rest)
    own = drafted.family(draft, proposal, node, rest)
    later = np.arange(K, dtype=np.int32) >= child
    more = jnp.any((own.tokens != INVALID) & later)
    g = drafted.reject(
      draft,
      known.g,
      own,
      node,
      state.child,
      where=rejected,
      spared=(node == ROOT) & ~more,  # accepted, whatever its mass
    )
    # Enters the next child, skips it, or offers the node.
    target = jnp.where(child < K, children[node, child], NO_CHILD)
    chance = drafted.enter(g, own, child)
    absent = target == NO_CHILD
    entered = ~absent & (chance > 0)
    # Drawn but never to be entered: rejected, with all that hangs below.
    lost = ~absent & own.laws.exists[child] & ~entered
    hit = absent & ((node == ROOT) | (eta[node] < g.mass))
    missed = absent & ~hit
    offered = absent & (node != ROOT)
    fault = jnp.isnan(chance) | jnp.isnan(g.mass)
    accept = jnp.where(offered, g.mass, NOT_OFFERED)
    rows = state.rows.at[node].set(_pack(_Known(g, rest, accept)))
    fresh = _enter(draft.p_at[target], chance)
    fresh = jnp.where(entered, fresh, rows[target])
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
      done=hit | fault,
      fault=fault,
      rows=rows.at[target].set(fresh),
    )

  zero, false = jnp.zeros((), jnp.int32), jnp.array(False)
  chances = jnp.zeros(N, draft.p.dtype).at[ROOT].set(1)
  start = _State(
    node=zero,
    child=zero,
    rejected=false,
    done=false,
    fault=false,
    rows=jax.vmap(_enter)(draft.p_at, chances),
  )
  return jax.lax.while_loop(lambda state: ~state.done, step, start)


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
  g = _unpack(end.rows[end.node]).g
  return drafted.conclude(draft, end.node, g, end.accept, end.fault)


def stop_law(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] from the thresholds of a walk in which every coin misses."""
  draft = drafted.gather(tree, tokens, q, p)
  return _law(draft, _walk(draft, proposal, jnp.ones(len(tokens), p.dtype)))


def decide_and_stop(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
) -> tuple[Decision, jax.Array]:
  """`decide` and `stop_law` of one walk, in which every coin misses.

  Another walk is the same until its first hit, and what is known of a node does
  not change once the node was offered.
  """
  draft = drafted.gather(tree, tokens, q, p)
  end = _walk(draft, proposal, jnp.ones(len(tokens), p.dtype))
  hit, first, accept = drafted.first_hit(draft, end.accept, eta)
  node = jnp.where(hit, first, end.node)
  g = _unpack(end.rows[node]).g
  fault = end.fault & ~hit
  decision = drafted.conclude(draft, node, g, accept, fault)
  return decision, _law(draft, end)


def _law(draft, end) -> jax.Array:
  offered = (end.accept != NOT_OFFERED) & ~end.fault
  return first_hit_law(
    draft.topology.postorder, jnp.where(offered, end.accept, 0)
  )
