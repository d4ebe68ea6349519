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
from tv_jax.verifiers import Verifier

# Cycles of one call, at most, and about how many bytes of laws.
CHUNK, BYTES = 256, 1 << 28


def expected_lengths(
  verifier: Verifier | str,
  cycles: Cycles,
  tick: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
  """Returns what a rule expects to gain in each cycle, [C] float32.

  Args:
    verifier: A name, or a `Verifier`.
    cycles: The cycles.
    tick: Called with a number of cycles when these are done.

  Raises:
    ValueError: The rule has no stop law, is not defined for the tree or the
      proposal, or gives what no rule should.
  """
  rule = verifiers.resolve(verifier)
  if not rule.offers:
    raise ValueError(
      f"verifier {rule.name!r} has no stop law, and so no expected lengths:"
      " give a Verifier(offers=..)"
    )
  if reason := verifiers.misfit(rule, cycles.tree, cycles.proposal):
    raise ValueError(reason)
  _, M, V = cycles.q.shape
  contract.check(rule, cycles.proposal, cycles.tree, V, cycles.q.dtype)
  size = min(CHUNK, max(1, BYTES // (8 * M * V)), len(cycles))
  lengths = []
  for start in range(0, len(cycles), size):
    # The last chunk is filled up, so that one program serves all.
    rows = np.minimum(np.arange(start, start + size), len(cycles) - 1)
    chunk = (x[rows] for x in (cycles.tokens, cycles.q, cycles.p))
    chunk_lengths = _lengths(rule, cycles.tree, cycles.proposal, *chunk)
    count = min(size, len(cycles) - start)
    lengths.append(np.asarray(chunk_lengths)[:count])
    tick(count)
  return np.concatenate(lengths)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _lengths(rule, tree, proposal, tokens, q, p):
  """[chunk] of each cycle."""
  gained = jnp.asarray(tree.depth + 1, q.dtype)

  def length(cycle):
    tokens, q, p = cycle
    # Leaves get any law: nobody is to read it.
    q, p = (drafting.spread(tree, laws) for laws in (q, p))
    return rule.stop_law(tree, proposal, tokens, q, p) @ gained

  rows = tokens, q, p
  if jax.default_backend() == "cpu":  # where rows need not wait for each other
    return jax.lax.map(length, rows)
  return jax.vmap(length)(rows)
