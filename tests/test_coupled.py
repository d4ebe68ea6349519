"""Programs whose draft and target share noise."""

import functools
import random
from fractions import Fraction

import numpy as np
import pytest

from examples import coupled as examples
from tests import oracle
from tv_jax import certify


class Replayed:
  """An rng that gives stored noise."""

  def __init__(self, noise):
    self.noise = noise

  def exponential(self, size):
    assert self.noise.shape == size
    return self.noise.copy()


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
  p, *drafts = rng.dirichlet(np.ones(shape[-1]), size=3)

  def program(rng):
    noise = rng.exponential(size=shape)
    return [
      cycle(lambda _: p, lambda _, q=q: q, (), Replayed(noise))[0]
      for q in drafts
    ]

  law = certify.explore(program)
  wanted = {(x, x): Fraction(share) for x, share in enumerate(p.tolist())}
  assert law.distance(wanted) < 1e-12


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
