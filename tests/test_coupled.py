"""Draft and target that share noise: our rule, and programs that do it."""

import functools
import itertools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import coupled as examples
from tests import oracle, quick
from tests.battery import V, random_pair
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import VERIFIERS, coupled, misfit

CHAIN = (-1, 0, 1)
IID = PROPOSALS["with_replacement"]


class Replayed:
  """An rng that gives the noise that is there."""

  def __init__(self, noise):
    self.noise = noise

  def exponential(self, size):
    assert self.noise.shape == size
    return self.noise.copy()


# The race that the rule is the law of.


@pytest.mark.parametrize("seed", range(6))
def test_the_oracle_has_the_law_of_two_races_with_one_noise(seed):
  """By another way: every comparison of noise is followed, with zeros too."""
  rng, size = random.Random(seed), 3 + seed % 2
  q, p = (
    oracle.norm([Fraction(x) for x in (*rng.choices(range(6), k=size - 1), 1)])
    for _ in range(2)
  )

  def program(dice):
    noise = dice.exponential(size=size)
    return examples.race(q, noise), examples.race(p, noise)

  found = certify.explore(program).chances
  for i, j in itertools.product(range(size), repeat=2):
    assert found.get((i, j), 0) == oracle.both_win(q, p, i, j)


def test_it_is_as_long_as_its_bounds_say():
  """Between (1 - TV) / (1 + TV) and 1 - TV (Daliri et al. 2024)."""
  rng, between = random.Random(0), 0
  for _ in range(60):
    q, p = random_pair(rng)
    same = sum(oracle.both_win(q, p, i, i) for i in range(V))
    most = sum(map(min, q, p))
    least = most / (2 - most)
    assert least <= same <= most
    between += least < same < most
    assert same == 1 or p != q
  assert between > 20


def test_the_cycle_gives_what_the_rule_gives():
  """Tokens and their number, jointly, though the noise is not shared there."""
  language = oracle.random_language(random.Random(3), 2, 4)
  q, p = language
  wanted = {}
  for chance, draft in oracle.drafts(CHAIN, "with_replacement", language):
    for node, stop in oracle.stop_law(draft, "coupled").items():
      path = oracle.path_tokens(draft, node)
      residual = oracle.residual_at(draft, "coupled", node)
      for token, share in enumerate(residual):
        whole = (*path, token)
        wanted[whole] = wanted.get(whole, 0) + chance * stop * share
  cycle = functools.partial(examples.gumbel_cycle, p, q, ())
  found = certify.explore(lambda rng: cycle(rng)).chances
  assert found == {
    tokens: chance for tokens, chance in wanted.items() if chance
  }


# The rule, at the size of real vocabularies.


@pytest.mark.optimised
@pytest.mark.parametrize("apart", [1e-4, 1])
def test_float32_is_near_float64(apart):
  """The chance to accept and the bonus token's law, in all 1e-6 off."""
  size = 128_256
  rng = np.random.default_rng(0)
  logits = 3 * rng.normal(size=size)
  q, p = (
    np.asarray(jax.nn.softmax(jnp.float32(x)))
    for x in (logits, logits + apart * rng.normal(size=size))
  )
  token = rng.choice(size, p=np.float64(q) / np.float64(q).sum())
  tokens = jnp.array([0, token], jnp.int32)

  def laws(q, p):
    rows = jnp.stack([q, q]), jnp.stack([p, p])
    found = coupled.offers(tree_lib.chain(1), IID, tokens, *rows)
    weights = coupled.after_rejection(p, q, token)
    return found.chance[1], weights / weights.sum()

  call = functools.partial(jax.jit, compiler_options=quick.AS_USERS)
  near, near_left = map(np.float64, call(laws)(q, p))
  with jax.enable_x64(True):
    q, p = (np.float64(x) / np.float64(x).sum() for x in (q, p))
    chance, left = map(np.asarray, call(laws)(q, p))
  assert abs(near - chance) < 1e-6
  assert abs((1 - near) * near_left - (1 - chance) * left).sum() < 1e-6
  near, _ = call(laws)(*(np.float32(q),) * 2)
  assert near == 1  # what is equal is accepted for certain


def test_it_is_for_chains():
  rule = VERIFIERS["coupled"]
  for text in ("kary:2x2", "adaptive:2"):
    told = misfit(rule, tree_lib.parse(text), IID)
    assert "'coupled' is defined for chains only" in str(told)
  row = jnp.ones((3, 2)) / 2
  tokens = jnp.zeros(3, jnp.int32)
  with pytest.raises(ValueError, match="for chains only"):
    rule.decide(tree_lib.kary(2, 1), IID, tokens, row, row, row[:, 0])


# The programs.


@pytest.mark.parametrize(
  ("cycle", "vocabulary"),
  [
    (examples.gumbel_cycle, 3),
    (examples.gls_cycle, 2),
    pytest.param(examples.gls_cycle, 3, marks=pytest.mark.long),
  ],
)
def test_the_programs_are_lossless(cycle, vocabulary):
  settings = {"vocabulary": vocabulary, "cases": 8, "seconds": 300}
  certify.assert_lossless(cycle, **settings)


@pytest.mark.parametrize(
  ("cycle", "shape"),
  [(examples.gumbel_cycle, (3, 3)), (examples.gls_cycle, (2, 2, 2))],
)
def test_the_first_token_is_the_same_for_every_draft(cycle, shape):
  """Exactly: the joint law with two drafts on one noise is on its diagonal."""
  rng = np.random.default_rng(5)
  p, one, other = rng.dirichlet(np.ones(shape[-1]), size=3)

  def program(rng):
    noise = rng.exponential(size=shape)
    return [
      cycle(lambda _: p, lambda _, q=q: q, (), Replayed(noise))[0]
      for q in (one, other)
    ]

  found = certify.explore(program)
  wanted = {(x, x): Fraction(share) for x, share in enumerate(p.tolist())}
  assert found.distance(wanted) < 1e-12


@pytest.mark.parametrize(
  "cycle",
  [examples.gumbel_cycle, functools.partial(examples.gls_cycle, depth=3)],
)
def test_a_draft_changes_the_length_and_no_token(cycle):
  """Replayed with the same noise: of two outputs one begins the other."""
  language, lengths = oracle.random_language(random.Random(2), 4), set()
  others = [oracle.random_language(random.Random(i), 4)[0] for i in range(3)]

  def law(of):
    return lambda prefix: np.array(of(tuple(prefix)), float)

  for seed in range(60):
    outputs = [
      cycle(law(language[1]), law(q), (1,), np.random.default_rng(seed))
      for q in (*others, language[1])
    ]
    longest = max(outputs, key=len)
    assert all(out == longest[: len(out)] for out in outputs)
    lengths.add(tuple(map(len, outputs)))
  assert len(lengths) > 5
