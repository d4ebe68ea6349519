"""Expected lengths of recorded cycles.

Axes: C cycles, N nodes, M nodes that have children, V vocabulary or what it was
merged to.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import drafting, verifiers
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
  """What a rule expects to gain in each cycle, [C] float32.

  That is by its stop law, or else the mean over runs.

  Args:
    verifier: A name, a `Verifier`, or a `decide` function.
    cycles: The cycles.
    coins: How often a rule without a stop law is run on each cycle.
    seed: Of these coins.
    tick: Called with a number of cycles when these are done.

  Raises:
    ValueError: The rule is not defined for the tree or the proposal.
  """
  rule = verifiers.resolve(verifier)
  if reason := verifiers.misfit(rule, cycles.tree, cycles.proposal):
    raise ValueError(reason)
  rule = verifiers.form(rule, cycles.tree)
  _, M, V = cycles.q.shape
  size = min(CHUNK, max(1, BYTES // (8 * M * V)), len(cycles))
  key, lengths = jax.random.key(seed), []
  for start in range(0, len(cycles), size):
    stop = min(start + size, len(cycles))
    # The last chunk is filled up, and all files of a shape share a program.
    rows = np.minimum(np.arange(start, start + size), stop - 1)
    own = _lengths(
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
    lengths.append(np.asarray(own)[: stop - start])
    tick(stop - start)
  return np.concatenate(lengths)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _lengths(rule, shape, proposal, coins, key, parents, tokens, q, p):
  """[chunk] the expected lengths."""
  gained = jnp.asarray(shape.depth + 1, q.dtype)

  def one(cycle):
    key, parents, tokens, q, p = cycle
    # Leaves get any law: nobody is to read it.
    q, p = (drafting.spread(shape, laws) for laws in (q, p))
    tree = shape if parents is None else drafting.topology(shape, parents)
    if rule.stop_law is not None:
      return rule.stop_law(tree, proposal, tokens, q, p) @ gained

    def toss(key):
      eta = jax.random.uniform(key, (rule.num_coins(shape),), q.dtype)
      return gained[rule.decide(tree, proposal, tokens, q, p, eta).node]

    return jnp.mean(jax.lax.map(toss, jax.random.split(key, coins)))

  rows = jax.random.split(key, len(tokens)), parents, tokens, q, p
  if jax.default_backend() == "cpu":  # where rows need not wait for each other
    return jax.lax.map(one, rows)
  return jax.vmap(one)(rows)
