"""What is followed, by backend: programs and the laws that they have."""

import bisect
import functools
import itertools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tv_jax import certify

try:
  import torch
except ImportError:
  torch = None

LAW = (0.125, 0.375, 0.5)
P, LOGITS = np.array(LAW), np.log(LAW)
Z = np.array([*LAW, 0.0])  # with a token that is never drawn
J, LOG_J = jnp.array(LAW), jnp.log(jnp.array(LAW))
T = torch and torch.tensor(Z, dtype=torch.float32)
held = jax.random.uniform  # under another name
split = jax.random.split

TOKENS = {i: Fraction(x) for i, x in enumerate(LAW)}
QUARTER = {True: Fraction(1, 4), False: Fraction(3, 4)}
TWICE = {(x, x): chance for x, chance in QUARTER.items()}
APART = {(x, y): QUARTER[x] * QUARTER[y] for x in QUARTER for y in QUARTER}
SAME_TOKENS = {(i, i): chance for i, chance in TOKENS.items()}
PAIRS = {
  (i, j): TOKENS[i] * TOKENS[j] / (1 - TOKENS[i])
  for i, j in itertools.permutations(TOKENS, 2)
}
RUNS = {0: Fraction(1, 2), 1: Fraction(1, 4), 2: Fraction(1, 4)}
THREE = {i: Fraction(x, 8) for i, x in enumerate((1, 3, 3, 1))}
EIGHTHS = [0, 1, 1, 1, 2, 2, 2, 2]
CASES = []
LIMITS = {"python": 0, "numpy": 0, "torch": 0, "jax": 1e-8}


def laws(backend, law, *programs, limit=None):
  """Adds programs of one backend that have one law, exactly or nearly."""
  marks = [pytest.mark.parity] if backend == "torch" else []
  limit = LIMITS[backend] if limit is None else limit
  for program in programs:
    CASES.append(pytest.param(program, backend, law, limit, marks=marks))


def by_loop(uniform, totals):
  for token, total in enumerate(totals):
    if uniform < total:
      return token
  raise AssertionError


def scaled(rng):
  first = (rng.random() < P[2]).item()
  second = (np.random.rand(1) * np.array([2.0]) < 0.5)[0]
  return 2 if first or rng.integers(1).item() else int(not second)


def from_the_end():
  u = 1 - np.random.random()
  return 0 if u <= 0.125 else 1 + (2 * u > 1)


def by_two(first, second):
  """Draws a token by two uniforms."""
  if first < 0.5:
    return 2
  return 1 if second.tolist() < 0.75 else 0


def by_coins():
  if torch.bernoulli(T)[2]:
    return 2
  return 1 if torch.less(torch.rand(2), 0.75).tolist()[1] else 0


@jax.jit
def jitted(key):
  return held(key) < 0.25


jitted(jax.random.key(3))  # compiled before it is followed


def closes_over(key):
  uniform = held(key)
  return jax.jit(lambda x: uniform < x)(0.25)


def in_rows():
  rows = T.cumsum(0).repeat(2, 1)
  return torch.searchsorted(rows, torch.rand(2, 1), right=True)[1, 0]


def noise(*shape):
  return torch.empty(*shape or (4,)).exponential_()


def divided_in_place():
  """As vLLM's sampler: noise in place, and the laws divided in place."""
  laws = T[None].clone()
  noise = torch.empty_like(laws)
  noise.exponential_()
  return laws.div_(noise).argmax(dim=-1).view(-1).item()


def of_doubles():
  laws = T.double()
  laws /= torch.empty_like(laws).exponential_()
  return laws.argmax()


def of_columns(key):
  noise = jax.random.gumbel(key, (3, 2)) + LOG_J[:, None]
  return lax.top_k(noise, 1, axis=0)[1][0, 1]


def logs(values):
  with np.errstate(divide="ignore"):
    return np.log(values)


def of_uniforms(uniforms, eps=0.0):
  """Makes Gumbel noise of torch's uniforms."""
  return -torch.log(-torch.log(uniforms) + eps)


def clamped():
  uniforms = torch.rand(4).clamp_(1e-10, 1 - 1e-10)
  return (T.log() + of_uniforms(uniforms, 1e-10)).argmax()


def of_distribution():
  gumbel = torch.distributions.Gumbel(0.0, 1.0)
  return (T.log() + gumbel.sample((4,))).argmax()


def far_from_0(rng):
  far = np.array([*(LOGITS - 1000), -np.inf])
  return np.argmax(far + rng.gumbel(size=4))


def cold(rng):
  warm = 2000 + LOGITS
  return np.argmax((warm / 16 + rng.gumbel(size=3) / 16) * 16)


def masked(rng):
  return np.argmax(np.array([*LOGITS, -1e9, -3e38]) + rng.gumbel(size=5))


def among_masked(rng):
  far = np.array([*LOGITS - 30_000, -3e38])
  return np.argmax(far + rng.gumbel(size=4))


def buffer():
  buffer = torch.empty(2, 2)
  for row in range(2):
    buffer[row] = torch.rand(2)
  return by_two(buffer[0, 1], buffer[1, 0])


def buffer_of_uniforms():
  buffer = torch.rand(3)
  tail = buffer[1:]
  buffer[0], buffer[1] = torch.rand(()), torch.tensor(0.25)
  return 3 if tail[0] != 0.25 else by_two(buffer[0], tail[1])


def row_of_uniforms():
  u = torch.rand(2, 2)
  first = u[0]
  u.mul_(2)
  return first < 0.5


def rows_of_uniforms():
  u = torch.rand(1, 2)
  for row in u:
    row.unsqueeze_(0).mul_(2)
  return (u < 0.5)[0]


def copy_of_uniforms():
  u = torch.rand(2)
  u[[0, 1]].mul_(2)
  u.clone().mul_(2)
  return u < 0.25


def moved(key):
  x = jnp.zeros(3).at[1].set(held(key))
  x = jnp.pad(jnp.roll(x[::-1], 1), 1)
  x = jnp.where(jnp.arange(5) == 3, x, 1.0)
  x = jnp.concatenate([jnp.stack([x, x])[:, None], jnp.ones((2, 1, 5))], 1)
  x = jnp.take_along_axis(x.T, jnp.array([[[1, 0]]]), 2)
  return jnp.squeeze(lax.dynamic_slice(x, (3, 0, 0), (1, 1, 1))) < 0.25


def columns(key):
  x = held(key, (2, 2)) + jnp.arange(4.0).reshape(2, 2)
  return jnp.ravel(x, order="F")[1] < 2.25


def beside(function, number):
  """Compares a concrete entry of an array with a random entry."""

  def program(key):
    entries = jnp.where(jnp.array([True, False]), held(key, (2,)), number)
    return (function(entries) >= 0.1)[1]

  return program


def both(first, second):
  return held(first) < 0.25, held(second) < 0.25


def until_tails(key):
  def goes(state):
    return (state[1] < 2) & state[2]

  def toss(state):
    key, count, _ = state
    key, sub = split(key)
    heads = held(sub) < 0.5
    return key, count + heads.astype(int), heads

  return lax.while_loop(goes, toss, (key, 0, True))[1]


def scanned(key):
  def step(count, sub):
    uniform = held(sub)
    return count + (uniform < 0.5).astype(int), uniform

  return lax.scan(step, 0, split(key, 3))[0]


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


laws(
  "python",
  TOKENS,
  from_the_end,
  lambda: bisect.bisect(1 + np.cumsum(LAW), random.uniform(1, 2)),
  lambda: random.choices(range(3), LAW)[0],
  lambda: random.choices(range(3), cum_weights=[1, 4, 8])[0],
  lambda: EIGHTHS[random.choice(range(4)) + 4 * np.random.choice(2)],
)
laws(
  "numpy",
  TOKENS,
  lambda rng: by_loop(rng.random(), np.cumsum(LAW)),
  scaled,
  lambda rng: np.searchsorted(np.cumsum(LAW), rng.random()),
  lambda rng: np.searchsorted(np.cumsum(LAW), rng.random((2, 1)))[1, 0],
  lambda rng: rng.multinomial(1, LAW).argmax(),
  lambda rng: EIGHTHS[rng.integers(8)],
  lambda rng: np.argmin(rng.exponential(size=4) / Z),
  lambda rng: np.argmax(Z / rng.exponential(size=4)),
  lambda rng: np.argsort(P / rng.exponential(size=3))[-1],
  lambda rng: np.argmin(-np.log1p(-rng.random(3)) / LAW),
  lambda rng: min(range(3), key=lambda i: rng.exponential() / LAW[i]),
  lambda: np.argmin(np.random.exponential(size=3) / LAW),
)
laws(
  "numpy",
  {i: Fraction(*x) for i, x in enumerate([(1, 2), (1, 4), (3, 16), (1, 16)])},
  lambda rng: np.cumprod(rng.random((1, 3)) < [0.5, 0.5, 0.25]).sum(),
)
laws("numpy", PAIRS, lambda rng: rng.choice(3, size=2, replace=False, p=LAW))
laws(
  "numpy",
  TOKENS,
  lambda rng: np.argmax(logs(Z) + rng.gumbel(size=4)),
  lambda rng: np.argmax(LOGITS - np.log(-np.log(rng.random(3)))),
  limit=1e-15,
)
laws(
  "numpy",
  TOKENS,
  far_from_0,
  cold,
  limit=1e-12,
)
laws(
  "numpy",
  TOKENS,
  masked,
  among_masked,
  lambda rng: np.argmax(LOGITS + 1e6 + rng.gumbel(size=3)),
  limit=1e-9,
)
laws(
  "torch",
  TOKENS,
  by_coins,
  lambda: by_two(*torch.rand(size=(2,))),
  lambda: by_two(*torch.rand(2, 1).data.T[0]),
  in_rows,
  lambda: torch.searchsorted(T.cumsum(0), torch.rand(()), right=True),
  lambda: (torch.rand(1) >= torch.cumsum(T, 0)).sum().item(),
  lambda: torch.multinomial(T[None], 1).item(),
  lambda: torch.distributions.Categorical(T).sample().item(),
  divided_in_place,
  of_doubles,
  lambda: (T / noise()).max(-1)[1],
  lambda: torch.max(T / noise(1, 4), dim=-1, keepdim=True).indices.item(),
  lambda: (noise() / T).topk(2, largest=False).indices[0],
  buffer,
  buffer_of_uniforms,
)
laws(
  "torch",
  {i: Fraction(*x) for i, x in enumerate([(1, 2), (1, 4), (3, 16), (1, 16)])},
  lambda: (torch.rand(3) < torch.tensor([0.5, 0.5, 0.25])).cumprod(0).sum(),
)
laws(
  "torch",
  TOKENS,
  clamped,
  lambda: torch.argmax(T.log() + of_uniforms(torch.rand_like(T))),
  limit=1e-7,
)
laws("torch", TOKENS, of_distribution, limit=5e-7)
laws(
  "torch", TOKENS, lambda: (T / noise().clamp(min=1e-10)).argmax(), limit=4e-10
)
laws(
  "torch",
  APART,
  row_of_uniforms,
  rows_of_uniforms,
  copy_of_uniforms,
)
laws(
  "jax",
  QUARTER,
  jitted,
  closes_over,
  lambda key: jax.random.bernoulli(key, 0.25, (2,))[1],
  lambda key: held(key, minval=-1.0, maxval=1.0) < -0.5,
  lambda key: 1 - 2 * held(key) > np.float32(0.5),
  lambda key: (np.full(2, 0.25) > held(key, (2,)))[0],
  lambda key: jnp.log(held(key)) < jnp.log(0.25),
  lambda key: jax.nn.relu(held(key) - 0.75) > 0,
  jax.jit(lambda key: lax.cond(held(key) < 0.25, lambda: 1, lambda: 0)),
  moved,
  jax.jit(moved),
  columns,
  jax.jit(columns),
  lambda key: held(split(jax.random.key_data(key))[0]) < 0.25,
)
laws(
  "jax",
  TOKENS,
  lambda key: by_loop(held(key), jnp.cumsum(J)),
  lambda key: jnp.searchsorted(jnp.cumsum(J), held(key)),
  lambda key: jax.random.categorical(key, LOG_J),
  jax.checkpoint(lambda key: jax.random.categorical(key, LOG_J)),
  lambda key: jax.random.choice(key, 3, p=J),
  lambda key: jnp.argmin(jax.random.exponential(key, 3) / J),
  lambda key: jnp.argmax(jnp.log(held(key, 3)) / J),
  of_columns,
)
laws(
  "jax", {0: 0.25, 1: 0.75}, lambda key: jax.random.categorical(key, LOG_J[:2])
)
laws(
  "jax",
  PAIRS,
  lambda key: lax.top_k(jax.random.gumbel(key, 3) + LOG_J, 2)[1],
  lambda key: jax.random.choice(key, 3, (2,), False, J),
)
laws(
  "jax",
  TOKENS,
  lambda key: jnp.argmax(jax.random.gumbel(key, 3) + LOG_J),
  limit=1e-7,
)
laws(
  "jax",
  {False: 1},
  beside(lambda x: jnp.maximum(x, 0.25), jnp.nan),
  beside(lambda x: jnp.minimum(0.25, x), jnp.nan),
  beside(lambda x: x / jnp.array([1.0, 0.0]), -3.0),
  lambda key: held(key, (2,)).at[5].get(mode="fill", fill_value=2.0) < 0.5,
)
laws(
  "jax",
  TWICE,
  lambda key: both(key, key),
  lambda key: both(key, jax.random.clone(key)),
  lambda key: both(split(key)[0], split(key, 3)[0]),
  lambda key: both(split(key)[0], jax.random.fold_in(key, 0)),
  lambda key: (held(key) < 0.25, held(key, (5,))[0] < 0.25),
)
laws(
  "jax",
  APART,
  lambda key: both(*split(key)),
  lambda key: both(*map(jax.random.fold_in, [key] * 2, (1, 2))),
  lambda key: jax.vmap(jitted)(split(key)),
  loops_apart,
)
laws(
  "jax",
  SAME_TOKENS,
  lambda key: [jax.random.categorical(key, LOG_J) for _ in range(2)],
)
laws(
  "jax",
  RUNS,
  until_tails,
  jax.jit(until_tails),
)
laws(
  "jax",
  THREE,
  scanned,
  jax.jit(scanned),
  scanned_uniforms,
)


@pytest.mark.parametrize(("program", "backend", "law", "limit"), CASES)
def test_a_law_is_exact(program, backend, law, limit):
  arrays = "jax" if backend == "jax" else "numpy"
  found = certify.explore(program, arrays=arrays)
  if not limit:
    assert found.chances == law
  assert found.distance(law) <= limit


BLURRED = [
  lambda rng: np.argmax(P / (rng.exponential(size=3) + 1e-9)),
  lambda rng: np.argmin((rng.exponential(size=3) + 1e-9) / LAW),
  lambda rng: np.argmin(np.maximum(rng.exponential(size=3), 1e-9) / LAW),
  lambda rng: np.argmin(np.clip(rng.exponential(size=3), 1e-9, None) / LAW),
  lambda rng: np.argmax(LOGITS - np.log(-np.log(rng.random(3) + 1e-9))),
  lambda rng: np.argmax(
    LOGITS - np.log(-np.log(np.clip(rng.random(3), 1e-9, 1)))
  ),
  lambda rng: np.argmax(LOGITS - np.log(-np.log(rng.uniform(1e-9, 1, 3)))),
]


@pytest.mark.parametrize("program", BLURRED)
def test_a_tiny_number_in_noise_is_a_bound(program):
  """Each of three variables is off by 1e-9 or 2e-9 in total variation."""
  found = certify.explore(program)
  assert 1e-9 < found.blur < 6.001e-9
  assert found.distance(found.chances) == float(found.blur)
  assert found.distance(TOKENS) < found.blur + Fraction(1, 10**15)


@pytest.mark.parametrize(
  "race",
  [
    lambda logits, noise: logits / 1e-5 + noise,
    lambda logits, noise: logits + 1e-5 * noise,
    lambda logits, noise: (logits + noise * 1e-5) / 1e-5,
  ],
)
def test_a_cold_race_has_one_winner(race):
  found = certify.explore(
    lambda rng: np.argmax(race(LOGITS, rng.gumbel(size=3)))
  )
  assert {*found.chances} == {2}
  assert 0 < found.unexplored < Fraction(1, 10**300)


@pytest.mark.parametrize("seed", range(4))
def test_two_races_with_one_noise_are_coupled(seed):
  """P(both take i) is 1 / sum_k max(q_k / q_i, p_k / p_i): exact rationals."""
  rng = random.Random(seed)
  q, p = (
    [Fraction(rng.randint(1, 9), 8) for _ in range(3 + seed % 2)]
    for _ in range(2)
  )

  def program(dice):
    noise = dice.exponential(size=len(q))
    return np.argmin(noise / q), np.argmin(noise / p)

  found = certify.explore(program).chances
  assert sum(found.values()) == 1
  for i in range(len(q)):
    ratios = [max(q[k] / q[i], p[k] / p[i]) for k in range(len(q))]
    assert found[i, i] == 1 / sum(ratios)
    for law, place in ((q, 0), (p, 1)):
      share = sum(x for key, x in found.items() if key[place] == i)
      assert share == law[i] / sum(law)


def test_a_race_is_one_choice():
  law = np.random.default_rng(0).dirichlet(np.ones(50))

  def program(rng):
    race = [np.argmin, np.argmax][rng.integers(2)]
    noise = rng.exponential(size=50)
    return race((noise / law, law / noise)[race is np.argmax])

  found = certify.explore(program)
  assert found.runs == 100
  total = sum(map(Fraction, law))
  assert found.chances == {i: Fraction(x) / total for i, x in enumerate(law)}
  in_jax = functools.partial(jax.random.categorical, logits=jnp.log(law[:24]))
  assert certify.explore(in_jax, arrays="jax").runs == 24
