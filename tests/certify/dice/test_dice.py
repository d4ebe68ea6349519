"""The exact laws of programs that draw: every outcome is tried."""

import copy
import decimal
import functools
import json
import math
import pickle
import random
import sys
import threading
from decimal import Decimal
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from tv_jax import certify
from tv_jax.certify.dice import paths, ratios

LAW = (0.125, 0.375, 0.5)
WANTED = {i: Fraction(x) for i, x in enumerate(LAW)}
LOGITS = np.log(LAW)


def by_loop(rng):
  u, total = rng.random(), 0.0
  for token, share in enumerate(LAW):
    total += share
    if u < total:
      return token
  raise AssertionError("laws sum to 1")


def test_comparisons_with_one_uniform_are_of_one_uniform():
  def program(rng):
    u = rng.random()
    return u < 0.25, 1 - u > 0.5, 3 * u + 1 >= 2.5, u / 2 < 0.0625

  found = certify.explore(program).chances
  assert found == {
    (True, True, False, True): Fraction(1, 8),
    (True, True, False, False): Fraction(1, 8),
    (False, True, False, False): Fraction(1, 4),
    (False, False, True, False): Fraction(1, 2),
  }


def test_what_is_known_of_a_random_number_is_used():
  def program(rng):
    u, (first, second) = rng.random(), rng.gumbel(size=2)
    masked, two = first + -np.inf, second + -np.inf
    return (
      (u * 0 == 0, u * 0 + 1 != 1, u == 0, u == u),
      (masked > -np.inf, masked == -np.inf, masked == two, first == second),
      (rng.exponential() * 0 == 0, bool(np.log(rng.random()) < np.nan)),
    )

  (found,) = certify.explore(program).chances
  assert found == (
    (True, False, False, True),
    (False, True, True, False),
    (True, False),
  )


def test_the_logarithm_of_0_is_told_apart():
  def program(rng):
    with np.errstate(divide="ignore"):
      return bool(np.log(rng.random()) <= -np.inf)

  found = certify.explore(program)
  assert found.chances == {False: 1}
  assert found.at_zero == (True,)


def test_bounds_on_noise_have_the_chance_that_samples_find():
  """Four variables in a ring of bounds, which no forest is."""
  bounds = frozenset(
    (i, j, Fraction(*r))
    for i, j, r in ((0, 1, (1, 3)), (1, 2, (1, 2)), (2, 3, (2, 5)))
  ) | {(3, 0, Fraction(1, 4)), (0, 2, Fraction(1, 2))}
  found = float(ratios.chance(bounds))
  noise = np.random.default_rng(0).exponential(size=(4, 400_000))
  hits = np.all([noise[i] >= float(r) * noise[j] for i, j, r in bounds], axis=0)
  assert abs(hits.mean() - found) < 4 * hits.std() / hits.size**0.5


def test_bounds_on_other_noise_do_not_count():
  ring = (0, 1, Fraction(1, 3)), (1, 2, Fraction(1, 2)), (2, 0, Fraction(2, 5))
  known = frozenset({*ring[:2], (5, 6, Fraction(3)), (6, 7, Fraction(2))})
  linked = ratios.linked([ring[2]], known)
  assert linked == {*ring[:2]}
  shares = [
    ratios.chance(bounds | {ring[2]}) / ratios.chance(bounds)
    for bounds in (known, linked)
  ]
  assert shares[0] == shares[1]


def test_what_happens_only_at_0_is_told_apart():
  def program(rng):
    u = rng.random()
    return u <= 0.0, u < 0.5, 1 - u < 1

  found = certify.explore(program)
  assert set(found.chances.values()) == {Fraction(1, 2)}
  assert found.at_zero == ((True, True, False),)
  assert "at u = 0" in repr(found)


def test_what_is_left_bounds_the_answer():
  def program(rng):
    count = 0
    while rng.random() < 0.5:
      count += 1
    return count % 2

  found = certify.explore(program)
  assert 0 < found.unexplored < 4e-15
  third = Fraction(1, 3)
  assert abs(found.chances[1] - third) <= found.unexplored
  assert found.distance({0: 2 * third, 1: third}) <= found.unexplored
  few = certify.explore(program, budget=3)
  assert few.runs == 3
  # The budget ends before the first branch does.
  assert few.unexplored == Fraction(1, 4)
  assert sum(few.chances.values()) == Fraction(3, 4)


COUNTED = []


def counts(rng):
  COUNTED.append(rng.random() < 0.5)
  return len(COUNTED)


def keeps_a_choice(rng):
  COUNTED.append(0)
  return rng.random() < 1 / (1 + len(COUNTED))


OWN = np.random.Generator(np.random.PCG64(0))


def keeps_a_number(rng, kept=[]):  # noqa: B006
  if kept:
    return kept.pop() < 0.5
  kept.append(rng.random())
  return None


def catches_all(rng):
  try:
    return math.sqrt(rng.random()) < 0.5
  except:  # noqa: E722
    return True


def looks_in_a_thread(rng):
  found = []
  one = threading.Thread(target=lambda: found.append(float(rng.random())))
  hook, threading.excepthook = threading.excepthook, lambda _: None
  one.start()
  one.join()
  threading.excepthook = hook
  return len(found)


def catches_the_cut(rng):
  try:
    while rng.random() < 0.5:
      pass
  finally:
    return 1  # noqa: B012


HELD = [random.random, np.random.rand]
OTHER = copy.deepcopy(OWN)  # its numbers are OWN's
COPIED = random.Random(5)
AGAIN = random.Random(5)


class Halves(random.Random):
  def random(self):
    return super().random() / 2


HALVES = Halves()


@functools.lru_cache
def kept_by_generator(rng):
  return rng.choice(2)


# Each makes one generator twice in a run, or the same in each run.
SEEDED = {
  "7": lambda: np.random.default_rng(seed=7),
  "a list": lambda: np.random.default_rng([1, 2]),
  "bits": lambda: np.random.Generator(np.random.PCG64(5)),
  "of old": lambda: np.random.RandomState(seed=3),
  "a text": lambda: random.Random("a"),
  "Python's seed": lambda: random.seed(3) or random,
  "NumPy's seed": lambda: np.random.seed([1]) or np.random,
  "Python's state": lambda: random.setstate(random.getstate()) or random,
}
COPIES = [
  copy.copy,
  copy.deepcopy,
  lambda rng: pickle.loads(pickle.dumps(rng)),
  lambda rng: np.random.Generator(rng.bit_generator),
  lambda rng: rng.spawn(1)[0],
]


@pytest.mark.parametrize("seed", SEEDED)
def test_what_seeds_a_generator_is_refused(seed):
  """Draft and target share their noise: a fault seen in public code."""
  with pytest.raises(certify.ExploreError, match=r"line \d+: .*can come again"):
    certify.explore(lambda: SEEDED[seed]().random() < 0.5)


@pytest.mark.parametrize("copies", COPIES)
def test_what_copies_a_generator_is_refused(copies):
  def program(rng):
    other = copies(rng)
    return rng.random() < 0.5, other.random() < 0.5

  with pytest.raises(certify.ExploreError, match="can come again"):
    certify.explore(program)


def test_generators_without_a_seed_are_independent():
  def program(rng):
    makes = np.random.default_rng, random.Random, np.random.RandomState
    others = [make().random() < 0.5 for make in makes]
    same = np.random.default_rng(rng) is rng
    assert same
    assert isinstance(rng, np.random.Generator)
    return rng.random() < 0.5, *others

  assert set(certify.explore(program).chances.values()) == {Fraction(1, 16)}


@pytest.mark.parametrize(
  "draws",
  [
    lambda rng: rng.integers(2),
    lambda rng: rng.integers(-100, -98, 2),
    lambda rng: rng.choice(2),
    lambda rng: rng.multinomial(2, [0.5, 0.5]),
    lambda rng: rng.choice(np.arange(3, dtype=np.uint8), 2),
  ],
)
def test_numbers_are_of_the_types_that_numpys_are(draws):
  """What is computed from them wraps around as theirs does."""

  def kind(rng):
    found = draws(rng)
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    return type(found).__name__, shape, str(dtype)

  wanted = kind(np.random.default_rng(0))
  assert certify.explore(kind).chances == {wanted: 1}


def falls_back(rng):
  try:
    return rng.integers(2, dtype=np.uint8)
  except TypeError:
    return 0


def test_one_law_at_a_time():
  """Stand-ins of two threads would be put back in the wrong order."""
  before, laws = random.random, []

  def explores():
    laws.append(certify.explore(by_loop).chances)

  threads = [threading.Thread(target=explores) for _ in range(4)]
  for one in threads:
    one.start()
  for one in threads:
    one.join()
  assert laws == [WANTED] * 4
  assert random.random is before


def test_no_numbers_are_counted_as_one():
  found = certify.explore(lambda rng: [np.nan, float("nan")][rng.integers(2)])
  assert len(found.chances) == 1


def test_a_cut_that_the_function_catches_is_a_cut():
  found = certify.explore(catches_the_cut)
  assert sum(found.chances.values()) + found.unexplored == 1


@pytest.mark.parametrize(
  ("program", "told"),
  [
    (lambda rng: rng.integers(2**31), "draws one of 2147483648 numbers"),
    (lambda rng: rng.choice(4, 2, shuffle=False), "otherwise: .* 'shuffle'"),
    (falls_back, r"draws by integers\(\) otherwise: .* 'dtype'"),
    (lambda: np.expm1(np.random.rand()) < 1, r"takes expm1\(\) of a"),
    (lambda rng: rng.exponential([1, 2]), "draws by an array of parameters"),
    (lambda rng: rng.gumbel(LOGITS), "draws by an array of parameters"),
    (lambda rng: rng.uniform(0, LAW), "draws by an array of parameters"),
    (
      lambda: COPIED.random() < AGAIN.random(),
      "a generator in another's state",
    ),
    (
      lambda: OWN.random() < OTHER.random(),
      r"random\(\) from a generator in an",
    ),
    (lambda: HALVES.random() < 0.5, r"draws by random\(\) of a subclass of a"),
    (lambda rng: kept_by_generator(rng), "keeps what it drew by its generator"),
    (catches_all, r"test_dice\.py, line \d+: takes float\(\) of"),
    (looks_in_a_thread, r"takes float\(\) of a random number"),
    # Compared by return values; if these agree, by the generators' states.
    (lambda: HELD[0]() < 0.001, "numbers that are not seen"),
    (lambda: HELD[1](2) < 0.999, "numbers that are not seen"),
    (
      lambda: sys.exit(random.choice([0, 1])),
      "the program fails: .*SystemExit",
    ),
    (lambda rng: float(rng.random()), r"takes float\(\) of a random number"),
    (lambda rng: np.argsort(rng.random(3)), "compares two random numbers"),
    (lambda rng: np.exp(rng.random(3)), r"takes exp\(\) of"),
    (lambda rng: f"{rng.random()}", r"takes format\(\) of"),
    (lambda rng: {rng.random()}, r"takes hash\(\) of"),
    (lambda rng: rng.random() * rng.random(), "multiplies random numbers"),
    (
      lambda rng: np.argmax(LAW / (rng.exponential(size=3) + 0.01)),
      "adds a number to noise",
    ),
    (
      lambda rng: [
        np.argmin((noise + eps) / LAW)
        for noise in [rng.exponential(size=3)]
        for eps in (0, 1e-9)
      ],
      "adds two different numbers to one noise",
    ),
    (lambda rng: np.clip(rng.random(), 0.1, 1), "clamps a random number by"),
    (lambda rng: np.clip(rng.random(2), 0, [1, 0.5]), "clamps a random number"),
    (lambda rng: np.clip(rng.random(), rng.random(), 1), "clamps by random"),
    (lambda rng: rng.exponential() < 1, "compares noise with a number"),
    (lambda rng: rng.random() < np.float16(0.75), "one of float16, which ro"),
    (lambda rng: rng.normal(), r"uses normal\(\) of a generator"),
    (lambda: random.gauss(0, 1), r"uses gauss\(\) of a generator"),
    (
      lambda: random.randint(0, 1),
      r"uses randint\(\) .* draw by random, .* integers",
    ),
    (lambda: np.random.randint(2), r"uses randint\(\) of a generator"),
    (lambda rng: rng.random(), "the function returns a uniform"),
    (lambda rng: 1 // 0, "the program fails: .*ZeroDivisionError"),
    (lambda rng: rng.choice(2, p=[0.5, 0.6]), "do not sum to 1"),
    (lambda p, q: 0, "missing 1 required positional argument: 'q'"),
    (counts, "keeps something from run to run"),
    (keeps_a_choice, "keeps something from run to run"),
    (keeps_a_number, "keeps something from run to run"),
    (OWN.random, "or draws numbers that are not seen"),
  ],
)
def test_what_cannot_be_explored_is_named(program, told):
  with pytest.raises(certify.ExploreError, match=told) as error:
    certify.explore(program)
  assert "\n" not in str(error.value)


SWALLOWED = {
  "np.isnan": (np.isnan, None),
  "np.isfinite": (np.isfinite, None),
  "a list": (lambda u: np.isnan([u]), None),
  "np.log2": (np.log2, r"takes log2\(\) of a random number"),
  "is_integer": (lambda u: u.is_integer(), r"takes is_integer\(\) of a"),
  "json": (json.dumps, "writes a random number as JSON"),
  "json, inside": (lambda u: json.dumps({"u": [u]}, default=str), "as JSON"),
  "jax": (jnp.asarray, "a random number of Python or NumPy to JAX"),
  "divmod": (lambda u: divmod(u, 0.1), r"takes divmod\(\) of a"),
  "decimal": (lambda u: u < decimal.Decimal("0.5"), "and a Decimal"),
  "Decimal": (lambda u: decimal.Decimal(u), "makes a Decimal of"),
  "Decimal, by name": (lambda u: Decimal(value=u), "makes a Decimal of"),
  "from_float": (lambda u: Decimal.from_float(u), "makes a Decimal of"),
  "repr": (lambda u: float(repr(u)), "prints a random number"),
  "float32": (lambda u: np.array([u], np.float32), None),
  "int": (lambda u: np.array([u]).astype(int), "rounds random numbers to int"),
  "bits": (lambda u: np.array([u]).view(np.int64), "reads the bits of random"),
  "sum": (lambda u: np.array([u, u]).sum(), "takes sum of random numbers"),
  "mean": (lambda u: np.mean(np.array([u, u])), "random numbers to np.mean"),
  "complex": (lambda u: u * 1j, "with a random number and a complex"),
  "isinstance": (lambda u: 1 // isinstance(u, float), None),
}


@pytest.mark.parametrize("name", SWALLOWED)
def test_no_error_of_a_stand_in_is_swallowed(name):
  """Real floats raise nothing, so `except` never runs."""
  looks, told = SWALLOWED[name]

  def program(rng):
    try:
      looks(rng.random())
    except Exception:
      return rng.integers(2)
    return 0

  if told is None:
    assert certify.explore(program).chances == {0: 1}
    return
  with pytest.raises(
    certify.ExploreError, match=r"test_dice\.py, line .*" + told
  ):
    certify.explore(program)


RAISED = {
  "division": (lambda rng: random.random() / 0.0, ZeroDivisionError),
  "scalar division": (lambda rng: rng.random() / 0.0, ZeroDivisionError),
  "item": (lambda rng: rng.random(1).item() / 0, ZeroDivisionError),
  "attribute": (lambda rng: rng.random().astype(float), AttributeError),
  "sum of pvals": (lambda rng: rng.multinomial(1, [0.7, 0.6, 0]), ValueError),
  "pvals": (lambda rng: rng.multinomial(1, [0.5, -0.5]), ValueError),
  "nan": (lambda rng: rng.choice(2, p=[0.5, np.nan]), ValueError),
  "scale": (lambda rng: rng.exponential(-1.0), ValueError),
  "empty": (lambda rng: random.choice([]), IndexError),
  "no weight": (lambda rng: random.choices([1, 2], [0, 0]), ValueError),
  "dtype": (lambda rng: rng.random(dtype=int), TypeError),
  "text": (lambda rng: rng.random() < "0.5", TypeError),
}


@pytest.mark.parametrize("name", RAISED)
def test_what_real_libraries_raise_is_raised(name):
  fails, kind = RAISED[name]

  def program(rng):
    try:
      fails(rng)
    except kind:
      return True
    return False

  assert program(np.random.default_rng(0))
  assert certify.explore(program).chances == {True: 1}


def test_numpys_floats_are_divided_by_0():
  def program(rng):
    u, noise = rng.random(), rng.exponential(size=2)
    with np.errstate(divide="ignore"):
      return (
        u / np.float64(0) == np.inf,
        u / np.float64(-0.0) == -np.inf,
        tuple(noise / [0.0, -0.0] == [np.inf, -np.inf]),
      )

  found = certify.explore(program)
  assert found.chances == {(True, True, (True, True)): 1}
  # 0 / 0 is NaN.
  assert found.at_zero == ((False, False, (True, True)),)


def guarded(rng):
  u = rng.random()
  if u == 0:
    u = 1e-12
  return bool(u <= 0)


def clamped_from_below(rng):
  return bool(np.clip(rng.random(), 1e-12, None) <= 0)


def raised_to_the_least(rng):
  return bool(max(rng.random(), 1e-12) <= 0)


@pytest.mark.parametrize(
  "program", [guarded, clamped_from_below, raised_to_the_least]
)
def test_a_guard_of_0_is_no_edge(program):
  found = certify.explore(program)
  assert found.chances == {False: 1}
  assert not found.at_zero


def test_a_refusal_at_0_alone_is_no_refusal():
  def program(rng):
    u = rng.random()
    return str(u) if u == 0 else bool(u < 0.5)

  assert certify.explore(program).chances == {True: 0.5, False: 0.5}


def test_a_rare_failure_is_told_with_its_probability():
  def program(rng, rare):
    u = rng.random()
    if u < rare:
      raise ValueError("nan is no probability")
    return bool(u < 0.5)

  found = certify.explore(functools.partial(program, rare=1e-7))
  ((told, chance),) = found.failures.items()
  assert "line" in told
  assert "ValueError: nan is no probability" in told
  assert chance == found.unexplored == Fraction(1e-7)
  with pytest.raises(certify.ExploreError, match=r"fails: .*nan is"):
    certify.explore(functools.partial(program, rare=1e-5))


def test_rare_failures_are_added():
  def program(rng):
    if rng.integers(30_000) == 7 and rng.integers(30) >= 0:
      raise ValueError("often enough")
    return 0

  with pytest.raises(certify.ExploreError, match="often enough"):
    certify.explore(program)


def test_debians_packages_are_no_users_files():
  assert not paths.is_users("/usr/lib/python3/dist-packages/numpy/random.py")
  assert paths.is_users("/home/me/sampler.py")


def ever_again(rng):
  while rng.integers(3) < 2:
    pass


def without_end(rng):
  while rng.random() >= 0:
    pass


@pytest.mark.parametrize("program", [ever_again, without_end])
def test_a_loop_without_end_is_cut(program):
  assert certify.explore(program, budget=100).unexplored > 0


def test_functions_are_as_they_were_after_it():
  before = random.random, np.random.default_rng, np.random.rand
  with pytest.raises(certify.ExploreError):
    certify.explore(lambda rng: 1 // 0)
  assert before == (random.random, np.random.default_rng, np.random.rand)
  assert 0 <= np.random.default_rng(0).random() < 1
