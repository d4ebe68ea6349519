"""A proposal, sound, and the mistakes that could be made in one.

Each must be caught by the certificate of proposals; `PLANTED` says by what.
"""

import dataclasses

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


def draw_no_small_ones(key, q, k):
  """INVALID where something is left."""
  drawn = WITHOUT_REPLACEMENT.draw(key, q, k)
  return jnp.where(q[drawn] < 0.1, INVALID, drawn)


def draw_beyond_the_support(key, q, k):
  drawn = WITHOUT_REPLACEMENT.draw(key, q, k)
  return jnp.where(drawn == INVALID, 0, drawn)


def draw_with_one_key(key, q, k):
  one = WITH_REPLACEMENT.draw(key, q, 1)
  return jnp.concatenate([one] * k)


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
  """The remaining mass as 1 minus the drawn mass, which float32 loses."""
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


def following_flattened(q, drawn, k):
  """No multiple of q: q^0.5 after the first sibling."""
  del k
  left = q.copy() if not drawn else q**0.5
  left[[token for token in drawn if token != INVALID]] = 0
  return left / left.sum() if left.sum() > 0 else left


def draw_one_too_many(key, q, k):
  return WITH_REPLACEMENT.draw(key, q, k + 1)


def following_too_short(q, drawn, k):
  return q[:1]


# For each fault: the changed fields, and a text in the certificate.
_WITH, _OUT = WITH_REPLACEMENT, WITHOUT_REPLACEMENT
_CHANGES = {
  "the right set by id": (_OUT, draw_in_order_of_id, "draw(key, q, 2)"),
  "INVALID too early": (_OUT, draw_no_small_ones, "INVALID), which following"),
  "INVALID too late": (_OUT, draw_beyond_the_support, "following rules out"),
  "one key reused": (_WITH, draw_with_one_key, "by following"),
  "a law nearly right": (_OUT, draw_flattened, "by following"),
  "tokens out of range": (_WITH, draw_ids, "following rules out"),
  "one too many": (_WITH, draw_one_too_many, "not int32[1]"),
  "scale off by one": (_OUT, laws_one_late, "by laws"),
  "laws that look at K": (TOP_K, laws_of_all_there_are, "padded by 2 absent"),
  "laws that are NaN": (_WITH, laws_that_are_nan, "NaN or an infinity"),
  "no multiple of q": (_OUT, following_flattened, "by laws"),
  "following of a wrong shape": (
    _WITH,
    following_too_short,
    "has shape [1]",
  ),
}


def _field(function):
  """The field that a function is for: it is named after it."""
  return function.__name__.strip("_").partition("_")[0]


PLANTED = {
  name: (change(base, **{_field(function): function}), sign)
  for name, (base, function, sign) in _CHANGES.items()
} | {
  "rest_from": (change(_OUT, rest_from=2), "rest_from=2, but"),
  "nested": (change(SAMPLE_THEN_TOP, nested=True), "nested=True, but"),
  "distinct": (change(_WITH, distinct=True), "distinct=True, but"),
  "ranks": (change(_OUT, ranks=True), "ranks=True, but"),
}

# By name, for the command line.
sorted_by_id = PLANTED["the right set by id"][0]
sound = change(WITHOUT_REPLACEMENT)
