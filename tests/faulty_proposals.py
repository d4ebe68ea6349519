"""A proposal, sound, and the mistakes that could be made in one.

Each must be caught by the certificate of proposals; `SIGNS` says by what.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import (
  INVALID,
  SAMPLE_THEN_TOP,
  TOP_K,
  WITH_REPLACEMENT,
  WITHOUT_REPLACEMENT,
)


def change(proposal, **fields):
  return dataclasses.replace(proposal, **fields, name="planted")


def draw_in_order_of_id(key, q, k):
  """The right set, in another order."""
  return jnp.sort(WITHOUT_REPLACEMENT.draw(key, q, k))[::-1]


def draw_the_last_first(key, q, k):
  drawn = WITHOUT_REPLACEMENT.draw(key, q, k)
  valid = drawn != INVALID
  order = jnp.argsort(jnp.where(valid, -jnp.arange(k), k))
  return drawn[order]


def draw_no_small_ones(key, q, k):
  """INVALID where something is left."""
  drawn = WITHOUT_REPLACEMENT.draw(key, q, k)
  return jnp.where(q[drawn] < 0.1, INVALID, drawn)


def draw_beyond_the_support(key, q, k):
  drawn = WITHOUT_REPLACEMENT.draw(key, q, k)
  return jnp.where(drawn == INVALID, 0, drawn)


def draw_uniformly(key, q, k):
  support = jnp.where(q > 0, 1, 0).astype(q.dtype)
  return WITHOUT_REPLACEMENT.draw(key, support / support.sum(), k)


def draw_with_one_key(key, q, k):
  one = WITH_REPLACEMENT.draw(key, q, 1)
  return jnp.concatenate([one] * k)


def draw_without_the_key(key, q, k):
  del key
  return WITHOUT_REPLACEMENT.draw(jax.random.key(0), q, k)


def draw_flattened(key, q, k):
  """Nearly the right law."""
  flat = q**0.7
  return WITHOUT_REPLACEMENT.draw(key, flat / flat.sum(), k)


def draw_ids(key, q, k):
  return WITH_REPLACEMENT.draw(key, q, k) + q.shape[0]


def laws_one_late(q_at, rest, exists):
  """Scales as if one sibling fewer had been taken out."""
  scale, at = WITHOUT_REPLACEMENT.laws(q_at, rest, exists)
  late = jnp.concatenate([scale[:1], scale[:-1]])
  ratio = jnp.where(scale > 0, late / jnp.where(scale > 0, scale, 1), 1)
  return late, at * ratio[:, None]


def laws_by_subtraction(q_at, rest, exists):
  """1 minus what was drawn, which float32 loses."""
  del rest
  q_at = jnp.where(exists, q_at, 0)
  left = 1 - jnp.concatenate([jnp.zeros_like(q_at[:1]), jnp.cumsum(q_at)[:-1]])
  scale = jnp.where(left > 1e-7, 1 / jnp.where(left > 1e-7, left, 1), 0)
  later = np.arange(len(q_at))[:, None] <= np.arange(len(q_at))
  return scale, jnp.where(later, scale[:, None] * q_at[None, :], 0)


def laws_of_all_there_are(q_at, rest, exists):
  """Looks at K, not at what exists."""
  scale, at = TOP_K.laws(q_at, rest, exists)
  return (scale, at) if len(q_at) < 3 else (scale + 1, at)


def laws_that_are_nan(q_at, rest, exists):
  scale, at = WITH_REPLACEMENT.laws(q_at, rest, exists)
  return scale / jnp.where(exists, 1, 0), at


def laws_in_half(q_at, rest, exists):
  scale, at = WITH_REPLACEMENT.laws(q_at, rest, exists)
  return scale.astype(jnp.float16), at


def following_flattened(q, drawn, k):
  """No multiple of q: q^0.5 after the first sibling."""
  del k
  left = q.copy() if not drawn else q**0.5
  left[[token for token in drawn if token != INVALID]] = 0
  return left / left.sum() if left.sum() > 0 else left


def following_in_place(q, drawn, k):
  del k
  q[list(drawn)] = 0
  return q


def following_half(q, drawn, k):
  del drawn, k
  return q / 2


# Of each: the proposal, and a text that the certificate says.
PLANTED = {
  "draws with, declares without": (
    change(WITHOUT_REPLACEMENT, draw=WITH_REPLACEMENT.draw),
    "rules out",
  ),
  "draws without, declares with": (
    change(WITH_REPLACEMENT, draw=WITHOUT_REPLACEMENT.draw),
    "draw(key, q, 2)",
  ),
  "the right set by id": (
    change(WITHOUT_REPLACEMENT, draw=draw_in_order_of_id),
    "draw(key, q, 2)",
  ),
  "the right set backwards": (
    change(WITHOUT_REPLACEMENT, draw=draw_the_last_first),
    "draw(key, q, 2)",
  ),
  "INVALID too early": (
    change(WITHOUT_REPLACEMENT, draw=draw_no_small_ones),
    "INVALID), which following rules out",
  ),
  "INVALID too late": (
    change(WITHOUT_REPLACEMENT, draw=draw_beyond_the_support),
    "which following rules out",
  ),
  "ignores q": (
    change(WITHOUT_REPLACEMENT, draw=draw_uniformly),
    "by following",
  ),
  "one key reused": (
    change(WITH_REPLACEMENT, draw=draw_with_one_key),
    "by following",
  ),
  "ignores the key": (
    change(WITHOUT_REPLACEMENT, draw=draw_without_the_key),
    "by following",
  ),
  "a law nearly right": (
    change(WITHOUT_REPLACEMENT, draw=draw_flattened),
    "by following",
  ),
  "tokens out of range": (
    change(WITH_REPLACEMENT, draw=draw_ids),
    "no token, nor INVALID",
  ),
  "draws as floats": (
    change(
      WITH_REPLACEMENT,
      draw=lambda key, q, k: WITH_REPLACEMENT.draw(key, q, k).astype(q.dtype),
    ),
    "not int32[1]",
  ),
  "one too many": (
    change(
      WITH_REPLACEMENT,
      draw=lambda key, q, k: WITH_REPLACEMENT.draw(key, q, k + 1),
    ),
    "not int32[1]",
  ),
  "laws of another": (
    change(WITHOUT_REPLACEMENT, laws=WITH_REPLACEMENT.laws),
    "by laws",
  ),
  "scale off by one": (
    change(WITHOUT_REPLACEMENT, laws=laws_one_late),
    "by laws",
  ),
  "laws that look at K": (
    change(TOP_K, laws=laws_of_all_there_are),
    "padded by 2 absent siblings",
  ),
  "laws that are NaN": (
    change(WITH_REPLACEMENT, laws=laws_that_are_nan),
    "NaN or an infinity",
  ),
  "laws of another dtype": (
    change(WITH_REPLACEMENT, laws=laws_in_half),
    "laws gives float16[1]",
  ),
  "laws of one array": (
    change(WITH_REPLACEMENT, laws=lambda q_at, rest, exists: q_at),
    "laws gives",
  ),
  "following of another": (
    change(
      WITHOUT_REPLACEMENT,
      following=WITH_REPLACEMENT.following,
      distinct=False,
    ),
    "by laws",
  ),
  "no multiple of q": (
    change(WITHOUT_REPLACEMENT, following=following_flattened),
    "is no multiple of q",
  ),
  "following that writes into q": (
    change(WITHOUT_REPLACEMENT, following=following_in_place),
    "read-only",
  ),
  "following of half a law": (
    change(WITH_REPLACEMENT, following=following_half),
    "no law, and not all zeros",
  ),
  "following of a wrong shape": (
    change(WITH_REPLACEMENT, following=lambda q, drawn, k: q[:1]),
    "has shape [1]",
  ),
  "following that raises": (
    change(WITH_REPLACEMENT, following=lambda q, drawn, k: drawn[k]),
    "IndexError: tuple index out of range (faulty_proposals.py, line",
  ),
  "rest_from": (
    change(WITHOUT_REPLACEMENT, rest_from=2),
    "rest_from=2, but",
  ),
  "nested": (change(SAMPLE_THEN_TOP, nested=True), "nested=True, but"),
  "distinct": (change(WITH_REPLACEMENT, distinct=True), "distinct=True, but"),
  "ranks": (change(WITHOUT_REPLACEMENT, ranks=True), "ranks=True, but"),
}

# By name, for the command line.
sorted_by_id = PLANTED["the right set by id"][0]
sound = change(WITHOUT_REPLACEMENT)
flattened = PLANTED["no multiple of q"][0]
