"""Every failure of loading is one clear line that names the remedy."""

import itertools
import json
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tv_jax
from tests import checkpoints
from tv_jax import models
from tv_jax.edge import reading
from tv_jax.models import families, mask, products, sharding

CONFIG = checkpoints.tiny()
SINGLE = "model.safetensors"


@pytest.fixture(scope="module")
def good():
  return checkpoints.ours(CONFIG)


@pytest.fixture
def saved(good, tmp_path):
  models.save(tmp_path, good)
  return tmp_path


def refused(directory, *fragments, **keywords):
  with pytest.raises(ValueError, match=r".+") as caught:
    models.load(directory, **keywords)
  message = str(caught.value)
  assert "\n" not in message
  for fragment in fragments:
    assert re.search(fragment, message), message
  return message


def edit(directory, change):
  tensors = load_file(directory / SINGLE)
  change(tensors)
  save_file(tensors, directory / SINGLE, metadata={"format": "pt"})


def split(directory):
  """The same checkpoint as two shards and an index."""
  tensors = load_file(directory / SINGLE)
  (directory / SINGLE).unlink()
  names = sorted(tensors)
  parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
  for file, part in parts.items():
    save_file({n: tensors[n] for n in part}, directory / file)
  index = {"weight_map": {n: f for f, part in parts.items() for n in part}}
  (directory / f"{SINGLE}.index.json").write_text(json.dumps(index))


def test_what_was_saved_is_loaded(good, saved):
  model = models.load(str(saved))
  assert model.config == CONFIG
  assert model.source == str(saved)
  tokens = checkpoints.tokens(2, 8, CONFIG.vocab_size)
  np.testing.assert_array_equal(model.logits(tokens), good.logits(tokens))


@pytest.mark.parametrize("tied", [False, True])
def test_turned_weights_are_the_same_model(tied, tmp_path):
  given = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=tied))
  models.save(tmp_path / "given", given)
  turned = models.load(tmp_path / "given", turned=True)
  own, old = (model.params["params"] for model in (turned, given))
  shapes = [jax.tree.map(np.shape, x["layers_1"]["down"]) for x in (own, old)]
  assert shapes[0].matrix == shapes[1][::-1]
  assert own["layers_1"]["qkv"].matrix.shape == (32, 2 * 4 * 8)
  # What is looked up and nothing else lies as it did.
  looked_up = own["embedding"]
  assert isinstance(looked_up, products.Turned) == tied
  tokens = checkpoints.tokens(2, 8, CONFIG.vocab_size)
  ours, theirs = turned.logits(tokens), np.asarray(given.logits(tokens))
  assert checkpoints.error(ours, theirs) < 2e-6
  models.save(tmp_path / "again", turned)
  for name in (SINGLE, "config.json"):
    first, second = (tmp_path / at / name for at in ("given", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_what_is_not_turned(saved):
  mesh = sharding.mesh(jax.devices()[:2])
  for own in ({"dtype": "int8"}, {"mesh": mesh}):
    params = models.load(saved, **own, turned=True).params
    assert not products.are_turned(params)


@pytest.mark.parametrize("tied", [False, True])
def test_no_pass_moves_a_turned_weight(tied, tmp_path):
  """Neither for products nor to look tokens up; and no pass of a head does."""
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=tied))
  models.save(tmp_path / "target", target)
  models.save(tmp_path / "head", checkpoints.ours_head(target))
  own = models.load(tmp_path / "target", turned=True)
  head = models.load_eagle(tmp_path / "head", own)
  sizes = {
    x.matrix.size
    for model in (own, head)
    for x in jax.tree.leaves(
      model.params, is_leaf=lambda x: isinstance(x, products.Turned)
    )
    if isinstance(x, products.Turned)
  }
  for T, model in itertools.product((1, 3), (own, head)):
    cache = model.init_cache(1, 8)
    features = [] if model is own else [jnp.zeros((1, T, CONFIG.hidden_size))]
    tokens = jnp.zeros((1, T), jnp.int32)
    seen = mask.causal(cache.length, T, 8)
    given = (model.params, tokens, *features, tokens, seen, cache)
    text = jax.jit(model.apply).lower(*given).compile().as_text()
    _, program = text.split("\nENTRY ")
    made = re.findall(r"= \w+\[([\d,]*)\]\S* (?!parameter)\w+\(", program)
    assert len(made) > 20
    shapes = [[*map(int, filter(None, x.split(",")))] for x in made]
    assert not sizes & {*map(math.prod, shapes)}


@pytest.mark.parametrize("tied", [False, True])
def test_a_head_of_a_turned_target(tied, tmp_path):
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=tied))
  head = checkpoints.ours_head(target)
  models.save(tmp_path / "target", target)
  models.save(tmp_path / "head", head)

  def features(turned):
    own = models.load(tmp_path / "target", turned=turned)
    head = models.load_eagle(tmp_path / "head", own)
    assert products.are_turned({"fc": head.params["params"]["fc"]}) == turned
    cache = head.init_cache(1, 4)
    rows = np.ones((1, 4), np.int32), np.ones((1, 4, 32), np.float32)
    place = np.arange(4, dtype=np.int32)[None]
    seen = mask.causal(cache.length, 4, 4)
    logits, found, _ = head.apply(head.params, *rows, place, seen, cache)
    return np.asarray(logits), np.asarray(found)

  for ours, theirs in zip(features(True), features(False), strict=True):
    assert checkpoints.error(ours, theirs) < 2e-6


def test_a_cpu_has_them_turned(saved):
  pair = tv_jax.load(saved, saved)
  assert products.are_turned(pair.target.params)
  assert products.are_turned(pair.draft.params)
  assert pair.target.config == pair.draft.config == CONFIG
  split = tv_jax.load(saved, saved, mesh=sharding.mesh(jax.devices()[:2]))
  assert not products.are_turned(split.target.params)
  assert not products.are_turned(split.draft.params)


def test_a_turned_weight_in_its_box():
  weight = np.arange(24.0).reshape(2, 3, 4)
  boxed = products.turn(weight, 2)
  assert boxed.matrix.shape == (4, 6)
  np.testing.assert_array_equal(boxed.unbox(), weight)
  np.testing.assert_array_equal(boxed.replace_boxed(-weight).unbox(), -weight)


@pytest.mark.parametrize("ends", [(), (2,), (2, 5)])
def test_a_configuration_is_written_as_it_was_read(ends):
  config = checkpoints.tiny(eos_token_id=ends)
  assert families.from_dict(families.to_dict(config), "ours") == config


def test_shards_are_read(good, saved):
  split(saved)
  tokens = checkpoints.tokens(2, 8, CONFIG.vocab_size)
  ours = models.load(saved).logits(tokens)
  np.testing.assert_array_equal(ours, good.logits(tokens))


def test_a_missing_directory():
  refused("nowhere/at/all", "nowhere/at/all is neither a directory nor")
  refused("./nowhere", "neither a directory nor")


def test_a_repository_that_cannot_be_had(monkeypatch, tmp_path):
  import huggingface_hub

  def offline(*_, **keywords):
    assert keywords["revision"] == "abc"
    raise huggingface_hub.errors.LocalEntryNotFoundError("not\ncached")

  monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
  refused(
    "owner/name", "owner/name is not .* at revision abc: not", revision="abc"
  )


def test_a_repository_is_read_from_the_cache(good, monkeypatch, tmp_path):
  import huggingface_hub

  commit = tmp_path / "snapshots" / "0123abc"
  models.save(commit, good)
  monkeypatch.setattr(
    huggingface_hub, "snapshot_download", lambda *_, **__: str(commit)
  )
  model = models.load("owner/name", revision="0123abc")
  assert model.source == "owner/name@0123abc"


def test_a_revision_of_a_directory(saved):
  refused(saved, "has no revision 'main'", revision="main")


def test_no_configuration(saved):
  (saved / "config.json").unlink()
  refused(saved, "config.json does not exist")


def test_a_broken_configuration(saved):
  (saved / "config.json").write_text("{")
  refused(saved, "config.json is not JSON")


def test_no_weights(saved):
  (saved / SINGLE).rename(saved / "pytorch_model.bin")
  refused(
    saved,
    "has neither model.safetensors",
    rf"python -m tv_jax.models.checkpoint convert {saved} DST",
    "parity extra",
  )


def test_a_missing_shard(saved):
  split(saved)
  (saved / "b.safetensors").unlink()
  refused(saved, "lacks b.safetensors", "download")


@pytest.mark.parametrize("keep", [4, 200, -64])
def test_a_truncated_file(saved, keep):
  whole = (saved / SINGLE).read_bytes()
  (saved / SINGLE).write_bytes(whole[:keep])
  refused(saved, "is truncated or is not safetensors", "download it again")


def test_all_that_is_wrong_with_the_tensors_at_once(saved):
  def change(tensors):
    del tensors["model.norm.weight"]
    del tensors["model.layers.1.self_attn.k_proj.weight"]
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(3)
    tensors["lm_head.weight"] = np.zeros((47, 32), np.float32)

  edit(saved, change)
  refused(
    saved,
    r"missing: model\.norm\.weight",
    r"missing: model\.layers\.1\.self_attn\.k_proj\.weight",
    r"unknown: model\.layers\.0\.self_attn\.q_proj\.bias",
    r"wrong shape: lm_head\.weight is \[47, 32\], not \[48, 32\]",
  )


def test_what_old_conversions_stored_beside_is_ignored(saved):
  name = "model.layers.0.self_attn.rotary_emb.inv_freq"
  edit(saved, lambda tensors: tensors.update({name: np.ones(4)}))
  models.load(saved)


def test_a_tied_head_may_be_stored_if_it_is_the_embedding(tmp_path):
  config = checkpoints.tiny(tie_word_embeddings=True)
  models.save(tmp_path, checkpoints.ours(config))
  head, embedding = "lm_head.weight", "model.embed_tokens.weight"
  edit(tmp_path, lambda t: t.update({head: t[embedding].copy()}))
  models.load(tmp_path)
  edit(tmp_path, lambda t: t.update({head: t[embedding] + 1}))
  refused(tmp_path, "tie_word_embeddings is true, but")


@pytest.mark.parametrize(
  ("change", "fragment"),
  [
    ({"sliding_window": 4096}, "unknown attribute sliding_window=4096"),
    ({"quantization_config": {"bits": 4}}, "unknown attribute quantization_c"),
    ({"architectures": ["MistralForCausalLM"]}, "is not a causal Llama"),
    ({"model_type": "qwen2"}, "model_type='qwen2' is not supported"),
    ({"hidden_act": "gelu"}, "hidden_act='gelu' is not supported"),
    ({"attention_bias": True}, "attention_bias=True is not supported"),
    ({"mlp_bias": True}, "mlp_bias=True is not supported"),
    ({"rms_norm_eps": None}, "rms_norm_eps is missing"),
    ({"torch_dtype": "int8"}, "dtype='int8' is not one of"),
    ({"num_key_value_heads": 3}, "num_attention_heads=4 must be a multiple"),
    ({"rope_scaling": {"type": "dynamic", "factor": 2}}, "'dynamic'.*not supp"),
    ({"rope_scaling": {"type": "yarn", "factor": 2}}, "'yarn'.* not supported"),
    ({"rope_scaling": {"rope_type": "llama3"}}, "needs .*'low_freq_factor'"),
    ({"rope_parameters": {"rope_theta": 3}}, "rope_theta is given twice"),
    ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "unknown RoPE sett"),
  ],
)
def test_a_configuration_that_is_not_ours(saved, change, fragment):
  checkpoints.rewrite(saved, **change)
  refused(saved, "config.json", fragment)


def test_all_that_is_wrong_with_a_configuration_at_once(saved):
  checkpoints.rewrite(saved, vocab_size=None, alibi=True, mlp_bias=True)
  refused(saved, "vocab_size is missing", "alibi=True", "mlp_bias=True")


def test_old_configurations_mean_what_they_meant(saved):
  """As Llama-68M's and Vicuna-7B's, which are from before these settings."""
  checkpoints.rewrite(
    saved,
    num_key_value_heads=None,
    head_dim=None,
    rope_theta=None,
    rope_scaling=None,
    tie_word_embeddings=None,
    attention_bias=None,
    mlp_bias=None,
    torch_dtype=None,
    use_cache=True,
    max_sequence_length=2048,
  )
  config = families.from_dict(
    reading.json_object(saved / "config.json"), "config.json"
  )
  assert config == checkpoints.tiny(num_key_value_heads=4, rope_theta=10000.0)


@pytest.mark.parametrize("dtype", ["float64", "half-precision"])
def test_a_dtype_of_none_of_ours(saved, dtype):
  refused(saved, f"dtype {dtype} is not one of float32, bf", dtype=dtype)


def test_dtypes(saved):
  model = models.load(saved, dtype="bfloat16")
  kinds = {str(x.dtype) for x in model.params["params"]["layers_0"].values()}
  assert kinds == {"bfloat16"}
  assert model.init_cache(1, 4).keys[0].dtype == "bfloat16"
  assert model.logits(np.zeros((1, 3), np.int32)).dtype == "float32"
  models.save(saved / "half", model)
  assert models.load(saved / "half").config == model.config


def test_vocabularies_that_differ():
  target = checkpoints.tiny(vocab_size=128256)
  with pytest.raises(ValueError, match="32000 is not the target's of 128256"):
    models.check_vocabularies(target, checkpoints.tiny(vocab_size=32000))
  models.check_vocabularies(target, target)


@pytest.mark.parity
class TestConverting:
  @pytest.fixture
  def binary(self, saved):
    """The same checkpoint in PyTorch's format, in two files, tensors shared."""
    import torch

    tensors = {
      name: torch.from_numpy(value)
      for name, value in load_file(saved / SINGLE).items()
    }
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = tensors[
      "model.norm.weight"
    ]
    (saved / SINGLE).unlink()
    names, where = sorted(tensors), {}
    for i in range(2):
      file = f"pytorch_model-0000{i + 1}-of-00002.bin"
      torch.save({n: tensors[n] for n in names[i::2]}, saved / file)
      where |= dict.fromkeys(names[i::2], file)
    index = saved / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    (saved / "tokenizer_config.json").write_text("{}")
    return saved

  def test_the_command(self, good, binary):
    from tv_jax.models import checkpoint

    checkpoint.main(["convert", str(binary), str(binary / "new")])
    tokens = checkpoints.tokens(1, 8, CONFIG.vocab_size)
    ours = models.load(binary / "new").logits(tokens)
    np.testing.assert_array_equal(ours, good.logits(tokens))
    assert (binary / "new" / "tokenizer_config.json").exists()
    assert not list((binary / "new").glob("*.bin*"))

  def test_one_file(self, good, saved):
    import torch

    from tv_jax.models import checkpoint

    tensors = load_file(saved / SINGLE)
    torch.save(
      {n: torch.from_numpy(x) for n, x in tensors.items()},
      saved / "pytorch_model.bin",
    )
    checkpoint.convert(saved, saved / "new")
    again = load_file(saved / "new" / SINGLE)
    assert all(np.array_equal(again[n], tensors[n]) for n in tensors)

  def test_the_format_before_zip(self, saved):
    torch = pytest.importorskip("torch")
    from tv_jax.models import checkpoint

    tensors = load_file(saved / SINGLE)
    torch.save(
      {n: torch.from_numpy(x) for n, x in tensors.items()},
      saved / "pytorch_model.bin",
      _use_new_zipfile_serialization=False,
    )
    checkpoint.convert(saved, saved / "new")
    assert load_file(saved / "new" / SINGLE).keys() == tensors.keys()

  @pytest.mark.parametrize(
    ("where", "fragment"), [("new", "lacks pytorch_model.bin"), ("", "itself")]
  )
  def test_refusals(self, saved, where, fragment):
    from tv_jax.models import checkpoint

    with pytest.raises(SystemExit, match=fragment):
      checkpoint.main(["convert", str(saved), str(saved / where)])
