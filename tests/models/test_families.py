"""Model families: accepted settings and refused."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import checkpoints, published, quick
from tv_jax.models import cache as caches
from tv_jax.models import causal_pass, decoder, parameters
from tv_jax.models import config as configs

TOKENS = checkpoints.tokens(2, 9, 48)

FULL = ["full_attention"] * 28


def read(**changes):
  raw = published.QWEN3 | changes
  raw = {name: value for name, value in raw.items() if value is not ...}
  return configs.from_dict(raw, "config.json")


def shape(name, V, E, F, L, H, G, C, tied):
  return checkpoints.tiny(
    model_type=name,
    vocab_size=V,
    hidden_size=E,
    intermediate_size=F,
    num_hidden_layers=L,
    num_attention_heads=H,
    num_key_value_heads=G,
    head_dim=C,
    tie_word_embeddings=tied,
  )


@pytest.mark.parametrize(
  ("config", "count"),
  [
    (("llama", 128256, 4096, 14336, 32, 32, 8, 128, False), 8_030_261_248),
    (("qwen2", 151936, 896, 4864, 24, 14, 2, 64, True), 494_032_768),
    (("qwen3", 151936, 1024, 3072, 28, 16, 8, 128, True), 596_049_920),
  ],
  ids=str,
)
def test_the_table_of_tensors_is_the_model(config, count):
  """Published sizes give published parameter counts."""
  config = shape(*config)
  weights = parameters.stored(decoder.Decoder(config)).values()
  names = [name for weight in weights for name in weight.shapes]
  assert len(set(names)) == len(names)
  sizes = [math.prod(x) for weight in weights for x in weight.shapes.values()]
  assert sum(sizes) == sum(math.prod(weight.shape) for weight in weights)
  assert count == sum(sizes)


@pytest.mark.parametrize(
  "changes",
  [
    {"layer_types": FULL, "sliding_window": 9, "max_window_layers": 0},
    {
      "rope_theta": ...,
      "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
      "dtype": "bfloat16",
      "torch_dtype": ...,
    },
  ],
  ids=str,
)
def test_what_means_nothing_is_accepted(changes):
  assert read(**changes) == read()
  assert (read().rope_theta, read().head_dim) == (1e6, 128)


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"use_sliding_window": True}, "use_sliding_window=True is not supported"),
    ({"layer_types": [*FULL[1:], "sliding_attention"]}, "'full_attention'"),
    ({"mlp_bias": False}, "unknown attribute mlp_bias=False"),
    ({"hidden_act": None}, "hidden_act=None is not supported, only 'silu'"),
    (
      configs.to_dict(checkpoints.tiny()) | {"layer_types": None},
      "unknown attribute layer_types=None",  # a Llama has no windows
    ),
  ],
  ids=lambda x: str(x)[:30],
)
def test_what_would_change_the_model_is_refused(changes, words):
  with pytest.raises(ValueError, match=rf"^config\.json: .*{words}") as caught:
    read(**changes)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  "model_type", quick.shorter(["qwen3", "llama", "qwen2"])
)
def test_outputs_of_layers_are_handed_out(model_type):
  """A layer's output is the input of the final norm of a shorter model."""
  config = checkpoints.tiny(model_type=model_type, num_hidden_layers=3)
  whole, layers = checkpoints.ours(config), (1, decoder.INPUT, 0)

  def run(module, config):
    cache = caches.empty(config, *TOKENS.shape)
    run = jax.jit(causal_pass, static_argnums=0)
    return run(module, whole.params, (TOKENS,), cache)[:2]

  logits, features = run(whole.module.clone(outputs=layers), config)
  np.testing.assert_array_equal(logits, run(whole.module, config)[0])
  found = dict(zip(layers, jnp.split(features, 3, axis=-1), strict=True))
  own = whole.params
  np.testing.assert_array_equal(found[-1], own["embedding"][TOKENS])
  for last in (0, 1):
    cut = dataclasses.replace(config, num_hidden_layers=last + 1)
    normed = decoder.rms_norm(
      found[last], own["norm"]["scale"], config.rms_norm_eps
    )
    theirs = run(decoder.Decoder(cut), cut)[1]
    np.testing.assert_allclose(normed, theirs, atol=1e-6)
  # Programs differ if their modules differ.
  same = whole.module.clone(outputs=layers)
  assert hash(same) == hash(whole.module.clone(outputs=layers))
  assert same == whole.module.clone(outputs=layers) != whole.module


def test_layers_are_traced_once(monkeypatch):
  model = checkpoints.ours(checkpoints.tiny(num_hidden_layers=5))
  attend, traced = decoder.attend, []

  def counted(*arguments):
    traced.append(arguments)
    return attend(*arguments)

  monkeypatch.setattr(decoder, "attend", counted)
  tokens = np.zeros((1, 7), np.int32)  # a size that no other test has
  cache = model.init_cache(*tokens.shape)
  run = functools.partial(causal_pass, model.module)
  jax.eval_shape(run, model.params, (tokens,), cache)
  assert len(traced) == 1
