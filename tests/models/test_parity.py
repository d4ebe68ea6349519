"""Hugging Face's PyTorch models are the definition of right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import checkpoints
from tv_jax import models
from tv_jax.models import config as configs
from tv_jax.models import rope

pytestmark = pytest.mark.parity

LENGTH = 512
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
  """Ours, loaded from what theirs wrote, and their logits; made once."""
  made = {}

  def pair(family):
    if family not in made:
      theirs = checkpoints.hugging_face(family)
      directory = tmp_path_factory.mktemp(family)
      theirs.save_pretrained(directory)
      tokens = checkpoints.tokens(2, LENGTH)
      made[family] = (
        models.load(directory),
        tokens,
        checkpoints.logits(theirs, tokens),
      )
    return made[family]

  return pair


def step(module, params, tokens, cache):
  logits, _, cache = models.causal_pass(module, params, (tokens,), cache)
  return logits, cache


def in_chunks(model, tokens, lengths):
  """Logits of `tokens`, processed in chunks of these lengths."""
  run = jax.jit(step, static_argnums=0, donate_argnums=3)
  cache = model.init_cache(tokens.shape[0], LENGTH)
  parts, start = [], 0
  for length in lengths:
    chunk = jnp.asarray(tokens[:, start : start + length])
    logits, cache = run(model.module, model.params, chunk, cache)
    parts.append(logits)
    start += length
  assert start == tokens.shape[1]
  return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("family", checkpoints.FAMILIES)
def test_logits_at_once_and_by_any_split_into_chunks(pairs, family):
  model, tokens, theirs = pairs(family)
  assert checkpoints.error(model.logits(tokens), theirs) <= TOLERANCE
  rng = np.random.default_rng(0)
  sizes = np.array([1, 2, 7, 64, 200])
  splits = [[448] + [1] * 64, [], [], []]
  for lengths in splits:
    while sum(lengths) < LENGTH:
      left = LENGTH - sum(lengths)
      lengths.append(int(rng.choice(sizes[sizes <= left])))
    ours = in_chunks(model, tokens, lengths)
    assert checkpoints.error(ours, theirs) <= TOLERANCE, lengths


@pytest.mark.parametrize("family", ["grouped", "llama3-tied", "qwen3"])
def test_half_precision_is_as_close_as_theirs(family, tmp_path):
  theirs = checkpoints.hugging_face(family)
  theirs.save_pretrained(tmp_path)
  tokens = checkpoints.tokens(2, 128)
  exact = checkpoints.logits(theirs, tokens)
  model = models.load(tmp_path, dtype="bfloat16")
  ours = model.logits(tokens)
  assert ours.dtype == jnp.float32
  assert model.config.dtype == "bfloat16"
  theirs = checkpoints.logits(theirs.bfloat16(), tokens)
  assert checkpoints.error(ours, exact) <= checkpoints.error(theirs, exact)


@pytest.mark.parametrize(
  "family", ["linear", "llama3-tied", "wide-heads", "qwen3", "qwen3-tied"]
)
def test_what_we_save_loads_there(pairs, family, tmp_path):
  import transformers

  model, tokens, exact = pairs(family)
  models.save(tmp_path, model)
  theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
    tmp_path, attn_implementation="eager", output_loading_info=True
  )
  assert not any(report.values()), report
  again = checkpoints.logits(theirs.eval(), tokens)
  assert np.array_equal(again, exact)
  assert models.load(tmp_path).config == model.config


# Theta and channels of Llama-2-7B, Llama-68M, 3.1-8B and 3.2-1B, and ours.
@pytest.mark.parametrize("scaling", ["default", "linear", "llama3"])
@pytest.mark.parametrize(
  ("theta", "channels"),
  [(1e4, 128), (1e4, 64), (5e5, 128), (5e5, 64), (500.0, 16)],
)
def test_frequencies_to_the_last_bit(theta, channels, scaling):
  import transformers
  from transformers.models.llama import modeling_llama

  settings = checkpoints.ROPE[scaling] | {"rope_theta": theta}
  theirs = transformers.LlamaConfig(
    head_dim=channels, rope_parameters=dict(settings)
  )
  ours = configs.from_dict(theirs.to_dict(), "theirs")
  expected = modeling_llama.LlamaRotaryEmbedding(theirs).inv_freq.numpy()
  frequency = rope.frequencies(
    ours.rope_theta, ours.head_dim, ours.rope_scaling
  )
  assert np.array_equal(frequency, expected)
