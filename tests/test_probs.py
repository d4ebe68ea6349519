import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tv_jax import probs

GRID = [
  (temperature, top_k, top_p)
  for top_k in (0, 5, 100)
  for top_p in (0.05, 0.9, 1.0)
  for temperature in (0.3, 1.7)
]


@functools.partial(jax.jit, static_argnums=(2, 3))
def jitted_law(logits, temperature, top_k, top_p):
  return probs.from_logits(
    logits, temperature=temperature, top_k=top_k, top_p=top_p
  )


def random_logits(seed, rows=4, vocabulary=50):
  rng = np.random.default_rng(seed)
  return (3 * rng.standard_normal((rows, vocabulary))).astype(np.float32)


@pytest.mark.parity
def test_law_is_what_transformers_samples_with():
  import torch
  from transformers.generation import logits_process as process

  ties = np.array([[2, 1, 1, 0, 1], [0, 0, 0, 0, 0]], np.float32)
  cases = [(random_logits(1), *options) for options in GRID]
  for logits, temperature, top_k, top_p in [*cases, (ties, 1.0, 2, 1.0)]:
    warpers: list = [process.TemperatureLogitsWarper(temperature)]
    if top_k:
      warpers.append(process.TopKLogitsWarper(top_k))
    if top_p < 1:
      warpers.append(process.TopPLogitsWarper(top_p))
    scores = torch.from_numpy(logits)
    for warper in warpers:
      scores = warper(None, scores)
    expected = torch.softmax(scores, -1).numpy()
    law = jitted_law(logits, np.float32(temperature), top_k, top_p)
    np.testing.assert_allclose(law, expected, atol=1e-6, rtol=1e-5)
    np.testing.assert_array_equal(law == 0, expected == 0)


LOG = np.log([0.5, 0.3, 0.2])


@pytest.mark.parametrize(
  ("logits", "options", "kept"),
  [
    # All that equal the k-th stay; of equals top-p drops the lowest ids.
    ([2, 1, 1, 0, 1], {"top_k": 2}, [1, 1, 1, 0, 1]),
    ([0] * 8, {"top_p": 0.45}, [0] * 4 + [1] * 4),
    ([0] * 8, {"top_p": 0.01}, [0] * 7 + [1]),
    # Top-p acts on what top-k left, after the temperature.
    (np.log([0.4, 0.3, 0.2, 0.1]), {"top_k": 2, "top_p": 0.5}, [1, 0, 0, 0]),
    (LOG, {"temperature": 100.0, "top_p": 0.6}, [1, 1, 0]),
    (LOG, {"temperature": 0.1, "top_p": 0.6}, [1, 0, 0]),
    # Temperature 0: the likeliest, the lowest id first.
    ([0, 5, 5, 1], {"temperature": 0}, [0, 1, 0, 0]),
    ([3, -np.inf, 3, 3], {"temperature": 0.0, "top_k": 2}, [1, 0, 0, 0]),
    # What is masked has no chance.
    ([0, -np.inf, 1, -np.inf], {}, [1, 0, 1, 0]),
    ([0, -np.inf, 1, -np.inf], {"top_p": 0.99}, [1, 0, 1, 0]),
  ],
)
def test_which_tokens_are_kept(logits, options, kept):
  law = probs.from_logits(jnp.asarray(logits, jnp.float32), **options)
  np.testing.assert_array_equal(law > 0, np.equal(kept, 1))
  weights = np.exp(np.divide(logits, options.get("temperature", 1) or 1)) * kept
  np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
  "options",
  [{}, {"temperature": 0}, {"top_k": 2}, {"top_p": 0.5}, {"temperature": 0.5}],
)
def test_a_nan_stays_in_its_row(options):
  clean = jnp.float32([[1, 2, 3, 4], [4, 3, 2, 1]])
  for place in range(4):
    law = probs.from_logits(clean.at[0, place].set(jnp.nan), **options)
    assert jnp.isnan(law[0]).all()
    np.testing.assert_array_equal(
      law[1], probs.from_logits(clean, **options)[1]
    )


def test_laws_are_float32_whatever_the_logits():
  logits, options = jnp.asarray(random_logits(3), jnp.bfloat16), {"top_k": 7}
  law = probs.from_logits(logits, **options)
  assert law.dtype == jnp.float32
  same = probs.from_logits(logits.astype(jnp.float32), **options)
  np.testing.assert_array_equal(law, same)


@pytest.mark.parametrize(
  "law",
  [[0, 2, 0, 6, 0], [0, 0, 0, 0, 1], [1, 0, 1e-38, 0, 1e-30]],
)
def test_draw_never_gives_a_token_of_probability_zero(law):
  law = np.array(law, np.float32)
  tokens = probs.draw(jax.random.key(0), jnp.asarray(law), (50_000,))
  assert tokens.dtype == jnp.int32
  assert (law[tokens] > 0).all()


@pytest.mark.parametrize("size", [6, 300])  # of 300 no whole blocks
def test_draw_follows_the_law(size):
  rng, n = np.random.default_rng(0), 100_000
  law = np.exp(2.5 * rng.normal(size=size)) * (np.arange(size) % 5 > 0)
  law = (law / law.sum()).astype(np.float32)
  tokens = probs.draw(jax.random.key(3), jnp.asarray(law), (n,))
  counts = np.bincount(tokens, minlength=size)
  assert not counts[law == 0].any()
  often = n * law > 10
  terms = (counts - n * law)[often] ** 2 / (n * law)[often]
  # Chi-square, in standard deviations.
  assert abs(terms.sum() - often.sum()) < 4 * np.sqrt(2 * often.sum())
