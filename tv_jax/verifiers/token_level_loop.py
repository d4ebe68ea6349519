"""Token-level verification as it is usually written: one path from the root.

The paper's Algorithm 2 as a `lax.while_loop` over the array-encoded tree. The
tree may be a traced `Topology`, so that changing it does not recompile.
`token_level.py`, all families at once, takes the same decisions.

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


class _State(NamedTuple):
  """The walk stands at `node` and tries its child of rank `child`."""

  node: jax.Array  # []
  child: jax.Array  # []
  done: jax.Array  # [] whether no child was left
  fault: jax.Array  # [] whether a NaN was met
  g: residual.Residual  # of `node`
  rest: jax.Array  # [] q off the children's tokens, once it was needed


def _begin(draft, node) -> _State:
  one = jnp.ones((), draft.p.dtype)
  return _State(
    node=node,
    child=jnp.zeros((), jnp.int32),
    done=jnp.array(False),
    fault=jnp.array(False),
    g=residual.begin(draft.p_at[node], one),
    rest=jnp.zeros_like(one),
  )


def _look(draft, proposal, state):
  """The child, its family, the chance to enter it, and the state after."""
  children = draft.topology.children
  K = children.shape[1]
  target = jnp.where(
    state.child < K, children[state.node, state.child], NO_CHILD
  )
  rest = drafted.rest(draft, proposal, state.node, state.child, state.rest)
  own = drafted.family(draft, proposal, state.node, rest)
  chance = drafted.enter(state.g, own, state.child)
  absent = target == NO_CHILD
  state = state._replace(
    rest=rest,
    done=absent | state.fault,
    fault=state.fault | (~absent & jnp.isnan(chance)),
  )
  return target, own, chance, state


def _reject(draft, own, state, rejected) -> _State:
  """On to the next child; if this one was rejected, out of the residual."""
  K = draft.tokens.shape[1]
  later = np.arange(K, dtype=np.int32) > state.child
  more = jnp.any((own.tokens != INVALID) & later)
  g = jax.lax.cond(
    rejected & own.laws.exists[state.child],
    lambda: drafted.reject(
      draft,
      state.g,
      own,
      state.node,
      state.child,
      spared=~more,  # accepted, whatever its mass
    ),
    lambda: state.g,
  )
  return state._replace(
    child=state.child + 1, g=g, fault=state.fault | jnp.isnan(g.mass)
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
  draft = drafted.gather(tree, tokens, q, p)

  def step(carry):
    state, accept = carry
    target, own, chance, state = _look(draft, proposal, state)
    offered = ~state.done & own.laws.exists[state.child]
    hit = offered & (eta[target] < chance)
    accept = accept.at[target].set(jnp.where(offered, chance, accept[target]))
    entered = _begin(draft, target)._replace(fault=state.fault)
    missed = _reject(draft, own, state, rejected=offered & ~hit)
    state = jax.tree.map(
      lambda new, old: jnp.where(hit, new, old), entered, missed
    )
    return state, accept

  end, accept = jax.lax.while_loop(
    lambda carry: ~carry[0].done,
    step,
    (
      _begin(draft, jnp.zeros((), jnp.int32)),
      jnp.full(len(tokens), NOT_OFFERED, p.dtype),
    ),
  )
  return drafted.conclude(draft, end.node, end.g, accept, end.fault)


def stop_law(
  tree: Tree | Topology,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] by a walk over all nodes, parents first, in which every coin misses."""
  draft = drafted.gather(tree, tokens, q, p)

  def visit(node, carry):
    def step(carry):
      state, reach, stay = carry
      target, own, chance, state = _look(draft, proposal, state)
      chance = jnp.where(state.done, 0, chance)
      reach = reach.at[target].add(reach[node] * stay * chance)
      state = _reject(draft, own, state, rejected=~state.done)
      return state, reach, stay * (1 - chance)

    law, reach, fault = carry
    end, reach, stay = jax.lax.while_loop(
      lambda carry: ~carry[0].done,
      step,
      (_begin(draft, node), reach, jnp.ones((), p.dtype)),
    )
    return law.at[node].set(reach[node] * stay), reach, fault | end.fault

  start = jnp.zeros(len(tokens), p.dtype)
  only_root = start.at[ROOT].set(1)
  law, _, fault = jax.lax.fori_loop(
    0, len(tokens), visit, (start, only_root, jnp.array(False))
  )
  return jnp.where(fault, only_root, law)
