"""Numbers of keys: jax's own, to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tv_jax import probs, threefry

KEYS = [jax.random.key(seed) for seed in (0, 7, 2**31 - 1)]


def same(ours, theirs):
  if jax.dtypes.issubdtype(ours.dtype, jax.dtypes.prng_key):
    ours, theirs = map(jax.random.key_data, (ours, theirs))
  assert ours.dtype == theirs.dtype
  np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("key", KEYS)
class TestBits:
  @pytest.mark.parametrize("number", [0, 1, 12345, 2**31 - 1])
  def test_of_folding_in(self, key, number):
    theirs = jax.random.fold_in(key, number)
    same(threefry.fold_in(key, number), theirs)
    same(threefry.fold_in(key, np.uint32(number)), theirs)
    same(jax.jit(threefry.fold_in)(key, jnp.int32(number)), theirs)

  def test_of_splitting(self, key):
    same(threefry.split(key), jax.random.split(key))

  @pytest.mark.parametrize("count", [1, 2, 7, 4096])
  def test_of_numbers(self, key, count):
    theirs = jax.random.uniform(key, (count,), jnp.float32)
    same(threefry.uniform(key, count, jnp.float32), theirs)
    compiled = jax.jit(threefry.uniform, static_argnums=(1, 2))
    same(compiled(key, count, jnp.float32), theirs)

  def test_of_many_digits(self, key):
    with jax.enable_x64(True):
      theirs = jax.random.uniform(key, (9,), jnp.float64)
      same(threefry.uniform(key, 9, jnp.float64), theirs)
      same(threefry.fold_in(key, 5), jax.random.fold_in(key, 5))


def test_of_many_keys_at_once():
  keys = jax.random.split(jax.random.key(3), (4, 5))
  numbers = jnp.arange(5, dtype=jnp.int32)
  fold = jax.vmap(jax.vmap(threefry.fold_in), (0, None))
  theirs = jax.vmap(jax.vmap(jax.random.fold_in), (0, None))
  same(fold(keys, numbers), theirs(keys, numbers))
  draw = jax.vmap(lambda key: threefry.uniform(key, 6, jnp.float32))
  theirs = jax.vmap(lambda key: jax.random.uniform(key, (6,)))
  same(draw(keys[0]), theirs(keys[0]))
  same(jax.vmap(threefry.split)(keys[0]), jax.vmap(jax.random.split)(keys[0]))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_noise_is_that_of_jax(dtype):
  """Of the same bits, though in one row."""
  with jax.enable_x64(dtype == jnp.float64):
    for seed, count in enumerate((1, 7, 128, 4096)):
      key = jax.random.key(seed)
      np.testing.assert_allclose(
        threefry.gumbel(key, count, dtype),
        jax.random.gumbel(key, (count,), dtype, mode="high"),
        rtol=0,
        atol=16 * jnp.finfo(dtype).eps,
      )


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_some_of_the_noise(impl):
  key = jax.random.key(3, impl=impl)
  places = jnp.array([[4, 0], [6, 9]], np.uint32)  # 9: past the last
  some = threefry.gumbel(key, 7, jnp.float32, places)
  every = threefry.gumbel(key, 7, jnp.float32)
  same(some.ravel()[:3], every[np.array([4, 0, 6])])
  assert np.isfinite(some).all()


def test_no_loop_is_left():
  """Whose steps a CPU would be told one by one."""

  def draws(key):
    coins, _ = threefry.split(threefry.fold_in(key, 3))
    return threefry.uniform(coins, 300, jnp.float32)

  def theirs(key):
    coins, _ = jax.random.split(jax.random.fold_in(key, 3))
    return jax.random.uniform(coins, (300,))

  cpu = jax.devices("cpu")[0]
  with jax.default_device(cpu):
    ours, jaxs = (
      jax.jit(f).lower(KEYS[0]).compile().as_text() for f in (draws, theirs)
    )
  assert " while(" not in ours
  assert " while(" in jaxs


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_of_half_precision(dtype):
  key = KEYS[1]
  same(threefry.uniform(key, 9, dtype), jax.random.uniform(key, (9,), dtype))
  law = jnp.array([0.5, 0.25, 0.25, 0], dtype)
  assert int(probs.draw(key, law)) < 3


def test_of_untyped_keys():
  key = jax.random.PRNGKey(3)
  same(threefry.fold_in(key, 2), jax.random.fold_in(key, 2))
  same(threefry.split(key), jax.random.split(key))


def test_of_numbers_that_are_none():
  same(
    threefry.fold_in(KEYS[0], 2**32 - 1),
    jax.random.fold_in(KEYS[0], -1 % 2**32),
  )
  for number in (-1, 2**32):
    with pytest.raises(OverflowError):
      threefry.fold_in(KEYS[0], number)


@pytest.mark.parametrize("kind", ["rbg", "unsafe_rbg"])
def test_other_generators_are_jaxs(kind):
  key = jax.random.key(5, impl=kind)
  same(threefry.fold_in(key, 2), jax.random.fold_in(key, 2))
  same(threefry.split(key), jax.random.split(key))
  same(threefry.uniform(key, 7, jnp.float32), jax.random.uniform(key, (7,)))


def test_so_is_the_older_way_to_count():
  with jax.threefry_partitionable(False):
    key = jax.random.key(5)
    same(threefry.fold_in(key, 2), jax.random.fold_in(key, 2))
    same(threefry.split(key), jax.random.split(key))
    same(threefry.uniform(key, 7, jnp.float32), jax.random.uniform(key, (7,)))
