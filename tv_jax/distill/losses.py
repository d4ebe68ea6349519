"""What a draft is trained to do: a table of losses.

Each takes the tokens before (a `Prefix`), the two laws of the next one and the
text's own choice of it, and gives a value for each root, less of which is
better. Axes as in chances.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.distill.chances import Prefix, overlap


class Seen(NamedTuple):
  """What a loss sees of one level."""

  prefix: Prefix  # [..]
  log_p: jax.Array  # [.., U] the target's, of the tokens that the draft knows
  log_q: jax.Array  # [.., U]
  chosen: jax.Array  # [..] log q of the text's token; -inf: not known


def cross_entropy(seen: Seen, rule: str) -> jax.Array:
  """Returns -log q of the text's token, where the draft knows it."""
  del rule
  there = seen.chosen > -jnp.inf
  return -jnp.where(there, jnp.where(there, seen.chosen, 0), 0)


def kl(seen: Seen, rule: str) -> jax.Array:
  """Returns -sum p log q over what the draft knows."""
  del rule
  return -jnp.sum(jnp.exp(seen.log_p) * seen.log_q, axis=-1)


def total_variation(seen: Seen, rule: str) -> jax.Array:
  """Returns 1 - sum min(p, q): the chance that a single token is rejected."""
  del rule
  return 1 - overlap(seen.log_p, seen.log_q)


def weighted(seen: Seen, rule: str) -> jax.Array:
  """Returns the chance that this token is the first that is rejected.

  What comes before it is a constant: the draft learns less where a chain
  seldom gets.
  """
  prefix = jax.lax.stop_gradient(seen.prefix)
  own = prefix.next_chance(rule, seen.log_p, seen.log_q)
  return prefix.chance(rule) - own


def length(seen: Seen, rule: str) -> jax.Array:
  """Returns less the chance that this token is accepted: in all, the length."""
  return -seen.prefix.next_chance(rule, seen.log_p, seen.log_q)


LOSSES: dict[str, Callable[[Seen, str], jax.Array]] = {
  "cross_entropy": cross_entropy,
  "kl": kl,
  "total_variation": total_variation,
  "weighted": weighted,
  "length": length,
}
