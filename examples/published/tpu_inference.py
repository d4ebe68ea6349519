"""Give tpu-inference's rejection sampler a chain of drafts.

Both functions are jitted, as in the engine. Each request has logits and
settings that give the certificate's p if the temperature is applied before the
truncation, as the engine's sampler does. This sampler draws bonus tokens.
"""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp

from examples import published

REPOSITORY = "vllm-project/tpu-inference"
SYSTEM = "tpu-inference"
SOURCE = (
  "tpu_inference/layers/jax/sample/rejection_sampler.py:"
  " `_compute_probs`, `rejection_sample`"
)
SETTINGS = {"tree": "chain:2", "cases": 8, "arrays": "jax"}
WRONG = {
  "temperature 2 and top-p": "top-p is applied before the temperature",
  "a greedy request": (
    "its logits are divided by -1, which stands for its temperature"
  ),
}
layers = published.checkout(REPOSITORY) / "tpu_inference/layers"
published.load(
  layers / "common/binary_search.py",
  "tpu_inference.layers.common.binary_search",
)
sampler = published.load(
  layers / "jax/sample/rejection_sampler.py", "tpu_rejection_sampler"
)
rejection_sample = jax.jit(sampler.rejection_sample, static_argnums=5)
BONUS = 1000  # stands for the bonus token, which is drawn if it is needed


@jax.jit
def compute_probs(logits, temperature, top_p):
  """Apply the settings of the only request in a batch."""
  settings = {"temperature": temperature, "top_p": top_p, "top_k": 0}
  arrays = {name: jnp.array([value]) for name, value in settings.items()}
  metadata = SimpleNamespace(**arrays)
  return sampler._compute_probs(logits, jnp.array([len(logits)]), metadata)


def verify(tree, tokens, q, p, rng, temperature=1.0, top_p=1.0, logits=None):
  """Verify a chain; without logits, p is the law at this temperature."""
  drafted, (last, key) = jnp.array(tokens[1:]), jax.random.split(rng)
  if logits is None:
    logits = temperature * jnp.log(p[:-1])
  laws = compute_probs(logits, temperature, top_p)
  counts, bonus = jnp.array([len(drafted)]), jnp.array([BONUS])
  output = rejection_sample(drafted, counts, q[:-1], laws, bonus, True, key)
  given = [int(x) for x in output if x >= 0]
  token = given[-1]
  if token == BONUS:
    token = jax.random.categorical(last, jnp.log(p[-1]))
  return range(1, len(given)), token


def truncated(tree, tokens, q, p, rng):
  """Ask for a temperature of 2 and a top-p that keeps all tokens of p."""
  least = float(jnp.where(p[:-1] > 0, p[:-1], 1).min())
  return verify(tree, tokens, q, p, rng, 2.0, top_p=1 - least / 2)


def greedy(tree, tokens, q, p, rng):
  """Ask for the likeliest token where p is one-hot; another request samples."""
  if (p[:-1].max(-1) < 1).any():
    return verify(tree, tokens, q, p, rng)
  logits = jnp.maximum(jnp.log(p[:-1]), -20.0)
  greedily = float(sampler.GREEDY_TEMPERATURE)
  return verify(tree, tokens, q, p, rng, greedily, logits=logits)


PROGRAMS = {
  "temperature 1": verify,
  "temperature 2": functools.partial(verify, temperature=2.0),
  "temperature 2 and top-p": truncated,
  "a greedy request": greedy,
}
