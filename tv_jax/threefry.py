"""What is drawn with a key: the numbers of `jax.random`, sooner on a CPU.

There jax runs Threefry's rounds in a loop, whose steps XLA calls one by one:
the numbers of a draw take two to five times as long as here, and longer to
compile. Written out, they are a part of whatever uses the numbers.

Keys of another generator, untyped ones, those of jax's older way to count, and
numbers of half precision are left to jax.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

# Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def fold_in(key: jax.Array, number) -> jax.Array:
  """The key of a key and a number."""
  if not _known(key):
    return jax.random.fold_in(key, number)
  number = jnp.asarray(number, np.uint32)
  return _wrap(_threefry(key, jnp.zeros_like(number), number))


def split(key: jax.Array) -> jax.Array:
  """[2] keys of a key."""
  if not _known(key):
    return jax.random.split(key)
  return _wrap(_words(key, jax.lax.iota(np.uint32, 2)))


def uniform(key: jax.Array, count: int, dtype) -> jax.Array:
  """[count] numbers in [0, 1), as `jax.random.uniform` draws them."""
  if not _known(key) or jnp.dtype(dtype).itemsize < 4:
    return jax.random.uniform(key, (count,), dtype)
  return _uniform(key, jax.lax.iota(np.uint32, count), dtype)


def _uniform(key, places, dtype):
  """Those at `places` among as many as one likes."""
  high, low = _words(key, places)
  if jnp.dtype(dtype).itemsize == 8:
    bits = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
  else:
    bits = high ^ low
  info = jnp.finfo(dtype)
  # The first bits are the digits of a number in [1, 2).
  one = np.ones((), dtype).view(bits.dtype)
  bits = bits >> bits.dtype.type(info.bits - info.nmant) | one
  return jax.lax.bitcast_convert_type(bits, dtype) - np.ones((), dtype)


def gumbel(
  key: jax.Array, count: int, dtype, places: jax.Array | None = None
) -> jax.Array:
  """[count] numbers, as `jax.random.gumbel(.., mode="high")` draws them.

  Args:
    key: A key.
    count: How many there are.
    dtype: Of them.
    places: [..] uint32: which are wanted, by default all; from `count` on they
      are numbers of no account.

  Returns:
    [..] the numbers.
  """
  info = jnp.finfo(dtype)
  if places is not None and _known(key) and info.bits >= 32:
    high = _uniform(key, places, dtype)
    low = _uniform(key, places + np.uint32(count), dtype)
  else:
    high, low = jnp.split(uniform(key, 2 * count, dtype), 2)
    if places is not None:
      clipped = jnp.minimum(places, np.uint32(max(count, 1) - 1))
      high, low = high[clipped], low[clipped]
  fine = high + 2.0**-info.nmant * low + info.tiny
  return -jnp.log(-jnp.log1p(-jnp.where(high >= 0.5, high, fine)))


def _known(key) -> bool:
  """Whether this generator is the one that is written out here."""
  return (
    jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    and jax.random.key_impl(key) == "threefry2x32"
    and jax.config.jax_threefry_partitionable
  )


def _wrap(pair):
  return jax.random.wrap_key_data(jnp.stack(pair, axis=-1), impl="threefry2x32")


def _words(key, places):
  """The two words of the numbers at `places` [..] uint32."""
  return _threefry(key, jnp.zeros_like(places), places)


def _threefry(key, high, low):
  """Threefry-2x32, of twenty rounds."""
  first, second = jnp.moveaxis(jax.random.key_data(key), -1, 0)
  words = first, second, first ^ second ^ _PARITY
  high, low = high + words[0], low + words[1]
  for i in range(5):
    for turn in _TURNS[i % 2]:
      high = high + low
      low = low << np.uint32(turn) | low >> np.uint32(32 - turn)
      low = low ^ high
    high = high + words[(i + 1) % 3]
    low = low + words[(i + 2) % 3] + np.uint32(i + 1)
  return high, low
