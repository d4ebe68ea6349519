"""Laws over the vocabulary: from logits, and drawn from.

A law is an array of V probabilities in float32 (float64 stays float64),
whatever the dtype of the logits.
"""

import math

import jax
import jax.numpy as jnp
from jax.core import Tracer

from tv_jax.edge import checks
from tv_jax.edge.checks import is_number
from tv_jax.edge.reading import brief

# Below this logits over the temperature would overflow float32. What is so cold
# has all of its mass on one token long before.
COLDEST = 1e-30


def law(
  logits: jax.Array,
  *,
  temperature: float | jax.Array = 1.0,
  top_k: int = 0,
  top_p: float = 1.0,
) -> jax.Array:
  """Returns the law that these logits [..., V] are sampled with.

  Temperature, then top-k, then top-p, each as in Hugging Face's samplers.

  Args:
    logits: [..., V] of any float dtype.
    temperature: 0 puts everything on the likeliest token (the lowest id among
      equals). Any other must be COLDEST at least, a traced one too.
    top_k: Keep the k likeliest tokens and all that equal the k-th; 0: all.
    top_p: Keep the fewest likeliest tokens that reach this mass; 1: all.

  Returns:
    [..., V]; NaN wherever the logits held a NaN in that row.
  """
  checks.integer(0)(top_k, "top_k")
  checks.number(0, 1, but=0)(top_p, "top_p")
  wide = jnp.float64 if logits.dtype == jnp.float64 else jnp.float32
  logits = jnp.asarray(logits, wide)
  if not isinstance(temperature, Tracer):
    check_temperature("temperature", float(temperature))
    if temperature == 0:
      return _greedy(logits)
  logits = logits / jnp.asarray(temperature, logits.dtype)
  if 0 < top_k < logits.shape[-1]:
    least = jax.lax.top_k(logits, top_k)[0][..., -1:]
    logits = jnp.where(logits < least, -jnp.inf, logits)
  if top_p < 1:
    logits = jnp.where(_nucleus(logits, top_p), logits, -jnp.inf)
  return jax.nn.softmax(logits, axis=-1)


def is_temperature(value: float) -> bool:
  """Returns whether laws can have this temperature."""
  return value == 0 or COLDEST <= value < 1 / COLDEST


def draw(key: jax.Array, law: jax.Array, shape=()) -> jax.Array:
  """Draws `shape` independent tokens from a law [V], none of probability 0.

  On a CPU, where most of a race over the vocabulary is random numbers, two
  short races do it: one of blocks of about sqrt(V) tokens, one within the
  winner. With one race, plain decoding of the bundled target takes 1.4 times
  as long.
  """

  def one_race(key, law):
    return jax.random.categorical(
      key, jnp.log(law), shape=shape, mode="high"
    ).astype(jnp.int32)

  def two_races(key, law):
    width = 1 << round(math.log2(len(law)) / 2)
    rows = jnp.pad(law, (0, -len(law) % width)).reshape(-1, width)
    noise = jax.random.gumbel(
      key, (*shape, len(rows) + width), law.dtype, mode="high"
    )
    among, within = jnp.split(noise, [len(rows)], axis=-1)
    masses = jnp.broadcast_to(jnp.log(rows.sum(axis=1)), among.shape)
    block = jnp.argmax(masses + among, axis=-1)
    place = jnp.argmax(jnp.log(rows[block]) + within, axis=-1)
    return (block * width + place).astype(jnp.int32)

  return jax.lax.platform_dependent(key, law, cpu=two_races, default=one_race)


def _greedy(logits):
  best = jnp.argmax(logits, axis=-1)
  law = jax.nn.one_hot(best, logits.shape[-1], dtype=logits.dtype)
  undefined = jnp.isnan(logits).any(axis=-1, keepdims=True)
  return jnp.where(undefined, jnp.nan, law)


def _nucleus(logits, top_p):
  """Returns the tokens to keep: those with less than `top_p` above them.

  Counted from below, as Hugging Face does: a token goes when it and all below
  it hold no more than 1 - top_p, and the likeliest always stays.
  """
  order = jnp.argsort(logits, axis=-1)  # ascending and stable
  mass = jax.nn.softmax(jnp.take_along_axis(logits, order, axis=-1), axis=-1)
  kept = jnp.cumsum(mass, axis=-1) > 1 - top_p
  kept = kept.at[..., -1].set(True)
  place = jnp.argsort(order, axis=-1)
  return jnp.take_along_axis(kept, place, axis=-1)


def check_temperature(name: str, value) -> float:
  """Refuses what is no temperature: colder, logits would overflow."""
  if not is_number(value) or not is_temperature(value):
    raise ValueError(
      f"{name}={brief(value)}: give 0 for greedy decoding, or a number from"
      f" {COLDEST:g} to {1 / COLDEST:g}"
    )
  return float(value)
