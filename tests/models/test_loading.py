"""Checkpoints: reading returns the written model; errors are one line."""

import shutil

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.lib import bad, checkpoints
from tv_jax import models
from tv_jax.io import reading
from tv_jax.models import config as configs
from tv_jax.models import rope

CONFIG = checkpoints.tiny()
TOKENS = checkpoints.tokens(2, 8, CONFIG.vocab_size)
SINGLE = "model.safetensors"
WEIGHT = "model.layers.0.self_attn.q_proj.weight"
BINARY = "pytorch_model.bin"


@pytest.fixture(scope="module")
def good():
  return checkpoints.ours(CONFIG)


@pytest.fixture(scope="module")
def whole(good, tmp_path_factory):
  folder = tmp_path_factory.mktemp("whole")
  models.save(folder, good)
  return folder


@pytest.fixture
def saved(whole, tmp_path):
  shutil.copytree(whole, tmp_path / "mine")
  return tmp_path / "mine"


def refused(directory, *fragments, **options):
  with bad.refused(*fragments):
    models.load(directory, **options)


def edit(directory, change):
  tensors = load_file(directory / SINGLE)
  change(tensors)
  save_file(tensors, directory / SINGLE, metadata={"format": "pt"})


SHARDS = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]


def split(directory):
  """Writes the same checkpoint as two shards."""
  tensors = load_file(directory / SINGLE)
  (directory / SINGLE).unlink()
  names = sorted(tensors)
  for i, file in enumerate(SHARDS):
    save_file({n: tensors[n] for n in names[i::2]}, directory / file)


class TestGood:
  @pytest.mark.parametrize("shards", [1, 2])
  def test_what_was_saved_is_loaded(self, good, saved, shards):
    if shards == 2:
      split(saved)
    model = models.load(str(saved))
    assert model.config == CONFIG
    assert model.source == str(saved)
    np.testing.assert_array_equal(model.logits(TOKENS), good.logits(TOKENS))

  def test_old_configurations_mean_what_they_meant(self, saved):
    """As Llama-68M's and Vicuna-7B's, which are from before these settings."""
    absent = (
      "num_key_value_heads head_dim rope_theta rope_scaling attention_bias"
      " tie_word_embeddings mlp_bias torch_dtype"
    )
    changes = dict.fromkeys(absent.split())
    others = {"use_cache": True, "max_sequence_length": 2048}
    checkpoints.rewrite(saved, **changes, **others, pad_token_id=-1)
    raw = reading.json_object(saved / "config.json")
    assert configs.from_dict(raw, "config.json") == checkpoints.tiny(
      num_key_value_heads=4, rope_theta=10000.0
    )

  def test_dtypes(self, saved):
    model = models.load(saved, dtype="bfloat16")
    leaves = jax.tree.leaves(model.params["layers_0"])
    kinds = {str(x.dtype) for x in leaves}
    assert kinds == {"bfloat16"}
    assert model.init_cache(1, 4).keys[0].dtype == "bfloat16"
    assert model.logits(TOKENS).dtype == "float32"
    models.save(saved / "half", model)
    assert models.load(saved / "half").config == model.config

  def test_a_tied_head_may_be_stored_if_it_is_the_embedding(self, tmp_path):
    config = checkpoints.tiny(tie_word_embeddings=True)
    models.save(tmp_path, checkpoints.ours(config))
    head, embedding = "lm_head.weight", "model.embed_tokens.weight"
    edit(tmp_path, lambda t: t.update({head: t[embedding].copy()}))
    models.load(tmp_path)
    edit(tmp_path, lambda t: t.update({head: t[embedding] + 1}))
    refused(tmp_path, "lm_head.weight is not its embedding")

  def test_a_repository(self, good, monkeypatch, tmp_path):
    import huggingface_hub

    commit = tmp_path / "snapshots" / "0123abc"
    models.save(commit, good)
    asked = []

    def found(*_, **keywords):
      assert keywords["revision"] == "0123abc"
      asked.append(keywords["allow_patterns"])
      return str(commit)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", found)
    model = models.load("owner/name", revision="0123abc")
    assert model.source == "owner/name@0123abc"
    asked.clear()
    (commit / SINGLE).unlink()
    refused("owner/name", "has no model.safetensors", revision="0123abc")
    assert ["pytorch_model*.bin" in patterns for patterns in asked] == [0, 1]

    def offline(*_, **__):
      raise huggingface_hub.errors.LocalEntryNotFoundError("not\ncached")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    words = "could not be had from the hub at revision abc: not cached"
    refused("owner/name", "owner/name is not a dir", words, revision="abc")


@pytest.mark.parametrize(
  ("name", "value", "words"),
  [
    ("num_key_value_heads", 0, "num_key_value_heads=0: give an integer"),
    ("rms_norm_eps", None, "rms_norm_eps is missing"),
    ("hidden_size", -1, "hidden_size=-1: give an integer of at"),
    ("rope_scaling", {"type": "yarn"}, "'yarn' is not supported"),
    ("rope_scaling", {"rope_type": "llama3"}, "needs ['factor', 'high_freq"),
    ("eos_token_id", "</s>", "eos_token_id='</s>': give an integer"),
    ("eos_token_id", 99, "eos_token_id=99: give an integer"),
    ("model_type", "gemma", "model_type='gemma' is not supported"),
    ("architectures", ["MistralForCausalLM"], "is not LlamaForCausalLM"),
    ("mlp_bias", True, "mlp_bias=True is not supported"),
  ],
  ids=lambda x: str(x)[:20],
)
def test_a_field_that_is_not_ours(saved, name, value, words):
  checkpoints.rewrite(saved, **{name: value})
  refused(saved, "mine/config.json: ", words)


def test_all_that_is_wrong_with_the_tensors_at_once(saved):
  def change(tensors):
    del tensors["model.norm.weight"]
    del tensors["model.layers.1.self_attn.k_proj.weight"]
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(3)
    tensors["lm_head.weight"] = np.zeros((47, 32), np.float32)

  edit(saved, change)
  refused(
    saved,
    "missing: model.norm.weight",
    "missing: model.layers.1.self_attn.k_proj.weight",
    "unknown: model.layers.0.self_attn.q_proj.bias",
    "wrong shape: lm_head.weight is [47, 32], not [48, 32]",
  )


def test_two_rope_scalings_are_refused():
  linear = {"rope_type": "linear", "factor": 2.0}
  with pytest.raises(ValueError, match="both given"):
    rope.from_dict({"rope_parameters": linear, "rope_scaling": linear})


def test_a_damaged_file(saved):
  whole = (saved / SINGLE).read_bytes()
  for content in (b"<html>", whole[:200], whole[:-64]):
    (saved / SINGLE).write_bytes(content)
    refused(saved, "is truncated or is not what", "download it again")


def test_quantised_weights(saved):
  edit(saved, lambda t: t.update({WEIGHT: np.zeros(t[WEIGHT].shape, "int8")}))
  refused(saved, WEIGHT, "quantised weights are not supported")


@pytest.mark.parametrize(
  ("value", "dtype"),
  [(np.nan, "float32"), (-np.inf, "bfloat16"), (70_000, "float16")],
)
def test_weights_that_are_not_finite(saved, value, dtype):
  def change(tensors):
    tensors[WEIGHT][3, 5] = value

  edit(saved, change)
  refused(saved, f"not finite in {dtype}, in {WEIGHT}", dtype=dtype)


def test_files_that_are_not_there(saved):
  refused("nowhere/at/all", "nowhere/at/all is neither a directory nor")
  refused(saved, "has no revision 'main'", revision="main")
  for name in ("float64", "fp16"):
    refused(saved, f"dtype {name} is not one of float32, bf", dtype=name)
  split(saved)
  (saved / SHARDS[1]).unlink()
  refused(saved, f"has 1 of 2 files like {SHARDS[0]}", "download it again")
  (saved / SHARDS[0]).unlink()
  refused(saved, "has no model.safetensors")


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["one", "two"])
def test_a_file_of_pytorch_is_the_same_model(good, saved, kind):
  import torch

  tensors = load_file(saved / SINGLE)
  tensors = {name: torch.from_numpy(x) for name, x in tensors.items()}
  (saved / SINGLE).unlink()
  if kind == "two":  # with tensors that share memory
    shared = "model.layers.0.self_attn.rotary_emb.inv_freq"
    tensors[shared] = tensors["model.norm.weight"]
    names = sorted(tensors)
    for i in range(2):
      file = f"pytorch_model-0000{i + 1}-of-00002.bin"
      torch.save({n: tensors[n] for n in names[i::2]}, saved / file)
  else:
    torch.save(tensors, saved / BINARY)
  np.testing.assert_array_equal(
    models.load(saved).logits(TOKENS), good.logits(TOKENS)
  )
  if kind == "one":
    torch.save({n: x.bfloat16() for n, x in tensors.items()}, saved / BINARY)
    assert models.load(saved, dtype="bfloat16").config.dtype == "bfloat16"
    whole = (saved / BINARY).read_bytes()
    (saved / BINARY).write_bytes(whole[:200])
    refused(saved, BINARY, "is truncated", "download it again")
