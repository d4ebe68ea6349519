"""Families: what they read and refuse; one file and one line each."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tv_jax
from tests import checkpoints
from tv_jax import models
from tv_jax.models import decoder, families, layout, sharding
from tv_jax.models.families import llama

CONFIG = checkpoints.tiny(model_type="qwen3", head_dim=12)
SINGLE = "model.safetensors"
TOKENS = checkpoints.tokens(2, 9, CONFIG.vocab_size)

# As it was published with Qwen3-0.6B.
PUBLISHED = {
  "architectures": ["Qwen3ForCausalLM"],
  "attention_bias": False,
  "attention_dropout": 0.0,
  "bos_token_id": 151643,
  "eos_token_id": 151645,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 1024,
  "initializer_range": 0.02,
  "intermediate_size": 3072,
  "max_position_embeddings": 40960,
  "max_window_layers": 28,
  "model_type": "qwen3",
  "num_attention_heads": 16,
  "num_hidden_layers": 28,
  "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06,
  "rope_scaling": None,
  "rope_theta": 1000000,
  "sliding_window": None,
  "tie_word_embeddings": True,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0",
  "use_cache": True,
  "use_sliding_window": False,
  "vocab_size": 151936,
}
FULL = ["full_attention"] * 28


@pytest.fixture
def saved(tmp_path):
  models.save(tmp_path, checkpoints.ours(CONFIG))
  return tmp_path


def read(**changes):
  raw = PUBLISHED | changes
  raw = {name: value for name, value in raw.items() if value is not ...}
  return families.from_dict(raw, "config.json")


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
    (("llama", 128256, 2048, 8192, 16, 32, 8, 64, True), 1_235_814_400),
    (("llama", 32000, 4096, 11008, 32, 32, 32, 128, False), 6_738_415_616),
    (("qwen2", 151936, 896, 4864, 24, 14, 2, 64, True), 494_032_768),
    (("qwen3", 151936, 4096, 12288, 36, 32, 8, 128, False), 8_190_735_360),
    (("qwen3", 151936, 1024, 3072, 28, 16, 8, 128, True), 596_049_920),
    (("qwen3", 48, 32, 56, 3, 4, 2, 12, False), None),
  ],
  ids=str,
)
def test_the_table_of_tensors_is_the_model(config, count):
  """Of published sizes, and so of published counts."""
  config = shape(*config)
  params = jax.eval_shape(
    functools.partial(families.init, config=config), jax.random.key(0)
  )["params"]
  leaves, size = families.leaves(config), decoder.sizes(config)
  assert len(jax.tree.leaves(params)) == len(leaves)
  for leaf in leaves:
    value = functools.reduce(lambda node, key: node[key], leaf.path, params)
    assert value.shape == tuple(size[axis] for axis in leaf.axes)
    assert value.size == leaf.size
  assert count in (None, sum(leaf.size for leaf in leaves))


def test_initial_parameters(monkeypatch):
  """Not those of lifted layers, which fold other numbers into keys."""
  monkeypatch.setattr(decoder, "_TracedOnce", None)
  jax.clear_caches()
  params = families.init(jax.random.key(0), checkpoints.tiny())["params"]
  assert (params["norm"] == 1).all()
  assert params["layers_1"]["qkv"].shape == (2, 4, 8, 32)
  assert float(params["layers_0"]["qkv"].std()) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize(
  "changes",
  [
    {"sliding_window": 4096, "max_window_layers": 0},
    {"use_sliding_window": True},  # of no width
    {"use_sliding_window": True, "sliding_window": 9},  # from layer 28 on
    {"layer_types": FULL},
    {
      "layer_types": FULL,
      "use_sliding_window": True,
      "sliding_window": 9,
      "max_window_layers": 0,
    },
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
    (
      {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 3},
      "use_sliding_window=True is not supported, only False: layers from"
      " max_window_layers=3 on",
    ),
    (
      {
        "use_sliding_window": True,
        "sliding_window": ...,
        "max_window_layers": ...,
      },
      "use_sliding_window=True is not supp",
    ),
    (
      {"layer_types": ["full_attention"] * 27 + ["sliding_attention"]},
      r"layer_types=\[.* is not supported, only 'full_attention'",
    ),
    ({"layer_types": FULL[1:]}, "once for each of the 28"),
    ({"layer_types": {}}, "layer_types={} is not supported"),
    ({"use_sliding_window": 1}, "use_sliding_window=1: give true or false"),
    ({"sliding_window": "9"}, "sliding_window='9': give an integer"),
    ({"max_window_layers": -1}, "max_window_layers=-1: give an integer"),
    ({"attention_bias": True}, "attention_bias=True is not supported"),
    ({"mlp_bias": False}, "unknown attribute mlp_bias=False"),
    ({"head_dim": None}, "head_dim is missing"),
    ({"hidden_act": None}, "hidden_act=None is not supported, only 'silu'"),
    ({"architectures": ["LlamaForCausalLM"]}, "is not a causal Qwen3"),
    ({"model_type": ["qwen3"]}, "model_type=.* is not supported, only 'llama'"),
    (
      families.to_dict(checkpoints.tiny()) | {"layer_types": None},
      "unknown attribute layer_types=None",  # a Llama has no windows
    ),
  ],
  ids=lambda x: str(x)[:30],
)
def test_what_would_change_the_model_is_refused(changes, words):
  with pytest.raises(ValueError, match=rf"^config\.json: .*{words}") as caught:
    read(**changes)
  assert "\n" not in str(caught.value)


def test_what_was_saved_is_loaded(saved):
  good, model = checkpoints.ours(CONFIG), models.load(saved)
  assert model.config == CONFIG
  theirs = np.asarray(good.logits(TOKENS))
  np.testing.assert_array_equal(model.logits(TOKENS), theirs)
  raw = json.loads((saved / "config.json").read_text())
  assert raw["architectures"] == ["Qwen3ForCausalLM"]
  assert "mlp_bias" not in raw
  stored = load_file(saved / SINGLE)["model.layers.1.self_attn.q_norm.weight"]
  own = good.params["params"]["layers_1"]["q_norm"]
  np.testing.assert_array_equal(stored, own)

  two = models.load(saved, mesh=sharding.mesh(jax.devices()[:2]))
  layer = two.params["params"]["layers_0"]
  assert layer["qkv"].sharding.shard_shape(layer["qkv"].shape)[0] == 1
  assert layer["q_norm"].sharding.is_fully_replicated
  assert checkpoints.error(np.asarray(two.logits(TOKENS)), theirs) <= 1e-5


def test_all_that_is_wrong_with_the_tensors_at_once(saved):
  tensors = load_file(saved / SINGLE)
  del tensors["model.layers.0.self_attn.q_norm.weight"]
  tensors["model.layers.1.self_attn.k_norm.weight"] = np.ones(48, np.float32)
  save_file(tensors, saved / SINGLE)
  with pytest.raises(ValueError, match="does not hold") as caught:
    models.load(saved)
  for words in (
    "missing: model.layers.0.self_attn.q_norm.weight",
    "wrong shape: model.layers.1.self_attn.k_norm.weight is [48], not [12]",
  ):
    assert words in str(caught.value)


@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
@pytest.mark.parametrize("compiled", [False, True])
def test_layers_are_traced_once(model_type, compiled, monkeypatch):
  config = checkpoints.tiny(model_type=model_type, num_hidden_layers=5)
  own, attend, traced = checkpoints.ours(config), decoder.attend, []

  def seen(*given):
    traced.append(given)
    return attend(*given)

  monkeypatch.setattr(decoder, "attend", seen)
  jax.clear_caches()
  apply = jax.jit(own.apply) if compiled else own.apply
  size = (1, 7)  # as no other test has it
  for _ in range(2):
    zeros = jnp.zeros(size, jnp.int32)
    seen_by = jnp.zeros((*size, 7))
    apply(own.params, zeros, zeros, seen_by, own.init_cache(1, 7))
  assert len(traced) == 1


def biased(layer, qkv):
  """As Qwen2's: a bias of queries, keys and values."""
  return qkv + decoder.weight(layer, "qkv_bias", "GPC")[None, None]


def biased_layer(config, path, prefix):
  G, R, C = config.num_key_value_heads, config.heads_per_group, config.head_dim
  bias = layout.Leaf(
    path=(*path, "qkv_bias"),
    axes="GPC",
    parts=tuple(
      layout.Part(
        name=f"{prefix}self_attn.{letter}_proj.bias",
        shape=(G * count * C,),
        view=(G, count, C),
      )
      for letter, count in {"q": R, "k": 1, "v": 1}.items()
    ),
    join=1,
  )
  return [*layout.layer(config, path, prefix), bias]


# All that a third family is, and the line that makes it known.
THIRD = dataclasses.replace(
  llama.FAMILY,
  name="Third",
  architecture="ThirdForCausalLM",
  leaves=functools.partial(layout.decoder, layer=biased_layer),
  module=functools.partial(decoder.Decoder, heads=biased),
)


@pytest.mark.long
def test_a_third_family_is_one_line(monkeypatch, tmp_path):
  monkeypatch.setitem(families.FAMILIES, "third", THIRD)
  config = checkpoints.tiny(model_type="third")
  model = checkpoints.ours(config)
  models.save(tmp_path / "target", model)
  models.save(tmp_path / "draft", checkpoints.ours(checkpoints.tiny()))
  pair = tv_jax.load(tmp_path / "draft", tmp_path / "target")
  assert pair.target.config == config
  result = tv_jax.generate(
    pair, [[1, 2]], tree="kary:2x2", temperature=0, max_new_tokens=8, ends=()
  )
  text = [1, 2]
  for token in result.tokens[0]:
    assert int(jnp.argmax(model.logits([text])[0, -1])) == token
    text.append(int(token))
