"""What lengths rules expect of recorded cycles.

Axes: C cycles, M nodes that have children, V vocabulary.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import drafting, verifiers
from tv_jax.engine import contract
from tv_jax.replay.cycles import Cycles
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

  That is by the rule's stop law, or else the mean of runs.

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
  key, lengths = jax.random.key(seed), []
  for start in range(0, len(cycles), size):
    # The last chunk is filled up, so that one program serves all.
    rows = np.minimum(np.arange(start, start + size), len(cycles) - 1)
    chunk = (x[rows] for x in (cycles.tokens, cycles.q, cycles.p))
    key, coin_key = jax.random.split(key)
    chunk_lengths = _lengths(
      rule, cycles.tree, cycles.proposal, coins, coin_key, *chunk
    )
    count = min(size, len(cycles) - start)
    lengths.append(np.asarray(chunk_lengths)[:count])
    tick(count)
  return np.concatenate(lengths)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _lengths(rule, tree, proposal, coins, key, tokens, q, p):
  """[chunk] of each cycle."""
  gained = jnp.asarray(tree.depth + 1, q.dtype)

  def length(cycle):
    key, tokens, q, p = cycle
    # Leaves get any law: nobody is to read it.
    q, p = (drafting.spread(tree, laws) for laws in (q, p))
    if rule.offers:
      return rule.stop_law(tree, proposal, tokens, q, p) @ gained

    def toss(key):
      eta = jax.random.uniform(key, (len(tree),), q.dtype)
      decision = verifiers.decide(rule, tree, proposal, tokens, q, p, eta)
      return gained[decision.node]

    return jnp.mean(jax.lax.map(toss, jax.random.split(key, coins)))

  rows = jax.random.split(key, len(tokens)), tokens, q, p
  if jax.default_backend() == "cpu":  # where rows need not wait for each other
    return jax.lax.map(length, rows)
  return jax.vmap(length)(rows)
