"""Where rules stop in recorded cycles, and what lengths they expect.

Axes: C cycles, N nodes, M nodes that have children, V vocabulary or what it was
merged to.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import drafting, verifiers
from tv_jax.engine import contract
from tv_jax.replay.data import Cycles
from tv_jax.verifiers import Decide, Verifier

# Cycles of one call, at most, and about how many bytes of laws.
CHUNK, BYTES = 256, 1 << 28


def expected_lengths(
  verifier: Verifier | Decide | str,
  cycles: Cycles,
  *,
  coins: int = 64,
  seed: int = 0,
  tick: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
  """Returns what a rule expects to gain in each cycle, [C] float32.

  Arguments and errors are those of `stop_laws`.
  """
  laws = stop_laws(verifier, cycles, coins=coins, seed=seed, tick=tick)
  return laws @ (cycles.tree.depth + 1).astype(np.float32)


def stop_laws(
  verifier: Verifier | Decide | str,
  cycles: Cycles,
  *,
  coins: int = 64,
  seed: int = 0,
  tick: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
  """Returns the chance of each node to be the accepted one, [C, N] float32.

  That is by the rule's stop law, or else the share of runs.

  Args:
    verifier: A name, a `Verifier`, or a `decide` function.
    cycles: The cycles.
    coins: How often a rule without a stop law is run on each cycle.
    seed: Of these coins.
    tick: Called with a number of cycles when these are done.

  Raises:
    ValueError: The rule is not defined for the tree or the proposal, or gives
      what no rule should.
  """
  rule = verifiers.resolve(verifier)
  if reason := verifiers.misfit(rule, cycles.tree, cycles.proposal):
    raise ValueError(reason)
  _, M, V = cycles.q.shape
  contract.check(rule, cycles.proposal, cycles.tree, V, cycles.q.dtype)
  size = min(CHUNK, max(1, BYTES // (8 * M * V)), len(cycles))
  key, laws = jax.random.key(seed), []
  for start in range(0, len(cycles), size):
    stop = min(start + size, len(cycles))
    # The last chunk is filled up, and all files of a shape share a program.
    rows = np.minimum(np.arange(start, start + size), stop - 1)
    own = _stops(
      rule,
      cycles.tree,
      cycles.proposal,
      coins,
      jax.random.fold_in(key, start),
      cycles.parents if cycles.parents is None else cycles.parents[rows],
      cycles.tokens[rows],
      cycles.q[rows],
      cycles.p[rows],
    )
    laws.append(np.asarray(own)[: stop - start])
    tick(stop - start)
  return np.concatenate(laws)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _stops(rule, shape, proposal, coins, key, parents, tokens, q, p):
  """[chunk, N] where the rule stops."""

  def one(cycle):
    key, parents, tokens, q, p = cycle
    # Leaves get any law: nobody is to read it.
    q, p = (drafting.spread(shape, laws) for laws in (q, p))
    tree = shape if parents is None else drafting.topology(shape, parents)
    if rule.offers:
      return rule.stop_law(tree, proposal, tokens, q, p)

    def toss(key):
      eta = jax.random.uniform(key, (len(shape),), q.dtype)
      decision = rule.decide(tree, proposal, tokens, q, p, eta)
      node = verifiers.checked(decision, tokens, p).node
      return jax.nn.one_hot(node, len(shape), dtype=q.dtype)

    return jnp.mean(jax.lax.map(toss, jax.random.split(key, coins)), axis=0)

  rows = jax.random.split(key, len(tokens)), parents, tokens, q, p
  if jax.default_backend() == "cpu":  # where rows need not wait for each other
    return jax.lax.map(one, rows)
  return jax.vmap(one)(rows)
