"""Draft and target that share noise, by a rule and by programs."""

import functools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import coupled as examples
from examples.rules import coupled
from tests import oracle, quick
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS

IID = PROPOSALS["with_replacement"]


class Replayed:
  """An rng that gives the noise that is there."""

  def __init__(self, noise):
    self.noise = noise

  def exponential(self, size):
    assert self.noise.shape == size
    return self.noise.copy()


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
