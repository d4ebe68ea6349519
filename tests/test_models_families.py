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
# What differs in Qwen3-8B.
LARGER = {
  "hidden_size": 4096,
  "intermediate_size": 12288,
  "num_attention_heads": 32,
  "num_hidden_layers": 36,
  "tie_word_embeddings": False,
}


@pytest.fixture(scope="module")
def good():
  return checkpoints.ours(CONFIG)


@pytest.fixture
def saved(good, tmp_path):
  models.save(tmp_path, good)
  return tmp_path


def read(**changes):
  return families.from_dict(PUBLISHED | changes, "config.json")


@pytest.mark.parametrize(
  ("changes", "count"), [({}, 596_049_920), (LARGER, 8_190_735_360)]
)
def test_published_sizes(changes, count):
  config = read(**changes)
  assert config.rope_theta == 1e6
  assert config.head_dim == 128
  params = jax.eval_shape(
    functools.partial(families.init, config=config), jax.random.key(0)
  )
  assert sum(x.size for x in jax.tree.leaves(params)) == count
  assert sum(leaf.size for leaf in families.leaves(config)) == count


def test_the_table_of_tensors_is_the_model():
  params = jax.eval_shape(
    functools.partial(families.init, config=CONFIG), jax.random.key(0)
  )["params"]
  leaves, size = families.leaves(CONFIG), decoder.sizes(CONFIG)
  assert len(jax.tree.leaves(params)) == len(leaves)
  for leaf in leaves:
    value = functools.reduce(lambda node, key: node[key], leaf.path, params)
    assert value.shape == tuple(size[axis] for axis in leaf.axes)
    assert value.size == leaf.size


@pytest.mark.parametrize(
  "changes",
  [
    {"sliding_window": 4096},
    {"sliding_window": 4096, "max_window_layers": 0},
    {"use_sliding_window": True},  # of no width
    {
      "use_sliding_window": True,
      "sliding_window": 9,
      "max_window_layers": 28,
    },
    {"layer_types": ["full_attention"] * 28},
    {
      "layer_types": ["full_attention"] * 28,
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
)
def test_what_means_nothing_is_accepted(changes):
  raw = PUBLISHED | changes
  raw = {name: value for name, value in raw.items() if value is not ...}
  assert families.from_dict(raw, "config.json") == read()


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    (
      {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 3},
      "use_sliding_window=True is not supported, only False: layers from"
      " max_window_layers=3 on",
    ),
    (
      {"layer_types": ["full_attention"] * 27 + ["sliding_attention"]},
      r"layer_types=\[.* is not supported, only 'full_attention'",
    ),
    ({"layer_types": ["full_attention"] * 27}, "once for each of the 28"),
    ({"layer_types": {}}, "layer_types={} is not supported"),
    ({"use_sliding_window": 1}, "use_sliding_window=1 must be true or false"),
    ({"sliding_window": "9"}, "sliding_window='9' must be an integer"),
    ({"max_window_layers": -1}, "max_window_layers=-1 must be an integer"),
    ({"attention_bias": True}, "attention_bias=True is not supported"),
    ({"mlp_bias": False}, "unknown attribute mlp_bias=False"),
    ({"head_dim": None}, "head_dim is missing"),
    ({"num_key_value_heads": None}, "num_key_value_heads is missing"),
    ({"hidden_act": None}, "hidden_act=None is not supported, only 'silu'"),
    ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "'yarn'.* not supp"),
    ({"num_experts": 128}, "unknown attribute num_experts=128"),
    ({"architectures": ["LlamaForCausalLM"]}, "is not a causal Qwen3"),
    ({"model_type": "qwen3_moe"}, "'qwen3_moe' is not supported, only 'llama'"),
    ({"model_type": ["qwen3"]}, "model_type=.* is not supported, only 'llama'"),
  ],
)
def test_what_would_change_the_model_is_refused(changes, words):
  with pytest.raises(ValueError, match=rf"^config\.json: .*{words}") as caught:
    read(**changes)
  assert "\n" not in str(caught.value)


def test_windows_that_are_not_told_are_refused():
  raw = PUBLISHED | {"use_sliding_window": True}
  for name in ("sliding_window", "max_window_layers"):
    del raw[name]
  with pytest.raises(ValueError, match="use_sliding_window=True is not supp"):
    families.from_dict(raw, "config.json")


def test_llama_has_no_windows():
  raw = families.to_dict(checkpoints.tiny()) | {"layer_types": None}
  with pytest.raises(ValueError, match="unknown attribute layer_types=None"):
    families.from_dict(raw, "config.json")


def test_what_was_saved_is_loaded(good, saved):
  model = models.load(saved)
  assert model.config == CONFIG
  np.testing.assert_array_equal(model.logits(TOKENS), good.logits(TOKENS))
  raw = json.loads((saved / "config.json").read_text())
  assert raw["architectures"] == ["Qwen3ForCausalLM"]
  assert "mlp_bias" not in raw


def test_the_norms_of_heads_are_read(good, saved):
  tensors = load_file(saved / SINGLE)
  own = good.params["params"]["layers_1"]
  for x in "qk":
    stored = tensors[f"model.layers.1.self_attn.{x}_norm.weight"]
    np.testing.assert_array_equal(stored, own[f"{x}_norm"])
    assert stored.shape == (12,)


def test_all_that_is_wrong_with_the_tensors_at_once(saved):
  tensors = load_file(saved / SINGLE)
  del tensors["model.layers.0.self_attn.q_norm.weight"]
  tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(3)
  tensors["model.layers.1.self_attn.k_norm.weight"] = np.ones(48, np.float32)
  save_file(tensors, saved / SINGLE)
  with pytest.raises(ValueError, match="does not hold") as caught:
    models.load(saved)
  for words in (
    "missing: model.layers.0.self_attn.q_norm.weight",
    "unknown: model.layers.0.self_attn.q_proj.bias",
    "wrong shape: model.layers.1.self_attn.k_norm.weight is [48], not [12]",
  ):
    assert words in str(caught.value)


def test_a_llama_is_no_qwen3(tmp_path):
  models.save(tmp_path, checkpoints.ours(checkpoints.tiny()))
  raw = families.to_dict(checkpoints.tiny(model_type="qwen3"))
  (tmp_path / "config.json").write_text(json.dumps(raw))
  with pytest.raises(ValueError, match=r"missing: .*self_attn\.q_norm"):
    models.load(tmp_path)


def test_two_devices_equal_one(good, saved):
  split = models.load(saved, mesh=sharding.mesh(jax.devices()[:2]))
  layer = split.params["params"]["layers_0"]
  assert layer["qkv"].sharding.shard_shape(layer["qkv"].shape)[0] == 1
  assert layer["q_norm"].sharding.is_fully_replicated
  ours = np.asarray(split.logits(TOKENS))
  assert checkpoints.error(ours, np.asarray(good.logits(TOKENS))) <= 1e-5


class TestHeads:
  """An EAGLE-1 head is a layer of Llama's kind, on a Llama."""

  def test_a_target_of_another_kind_is_refused(self, good, tmp_path):
    target = checkpoints.ours(checkpoints.tiny())
    models.save(tmp_path, checkpoints.ours_head(target))
    with pytest.raises(ValueError, match="'qwen3' is not supported, only 'll"):
      models.load_eagle(tmp_path, good)

  def test_a_head_of_another_kind_is_refused(self, tmp_path):
    target = checkpoints.ours(checkpoints.tiny())
    models.save(tmp_path, checkpoints.ours_head(target))
    raw = families.to_dict(dataclasses.replace(CONFIG, num_hidden_layers=1))
    (tmp_path / "config.json").write_text(json.dumps(raw))
    words = r"config\.json: an EAGLE-1 head of model_type='qwen3' is not"
    with pytest.raises(ValueError, match=words):
      models.load_eagle(tmp_path, target)


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


def test_initial_weights_are_not_of_lifted_layers(monkeypatch):
  """Which fold other numbers into keys: seeds of before would be others."""
  config = checkpoints.tiny()
  monkeypatch.setattr(decoder, "_TracedOnce", None)
  jax.clear_caches()
  params = families.init(jax.random.key(0), config)["params"]
  assert params["layers_1"]["qkv"].shape == (2, 4, 8, 32)


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
