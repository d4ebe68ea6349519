"""JAX's functions of random numbers have the laws that they should have."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from tv_jax import certify

held = random.uniform  # under another name
LAW = jnp.array([0.5, 0.25, 0.25])

explore = functools.partial(certify.explore, arrays="jax")


def in_shards(key):
  mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
  spec = jax.sharding.PartitionSpec()
  return jax.shard_map(held, mesh=mesh, in_specs=spec, out_specs=spec)(key) < 1


KEY = random.key(0)
KEPT = []


def keeps(key):
  KEPT.append(held(key))
  return KEPT[0] < 0.5


@pytest.mark.parametrize(
  ("function", "told"),
  [
    (lambda: held(random.key(0)) < 0.5, "the rng that is given, so that its"),
    (lambda: held(KEY) < 0.5, "is given a key as its rng by --arrays=jax"),
    (lambda key: held(random.split(KEY)[0]) < 0.5, "make all keys of it"),
    (lambda key: held(random.key(random.choice(key, 3, p=LAW))), "a key that"),
    (lambda key: random.key_data(key)[0] % 2, "two runs that drew the same"),
    (keeps, "unexpected tracer"),
    (lambda key: held(key), r"takes tolist\(\) of a random array"),
    (lambda key: float(held(key)), r"takes float\(\) of a random array"),
    (lambda key: np.asarray(held(key)), r"takes array\(\) of a random array"),
    (lambda key: LAW[held(key).astype(int)], "rounds random numbers to int32"),
    (lambda key: held(key).astype(jnp.bfloat16) < 1, "numbers to bfloat16"),
    (lambda key: held(key, dtype=jnp.float16), "16 random bits"),
    (lambda key: held(key, 2).sum() < 1, "adds random numbers"),
    (lambda key: jnp.argmax(held(key, 2)), "compares two random numbers"),
    (lambda key: random.normal(key) < 0, "JAX's erf_inv, which cannot be"),
    (jax.jit(lambda key: random.normal(key) < 0), "test_jax.py, line"),
    (
      lambda key: jax.lax.bitcast_convert_type(held(key), jnp.int32) % 7,
      "reads the bits of random numbers",
    ),
    (lambda key: random.bits(key) & 1, "random bits to JAX's and, as"),
    (lambda key: random.gamma(key, 1.0), "draws by random_gamma"),
    (lambda key: jax.debug.print("{}", held(key)), "JAX's debug_print"),
    (
      lambda key: (random.categorical(key, LAW), held(key) < 0.5),
      "a uniform whose logarithm was in a race",
    ),
    (lambda key: random.randint(key, (), 0, 4), "as randint, permutation and"),
    (lambda key: random.permutation(key, 3), "JAX's sort"),
    (lambda key: random.choice(key, 3), "bits"),
    (in_shards, "in a shard_map"),
    (jax.jit(in_shards), "in a shard_map|JAX's shard_map"),
  ],
)
def test_what_is_not_followed_is_named(function, told):
  with pytest.raises(certify.ExploreError, match=told) as error:
    explore(function)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize(
  "looks",
  [
    jnp.exp,
    np.asarray,
    repr,
    jax.device_get,
    lambda u: u.sharding,
    lambda u: u.is_deleted(),
    lambda u: jnp.arange(0, 1, u[0]),
    lambda u: jax.jit(jnp.sqrt)(u),
  ],
)
def test_no_error_of_a_stand_in_is_swallowed(looks):
  """JAX's own arrays raise nothing here; tracers do."""

  def program(key):
    try:
      looks(held(key, (2,)))
    except Exception:
      return 1
    return 0

  assert program(random.key(0)) == 0
  with pytest.raises(certify.ExploreError, match=r"test_jax\.py, line"):
    explore(program)


def test_a_generator_in_place_of_a_key_is_named():
  for program in (
    lambda rng: held(random.key(rng.integers(2**31))) < 0.5,
    lambda rng: held(rng) < 0.5,
  ):
    with pytest.raises(certify.ExploreError, match="--arrays=jax"):
      certify.explore(program)


def residual(p, q):
  return jnp.log(jnp.maximum(p - q, 0))


def cycle(p, q, context, rng, fault=""):
  """Speculative sampling, with Python's branches."""
  draft, coins, *last = random.split(rng, 4)
  drafted = int(random.categorical(draft, jnp.log(q(context))))
  p_0, q_0 = p(context), q(context)
  ratio = p_0[drafted] / q_0[drafted]
  coin = held(coins)
  if fault == "coin twice" and coin < 0.5:
    coin = 2 * coin
  if coin <= ratio if fault == "closed coin" else coin < ratio:
    law = (q if fault == "bonus" else p)((*context, drafted))
    return [drafted, random.categorical(last[0], jnp.log(law))]
  law = jnp.log(p_0) if fault == "no residual" else residual(p_0, q_0)
  return [random.categorical(last[1], law)]


@jax.jit
def verified(tokens, q, p, key):
  coins, last = random.split(key)
  drafted = tokens[1:, None]
  mine, theirs = (jnp.take_along_axis(x[:-1], drafted, 1) for x in (q, p))
  taken = held(coins, mine.shape) < theirs / mine
  count = jnp.cumprod(taken).sum()
  logits = jnp.concatenate([residual(p[:-1], q[:-1]), jnp.log(p[-1:])])
  return count, random.categorical(last, logits[count])


def chain(tree, tokens, q, p, rng, fault=""):
  tokens = jnp.array([0, *tokens[1:]])
  if fault == "temperature":
    p = jax.nn.softmax(jnp.log(p) / 1.25)
  count, token = verified(tokens, q, p, rng)
  if fault == "key twice" and not count:
    token = random.choice(random.split(rng)[0], p.shape[1], p=p[0])
  return range(1, int(count) + 1), token


@pytest.mark.parametrize(
  ("fault", "verdict"),
  [
    ("", "LOSSLESS"),
    ("bonus", "NOT LOSSLESS"),
    ("no residual", "NOT LOSSLESS"),
    ("coin twice", "NOT LOSSLESS"),
  ],
)
def test_a_cycle(fault, verdict):
  program = functools.partial(cycle, fault=fault)
  settings = {"arrays": "jax", "vocabulary": 3, "cases": 8}
  certificate = certify.check_program(program, **settings)
  assert certificate.verdict == verdict, repr(certificate)
  assert certificate.distance < 1e-6 or fault


@pytest.mark.parametrize("fault", ["", "temperature", "key twice"])
def test_a_jitted_chain(fault):
  program = functools.partial(chain, fault=fault)
  settings = {"arrays": "jax", "tree": "chain:2", "cases": 8}
  assert certify.check_program(program, **settings).lossless == (not fault)
