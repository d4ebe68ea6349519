"""Expected acceptance lengths and decisions of rules on recorded cycles.

Axes: C cycles, M nodes that have children, V vocabulary.
"""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import tree as tree_lib
from tv_jax import verifiers
from tv_jax.io.errors import UserError
from tv_jax.io.progress import Progress, silent
from tv_jax.replay.cycles import Cycles
from tv_jax.verifiers import Decide, Decision, Draft, Verifier, contract

# Maximum number of cycles, and of bytes of distributions, in one call.
CHUNK, BYTES = 256, 1 << 28


def expected_lengths(
  verifier: Verifier | Decide | str,
  cycles: Cycles,
  *,
  coins: int = 64,
  seed: int = 0,
  progress: Progress = silent,
) -> np.ndarray:
  """Returns a rule's expected length in each cycle, [C] float32.

  It is computed from the rule's stop distribution if the rule has one, else it
  is a mean over runs.

  Args:
    verifier: A name, a `Verifier`, or a `decide` function.
    cycles: The recorded cycles.
    coins: Number of runs on each cycle for a rule without a stop distribution.
    seed: Seed of these runs.
    progress: Called with the rule's name, the number of finished cycles, and
      their total.

  Raises:
    ValueError: The rule does not support the tree or the proposal, or returns
      something that is not a decision.
  """
  rule = verifiers.resolve(verifier)
  if reason := verifiers.unsupported_reason(rule, cycles.tree, cycles.proposal):
    raise UserError(reason)
  _, M, V = cycles.q.shape
  contract.check(rule, cycles.proposal, cycles.tree, V, cycles.q.dtype)
  size = min(CHUNK, max(1, BYTES // (8 * M * V)), len(cycles))
  key, lengths = jax.random.key(seed), []
  for start in range(0, len(cycles), size):
    # The last chunk is padded, so that one compiled program serves all.
    rows = np.minimum(np.arange(start, start + size), len(cycles) - 1)
    chunk = (x[rows] for x in (cycles.tokens, cycles.q, cycles.p))
    key, coin_key = jax.random.split(key)
    chunk_lengths = _lengths(
      rule, cycles.tree, cycles.proposal, coins, coin_key, *chunk
    )
    count = min(size, len(cycles) - start)
    lengths.append(np.asarray(chunk_lengths)[:count])
    progress(rule.name, start + count, len(cycles))
  return np.concatenate(lengths)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _lengths(rule, tree, proposal, coins, key, tokens, q, p):
  """Returns the expected length of each cycle of a chunk."""
  gained = jnp.asarray(tree.depth + 1, q.dtype)

  def length(cycle):
    key, tokens, q, p = cycle
    # Leaves get arbitrary distributions, on which no length depends.
    q, p = (tree_lib.to_all_nodes(tree, laws) for laws in (q, p))
    draft = Draft(tree, proposal, tokens, q, p)
    if rule.offers:
      return rule.stopping(draft) @ gained

    def run(key):
      own, _ = jax.random.split(key)  # as in decoding
      eta = verifiers.toss(own, len(tree), q.dtype)
      decision = verifiers.decide_checked(rule, draft, eta)
      return gained[decision.node]

    return jnp.mean(jax.lax.map(run, jax.random.split(key, coins)))

  rows = jax.random.split(key, len(tokens)), tokens, q, p
  if jax.default_backend() == "cpu":  # a vmap would lose early exits
    return jax.lax.map(length, rows)
  return jax.vmap(length)(rows)


def judge(
  rule: Verifier, cycles: Cycles
) -> Iterator[tuple[np.ndarray | None, Decision]]:
  """Yields a rule's stopping distribution [N] and decision in each cycle.

  The decision is made with the recorded coins. A rule without offers has no
  stopping distribution.
  """
  assert cycles.coins is not None
  for cycle in range(len(cycles)):
    draft, eta = cycles.draft(cycle), cycles.coins[cycle]
    yield jax.device_get(_judge(rule, draft, eta))


@functools.partial(jax.jit, static_argnums=0)
def _judge(rule, draft: Draft, eta):
  decision = verifiers.decide_checked(rule, draft, eta)
  return rule.stopping(draft) if rule.offers else None, decision
