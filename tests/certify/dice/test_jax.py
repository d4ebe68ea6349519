"""JAX's functions of random numbers have the laws that they should have."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random

from tv_jax import certify

held = random.uniform  # under another name
LAW = jnp.array([0.5, 0.25, 0.25])
QUARTER = {True: 0.25, False: 0.75}
TOKENS = {0: 0.5, 1: 0.25, 2: 0.25}
TWICE = {(True, True): 0.25, (False, False): 0.75}
APART = {(True, True): 1 / 16, (False, False): 9 / 16}
APART |= {(True, False): 3 / 16, (False, True): 3 / 16}
THREE = {0: 1 / 8, 1: 3 / 8, 2: 3 / 8, 3: 1 / 8}
PAIRS = {(0, 1): 1 / 4, (0, 2): 1 / 4, (1, 0): 1 / 6, (2, 0): 1 / 6}
PAIRS |= {(1, 2): 1 / 12, (2, 1): 1 / 12}

explore = functools.partial(certify.explore, arrays="jax")


@jax.jit
def jitted(key):
  return held(key) < 0.25


jitted(random.key(3))  # compiled before it is followed


def both(first, second):
  return held(first) < 0.25, held(second) < 0.25


def until_tails(key):
  def goes(state):
    return (state[1] < 2) & state[2]

  def toss(state):
    key, count, _ = state
    key, sub = random.split(key)
    heads = held(sub) < 0.5
    return key, count + heads.astype(int), heads

  return lax.while_loop(goes, toss, (key, 0, True))[1]


def scanned(key):
  def step(count, sub):
    uniform = held(sub)
    return count + (uniform < 0.5).astype(int), uniform

  return lax.scan(step, 0, random.split(key, 3))[0]


def scanned_uniforms(key):
  rows = lax.scan(lambda x, u: (x, u), 0, held(key, (3,)), reverse=True)[1]
  heads = rows < 0.5
  return lax.fori_loop(0, 3, lambda i, n: n + heads[i].astype(int), 0)


def loops_apart(key):
  def one(uniform):
    return lax.while_loop(
      lambda x: (x < 1) & (uniform < 0.25), lambda x: x + 1, 0
    )

  return jax.vmap(one)(held(key, (2,))) == 1


def by_loop(key):
  uniform = held(key)
  for token, total in enumerate(jnp.cumsum(LAW)):
    if uniform < total:
      return token
  raise AssertionError


def moved(key):
  x = jnp.zeros(3).at[1].set(held(key))
  x = jnp.pad(jnp.roll(x[::-1], 1), 1)
  x = jnp.where(jnp.arange(5) == 3, x, 1.0)
  x = jnp.concatenate([jnp.stack([x, x])[:, None], jnp.ones((2, 1, 5))], 1)
  x = jnp.take_along_axis(x.T, jnp.array([[[1, 0]]]), 2)
  return jnp.squeeze(lax.dynamic_slice(x, (3, 0, 0), (1, 1, 1))) < 0.25


def by_columns(key):
  x = held(key, (2, 2)) + jnp.arange(4.0).reshape(2, 2)
  return jnp.ravel(x, order="F")[1] < 2.25


def best_of_columns(key):
  noise = random.gumbel(key, (3, 2)) + jnp.log(LAW)[:, None]
  return lax.top_k(noise, 1, axis=0)[1][0, 1]


def beside_a_number(key, function, number):
  """Compares a concrete entry of an array with a random entry."""
  entries = jnp.where(jnp.array([True, False]), held(key, (2,)), number)
  return (function(entries) >= 0.1)[1]


def beyond(key):
  return held(key, (2,)).at[5].get(mode="fill", fill_value=0.0) < 0.5


def closes_over(key):
  uniform = held(key)
  return jax.jit(lambda x: uniform < x)(0.25)


@pytest.mark.parametrize(
  ("function", "law"),
  [
    (jitted, QUARTER),
    (lambda key: both(key, key), TWICE),
    (lambda key: both(key, random.clone(key)), TWICE),
    (lambda key: both(*random.split(key)), APART),
    (lambda key: both(*map(random.fold_in, [key] * 2, (1, 2))), APART),
    # With counters for bits, these are the same keys, and the same numbers.
    (lambda key: both(random.split(key)[0], random.split(key, 3)[0]), TWICE),
    (lambda key: both(random.split(key)[0], random.fold_in(key, 0)), TWICE),
    (lambda key: (held(key) < 0.25, held(key, (5,))[0] < 0.25), TWICE),
    (lambda key: held(random.split(random.key_data(key))[0]) < 0.25, QUARTER),
    (lambda key: random.bernoulli(key, 0.25, (2,))[1], QUARTER),
    (lambda key: held(key, minval=-1.0, maxval=1.0) < -0.5, QUARTER),
    (lambda key: 1 - 2 * held(key) > np.float32(0.5), QUARTER),
    (lambda key: (np.full(2, 0.25) > held(key, (2,)))[0], QUARTER),
    (lambda key: jnp.log(held(key)) < jnp.log(0.25), QUARTER),
    (lambda key: jax.nn.relu(held(key) - 0.75) > 0, QUARTER),
    (lambda key: random.categorical(key, jnp.log(LAW)), TOKENS),
    (lambda key: random.choice(key, 3, p=LAW), TOKENS),
    (lambda key: jnp.argmax(random.gumbel(key, 3) + jnp.log(LAW)), TOKENS),
    (lambda key: jnp.argmin(random.exponential(key, 3) / LAW), TOKENS),
    (lambda key: jnp.argmax(jnp.log(held(key, 3)) / LAW), TOKENS),
    (lambda key: jnp.searchsorted(jnp.cumsum(LAW), held(key)), TOKENS),
    (by_loop, TOKENS),
    (jax.checkpoint(lambda key: random.categorical(key, jnp.log(LAW))), TOKENS),
    (
      lambda key: random.categorical(key, jnp.log(LAW[:2])),
      {0: 2 / 3, 1: 1 / 3},
    ),
    (
      lambda key: [random.categorical(key, jnp.log(LAW)) for _ in range(2)],
      {(token, token): chance for token, chance in TOKENS.items()},
    ),
    (lambda key: lax.top_k(random.gumbel(key, 3) + jnp.log(LAW), 2)[1], PAIRS),
    (lambda key: random.choice(key, 3, (2,), False, LAW), PAIRS),
    (
      jax.jit(lambda key: lax.cond(held(key) < 0.25, lambda: 1, lambda: 0)),
      QUARTER,
    ),
    (lambda key: jax.vmap(jitted)(random.split(key)), APART),
    (until_tails, {0: 0.5, 1: 0.25, 2: 0.25}),
    (jax.jit(until_tails), {0: 0.5, 1: 0.25, 2: 0.25}),
    (scanned, THREE),
    (jax.jit(scanned), THREE),
    (scanned_uniforms, THREE),
    (loops_apart, APART),
    (moved, QUARTER),
    (jax.jit(moved), QUARTER),
    (by_columns, QUARTER),
    (jax.jit(by_columns), QUARTER),
    (best_of_columns, TOKENS),
    (closes_over, QUARTER),
    (beyond, {True: 1}),
    *(
      (lambda key, f=f, x=x: beside_a_number(key, f, x), {met: 1})
      for f, x, met in (
        (lambda x: jnp.maximum(x, 0.25), jnp.nan, False),
        (lambda x: jnp.minimum(0.25, x), jnp.nan, False),
        (lambda x: x / jnp.array([1.0, 0.0]), 3.0, True),
      )
    ),
  ],
)
def test_a_law_is_exact(function, law):
  assert explore(function).distance(law) < 1e-8


def test_many_tokens_are_one_choice():
  law = jnp.arange(1.0, 25) / 300
  drawn = explore(lambda key: random.categorical(key, jnp.log(law)))
  assert drawn.runs == 24
  assert drawn.distance(dict(enumerate(law.tolist()))) < 1e-5


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
    (jax.jit(lambda key: random.normal(key) < 0), "test_dice_jax.py, line"),
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
  with pytest.raises(certify.ExploreError, match=r"test_dice_jax\.py, line"):
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
