"""Checkpoints of strangers: one line, with the file's name."""

import json
import shutil
import sys
import types

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests import bad, checkpoints
from tv_jax import models
from tv_jax.models import checkpoint, folders, memory

SINGLE = "model.safetensors"
INDEX = f"{SINGLE}.index.json"
CONFIG = checkpoints.tiny(num_hidden_layers=1)
WEIGHT = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  folder = tmp_path_factory.mktemp("whole")
  models.save(folder, checkpoints.ours(CONFIG))
  return folder


@pytest.fixture
def saved(whole, tmp_path):
  shutil.copytree(whole, tmp_path / "mine")
  return tmp_path / "mine"


def refused(folder, *fragments):
  with pytest.raises(ValueError, match=r"\S") as error:
    models.load(folder)
  return bad.one_line(error, *fragments)


@pytest.mark.parametrize("way", bad.WAYS)
@pytest.mark.parametrize("name", ["config.json", INDEX])
def test_json_of_a_wrong_shape(saved, name, way):
  bad.spoil(saved / name, way)
  refused(saved, f"mine/{name}")


@pytest.mark.parametrize("kind", bad.PLACES)
def test_weights_that_are_no_file(saved, kind):
  bad.place(saved / SINGLE, kind)
  refused(saved, SINGLE)


@pytest.mark.parametrize(
  "header", [b"", b"[]", b"\xff", b'{"a":' * 10_000, b"{}"]
)
def test_weights_of_a_wrong_shape(saved, header):
  size = len(header).to_bytes(8, "little")
  (saved / SINGLE).write_bytes(size + header)
  refused(saved, "mine")


INTEGER = "must be an integer from 1"
NUMBER = "must be a positive number"
TOKEN = "must be a token"


@pytest.mark.parametrize(
  ("name", "value", "words"),
  [
    ("vocab_size", "48", INTEGER),
    ("vocab_size", 10**30, INTEGER),
    ("hidden_size", 32.0, INTEGER),
    ("hidden_size", [32], INTEGER),
    ("num_attention_heads", 0, INTEGER),
    ("num_attention_heads", True, INTEGER),
    ("num_key_value_heads", 0, INTEGER),
    ("num_key_value_heads", {}, INTEGER),
    ("head_dim", -8, INTEGER),
    ("num_hidden_layers", 10**9, "from 1 to 1000"),
    ("max_position_embeddings", 0, INTEGER),
    ("rms_norm_eps", "1e-5", NUMBER),
    ("rms_norm_eps", 0, NUMBER),
    ("rms_norm_eps", [1e-5], NUMBER),
    ("rope_theta", [10000], NUMBER),
    ("rope_theta", -1, NUMBER),
    ("rope_theta", 10**400, NUMBER),
    ("rope_scaling", [2], "must be an object"),
    ("rope_scaling", {"type": ["linear"], "factor": 2}, "not supported"),
    ("rope_scaling", {"type": "linear", "factor": [2]}, NUMBER),
    ("rope_scaling", {"type": "linear", "factor": 0}, NUMBER),
    ("rope_scaling", {"type": "linear", "factor": None}, "factor is missing"),
    ("rope_parameters", 3, "must be an object"),
    ("rope_parameters", {"rope_theta": {}}, NUMBER),
    ("tie_word_embeddings", "false", "must be true or false"),
    ("attention_bias", 0, "attention_bias=0 is not supported"),
    ("bos_token_id", [1], TOKEN),
    ("eos_token_id", 48, TOKEN),
    ("eos_token_id", [2, -1], TOKEN),
    ("eos_token_id", [2, "</s>"], TOKEN),
    ("pad_token_id", 1.5, TOKEN),
    ("architectures", {}, "is not a causal Llama"),
    ("torch_dtype", 0, "dtype=0 is not one of"),
    ("x" * 5000, "y" * 5000, "unknown attribute xxx"),
  ],
)
def test_a_field_of_a_wrong_kind(saved, name, value, words):
  checkpoints.rewrite(saved, **{name: value})
  named = words in (INTEGER, TOKEN)
  refused(saved, "mine/config.json", f"{name}=" if named else "", words)


def test_a_ramp_without_a_slope(saved):
  ramp = checkpoints.ROPE["llama3"] | {"low_freq_factor": 4.0}
  checkpoints.rewrite(saved, rope_theta=None, rope_parameters=ramp)
  refused(saved, "low_freq_factor=4.0 must be below 4.0")


def test_a_width_that_no_head_divides(saved):
  checkpoints.rewrite(saved, head_dim=None, num_attention_heads=6)
  refused(saved, "hidden_size=32 must be a multiple of num_attention_heads=6")


def test_a_padding_token_of_none(saved):
  checkpoints.rewrite(saved, pad_token_id=-1)
  assert models.load(saved).config.pad_token_id == -1


@pytest.mark.parametrize("told", [True, False])
def test_a_head_that_is_taken_for_a_model(tmp_path, told):
  """Its config says it, or its weights do."""
  models.save(tmp_path, checkpoints.ours_head(checkpoints.ours(CONFIG)))
  if not told:
    raw = json.loads((tmp_path / "config.json").read_text())
    del raw["bias"]
    (tmp_path / "config.json").write_text(json.dumps(raw))
  with pytest.raises(ValueError, match='draft_kind="eagle"') as error:
    models.load(tmp_path)
  bad.one_line(error, str(tmp_path))


def test_a_model_that_is_taken_for_a_head(tmp_path):
  model = checkpoints.ours(checkpoints.tiny(num_hidden_layers=2))
  models.save(tmp_path, model)
  with pytest.raises(ValueError, match='draft_kind="independent"') as error:
    models.load_eagle(tmp_path, model)
  bad.one_line(error, f"{tmp_path}/config.json")


@pytest.mark.parametrize("value", ["yes", 1, [], {}])
def test_a_bias_of_a_wrong_kind(tmp_path, value):
  target = checkpoints.ours(CONFIG)
  models.save(tmp_path, checkpoints.ours_head(target))
  checkpoints.rewrite(tmp_path, bias=value)
  with pytest.raises(ValueError, match=r"bias=.* must be true or false"):
    models.load_eagle(tmp_path, target)


@pytest.mark.parametrize(
  "kind", ["int8", "uint8", "bool", "int64", ml_dtypes.float8_e4m3fn]
)
def test_weights_that_are_no_floats(saved, kind):
  tensors = load_file(saved / SINGLE)
  stored = "bool" if kind is ml_dtypes.float8_e4m3fn else kind
  tensors[WEIGHT] = np.zeros(tensors[WEIGHT].shape, stored)
  save_file(tensors, saved / SINGLE)
  if kind is ml_dtypes.float8_e4m3fn:  # which the library does not write
    raw = (saved / SINGLE).read_bytes()
    (saved / SINGLE).write_bytes(_as_float8(raw))
  refused(saved, WEIGHT, "quantised ones are not supported")


def _as_float8(raw):
  size = int.from_bytes(raw[:8], "little")
  header = raw[8 : 8 + size].replace(b'"BOOL"', b'"F8_E4M3"').rstrip()
  return len(header).to_bytes(8, "little") + header + raw[8 + size :]


def test_doubles_are_weights(saved):
  tensors = load_file(saved / SINGLE)
  tensors[WEIGHT] = tensors[WEIGHT].astype(np.float64)
  save_file(tensors, saved / SINGLE)
  models.load(saved)


def test_a_tensor_in_two_files(saved):
  tensors = load_file(saved / SINGLE)
  (saved / SINGLE).rename(saved / "a.safetensors")
  shutil.copy(saved / "a.safetensors", saved / "b.safetensors")
  names = [f"{letter}.safetensors" for letter in "ab"]
  places = {name: names[i % 2] for i, name in enumerate(tensors)}
  (saved / INDEX).write_text(json.dumps({"weight_map": places}))
  refused(saved, "b.safetensors holds", "and so does a.safetensors")


OUTSIDE = [
  "/etc/passwd.safetensors",
  "../mine/model.safetensors",
  "./model.safetensors",
  "a/b.safetensors",
  "a\\b.safetensors",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_index_reads_no_file_elsewhere(saved, name):
  index = {"weight_map": dict.fromkeys(load_file(saved / SINGLE), name)}
  (saved / INDEX).write_text(json.dumps(index))
  refused(saved, INDEX, "only files beside it are read")


@pytest.mark.parametrize(
  "places", [None, [], {}, "a", {"a": 3}, {"a": ["x"]}, {"a": ""}, {"a": "."}]
)
def test_an_index_without_files(saved, places):
  (saved / INDEX).write_text(json.dumps({"weight_map": places}))
  refused(saved, INDEX)


@pytest.mark.parametrize("path", [None, 3, b"x", [], "", "a\0b", "a" * 5000])
def test_what_is_no_path(path):
  with pytest.raises(ValueError, match=r"no path|neither a directory") as error:
    folders.resolve(path, None)
  bad.one_line(error)


def test_a_model_that_does_not_fit_is_not_read(saved, monkeypatch):
  monkeypatch.setattr(memory, "available", lambda devices: 10_000)
  monkeypatch.setattr(models.storage, "read", None)
  refused(saved, "float32 needs 46.5 kB", "there are 10 kB: choose dtype=")


class TestConverting:
  """The command reads and writes its two folders, and nothing else."""

  @pytest.mark.parametrize("name", ["../new.bin", "/tmp/a.bin", "x.json"])
  def test_an_index_that_leads_elsewhere(self, saved, tmp_path, name):
    index = saved / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(SystemExit, match=r"index\.json names"):
      checkpoint.main(["convert", str(saved), str(tmp_path / "new")])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]

  def test_a_place_that_cannot_be_written(self, saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    fake = types.ModuleType("safetensors.torch")
    fake.save_file = None
    monkeypatch.setitem(sys.modules, "safetensors.torch", fake)
    (saved / "pytorch_model.bin").write_bytes(b"x")
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="file"):
      checkpoint.main(["convert", str(saved), str(tmp_path / "file")])

  @pytest.mark.parity
  @pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\x80\x02}q\0.", b"<html>", "cut", "list"]
  )
  def test_foreign_files(self, saved, tmp_path, content):
    torch = pytest.importorskip("torch")
    path = saved / "pytorch_model.bin"
    torch.save([1] if content == "list" else {"a": torch.zeros(999)}, path)
    if content == "cut":
      content = path.read_bytes()[:-300]
    if content != "list":
      path.write_bytes(content)
    with pytest.raises(SystemExit) as error:
      checkpoint.main(["convert", str(saved), str(tmp_path / "new")])
    assert "pytorch_model.bin" in str(error.value)
    assert "\n" not in str(error.value)
