"""GGUF files: the same model, tokens and answers as the directory's."""

import dataclasses
import json
import shutil

import gguf as package
import jax
import numpy as np
import pytest
import sentencepiece
import tokenizers as hf
from tokenizers import decoders, normalizers, pre_tokenizers

import tv_jax
from tests.lib import bad, checkpoints, gguf_files
from tests.lib.gguf_files import TEXTS, TYPES
from tv_jax import models
from tv_jax.io.reading import BUNDLED
from tv_jax.models import gguf, parameters, rope
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.models.tokenizers import check_tokens

# Rows of every type are multiples of 256 numbers.
CONFIG = checkpoints.tiny(
  hidden_size=256, intermediate_size=256, num_hidden_layers=1, head_dim=64
)
LLAMA3 = rope.Llama3Scaling(
  factor=32.0,
  low_freq_factor=1.0,
  high_freq_factor=4.0,
  original_max_position_embeddings=8192,
)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
  return gguf_files.bundled(tmp_path_factory.mktemp("bundled"))


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"tie_word_embeddings": True, "num_key_value_heads": 4},
    {"rope_scaling": rope.LinearScaling(factor=4.0)},
    {"rope_scaling": LLAMA3, "rope_theta": 500000.0},
    {"model_type": "qwen2"},
    {"model_type": "qwen3", "head_dim": 32},
  ],
  ids=["llama", "tied", "linear", "llama3", "qwen2", "qwen3"],
)
def test_a_file_is_the_model_it_was_made_of(tmp_path, changes, monkeypatch):
  monkeypatch.setattr(parameters, "_PIECE", 70 * 256)  # several, of whole heads
  model = checkpoints.ours(dataclasses.replace(CONFIG, **changes))
  ends = {
    f"tokenizer.ggml.{x}_token_id": y for x, y in (("eos", 2), ("bos", 1))
  }
  path = gguf_files.save(tmp_path / "x.gguf", model, **ends)
  loaded = models.load(path)
  assert loaded.config == model.config
  assert loaded.source == str(path)
  jax.tree.map(np.testing.assert_array_equal, loaded.params, model.params)


def test_rows_of_every_type_are_those_of_the_package(tmp_path):
  rng, found = np.random.default_rng(0), set()
  for kind in TYPES:
    block, size = package.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (6, 512 // block * size), np.uint8)
    try:
      with np.errstate(all="ignore"):
        whole = package.dequantize(raw, kind).reshape(6, 512)
    except NotImplementedError:
      continue
    path = tmp_path / f"{kind.name}.gguf"
    gguf_files.write(path, "llama", {}, {"x.weight": (raw, kind)})
    rows = gguf.contents(gguf.read(path))["x.weight"].rows(2, 5)
    assert rows.tobytes() == whole[2:5].tobytes()
    found.add(kind.name)
  assert {"F32", "F16", "BF16", "Q4_K", "Q5_0", "Q6_K", "Q8_0"} < found


@pytest.mark.parametrize(
  ("name", "dtype"), [("BF16", "bfloat16"), ("Q4_1", "float16")]
)
def test_quantised_weights_are_of_half_precision(tmp_path, name, dtype):
  model = checkpoints.ours(CONFIG)
  path = gguf_files.save(tmp_path / "x.gguf", model, TYPES[name])
  assert models.load(path).config.dtype == dtype


def test_the_bundled_target_answers_from_a_file(bundled):
  whole = tv_jax.load(BUNDLED / "target")
  pair = tv_jax.load(str(bundled))
  assert pair.target.config == dataclasses.replace(
    whole.target.config, dtype="float32"
  )
  jax.tree.map(
    np.testing.assert_array_equal, pair.target.params, whole.target.params
  )
  assert pair.ends == whole.ends
  for text in TEXTS:
    assert pair.tokenizer(text).input_ids == whole.tokenizer(text).input_ids
  template = pair.tokenizer.get_chat_template()
  assert template == whole.tokenizer.get_chat_template()


def test_a_draft_and_a_run_take_a_file(bundled, tmp_path, monkeypatch):
  name, parsed, parse = str(bundled), [], gguf.read_tokenizer
  monkeypatch.setattr(
    gguf, "read_tokenizer", lambda file: parsed.append(file) or parse(file)
  )
  pair = tv_jax.load(name, name)
  assert pair.tokenizer("Hello").input_ids
  assert len(parsed) == 2  # for target and draft, and not again on use
  assert pair.draft.config == pair.target.config
  check_tokens(pair.checkpoint, Checkpoint.open(BUNDLED / "target"))
  found = pair.checkpoint.digests("target", tokenizer=True)
  assert [*found] == ["target/target.gguf"]
  with bundled.open("rb") as file:
    data = bytearray(file.read())
  data[-1] ^= 1
  (tmp_path / "target.gguf").write_bytes(data)
  other = Checkpoint.open(tmp_path / "target.gguf")
  changed = other.digests("target", tokenizer=True)
  assert changed.keys() == found.keys()
  assert changed != found


def refused(path, *fragments):
  with bad.refused(path.name, *fragments):
    models.load(path)


@pytest.mark.parametrize(
  ("changes", "fragment"),
  [
    ({"general__type": "adapter"}, "general.type='adapter'"),
    ({"split__count": 3}, "join them first"),
    ({"llama__expert_count": 8}, "llama.expert_count=8"),
    ({"llama__attention__scale": 0.5}, "llama.attention.scale=0.5"),
    ({"llama__rope__scaling__type": "yarn"}, "'yarn'"),
    ({"llama__rope__dimension_count": 4}, "rope.dimension_count=4"),
    ({"llama__vocab_size": 47}, "wrong shape"),
  ],
)
def test_what_is_not_known_is_refused_by_name(tmp_path, changes, fragment):
  model = checkpoints.ours(checkpoints.tiny())
  path = gguf_files.save(tmp_path / "x.gguf", model, **changes)
  refused(path, fragment)


@pytest.mark.parametrize(
  ("architecture", "tensor", "fragment"),
  [
    ("llama", "blk.0.attn_q.bias", "unknown: model.layers.0.self_attn.q_proj"),
    ("llama", "rope_freqs.weight", "rope_freqs.weight"),
    ("mamba", "x.weight", "general.architecture='mamba'"),
  ],
)
def test_tensors_that_are_not_known(tmp_path, architecture, tensor, fragment):
  values = gguf_files.metadata(checkpoints.tiny())
  parts = {tensor: np.arange(1, 5, dtype=np.float32)}
  refused(
    gguf_files.write(tmp_path / "x.gguf", architecture, values, parts), fragment
  )


def test_a_truncated_file_is_one_line(tmp_path):
  config = checkpoints.tiny(hidden_size=8, intermediate_size=8, head_dim=2)
  path = gguf_files.save(tmp_path / "x.gguf", checkpoints.ours(config))
  whole = path.read_bytes()
  for size in (*range(0, len(whole) - 64, 997), len(whole) - 64):
    path.write_bytes(whole[:size])
    refused(path, "truncated")


def test_a_tensor_at_another_offset_is_refused(tmp_path):
  """It would be read as other weights."""
  config = checkpoints.tiny(hidden_size=8, intermediate_size=8, head_dim=2)
  path = gguf_files.save(tmp_path / "x.gguf", checkpoints.ours(config))
  data, name = bytearray(path.read_bytes()), b"blk.1.ffn_up.weight"
  offset = data.index(name) + len(name) + 4 + 2 * 8 + 4  # after axes and type
  data[offset : offset + 8] = (64).to_bytes(8, "little")
  path.write_bytes(data)
  refused(path, "blk.1.ffn_up.weight begins at", "the tensor before it ends")


def test_a_file_beside_safetensors_is_not_in_their_way(tmp_path):
  model = checkpoints.ours(CONFIG)
  gguf_files.save(tmp_path / "x.gguf", model)
  models.save(tmp_path, model)
  loaded = models.load(tmp_path)
  jax.tree.map(np.testing.assert_array_equal, loaded.params, model.params)


def test_what_is_no_file_is_refused(tmp_path):
  path = tmp_path / "x.gguf"
  path.write_bytes(b"version https://git-lfs.github.com/spec/v1\nsize 12\n")
  refused(path, "GGUF magic invalid")
  with pytest.raises(ValueError, match="no revision 'x'"):
    models.load(path, revision="x")
  shutil.copy(BUNDLED / "target/config.json", tmp_path)
  with bad.refused("x.gguf", "given by their own path"):
    models.load(tmp_path)


# Tokenizers: the same tokens as the families' published tokenizers.

# As the families publish their own tokenizer.json.
_LLAMA3 = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
  r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
_PLAIN = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
PUBLISHED = {
  "gpt-2": [_LEVEL],
  "smollm": [pre_tokenizers.Digits(individual_digits=True), _LEVEL],
  "llama-bpe": [
    pre_tokenizers.Split(hf.Regex(_LLAMA3), "isolated"),
    _PLAIN,
  ],
  "qwen2": [
    pre_tokenizers.Split(hf.Regex(_LLAMA3.replace("{1,3}", "")), "isolated"),
    _PLAIN,
  ],
}


@pytest.mark.parametrize("pre", [*PUBLISHED, "default"])
def test_merged_bytes_are_as_published(tmp_path, pre):
  whole = hf.Tokenizer(hf.models.BPE())
  steps = PUBLISHED.get(pre, [_PLAIN])
  whole.pre_tokenizer = pre_tokenizers.Sequence(steps)
  if pre == "qwen2":
    whole.normalizer = normalizers.NFC()
  whole.decoder = decoders.ByteLevel()
  trainer = hf.trainers.BpeTrainer(
    vocab_size=420,
    special_tokens=["<s>", "<|end|>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
  )
  whole.train_from_iterator([*TEXTS, "2026 2026 3.14 314 314"] * 4, trainer)
  values = gguf_files.of_tokenizer(
    json.loads(whole.to_str()), pre=pre, bos_token_id=0, eos_token_id=1
  )
  path = gguf_files.write(tmp_path / "x.gguf", "llama", values, {})
  ours = Checkpoint.open(path).tokenizer
  begun = [0] if pre == "llama-bpe" else []
  for text in TEXTS:
    ids = ours(text).input_ids
    if pre in PUBLISHED:
      assert ids == begun + whole.encode(text).ids
    assert ours.decode(ids, skip_special_tokens=True) == (
      whole.normalizer.normalize_str(text) if pre == "qwen2" else text
    )
  assert ours("a<|end|>b", add_special_tokens=False).input_ids[1] == 1
  assert ours.all_special_ids == [0, 1]


def test_pieces_are_sentencepieces(tmp_path):
  corpus = tmp_path / "corpus.txt"
  corpus.write_text("\n".join(x.replace("\n", " ") for x in TEXTS) * 20)
  sentencepiece.SentencePieceTrainer.train(
    input=str(corpus),
    model_prefix=str(tmp_path / "m"),
    model_type="bpe",
    vocab_size=400,
    byte_fallback=True,
    character_coverage=0.98,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    split_digits=True,
    allow_whitespace_only_pieces=True,
    minloglevel=2,
  )
  pieces = sentencepiece.SentencePieceProcessor(str(tmp_path / "m.model"))
  count = pieces.vocab_size()
  types = [
    2 * pieces.is_unknown(i)
    or 3 * pieces.is_control(i)
    or 6 * pieces.is_byte(i)
    or 1
    for i in range(count)
  ]
  values = {
    "model": "llama",
    "pre": "default",
    "tokens": [pieces.id_to_piece(i) for i in range(count)],
    "scores": [pieces.get_score(i) for i in range(count)],
    "token_type": types,
    "bos_token_id": pieces.bos_id(),
    "eos_token_id": pieces.eos_id(),
    "unknown_token_id": pieces.unk_id(),
  }
  values = {f"tokenizer.ggml.{name}": value for name, value in values.items()}
  path = gguf_files.write(tmp_path / "x.gguf", "llama", values, {})
  ours = Checkpoint.open(path).tokenizer
  for text in TEXTS[1:]:
    ids = ours(text).input_ids
    assert ids == [pieces.bos_id(), *pieces.encode(text)]
    assert ours.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize(
  ("changes", "fragment"),
  [
    ({"model": "bert"}, "tokenizer.ggml.model='bert'"),
    ({"pre": "tekken"}, "tokenizer.ggml.pre='tekken'"),
    ({"tokens": ["a", "b", "a", "d"]}, "has a text twice"),
    ({"model": "none"}, "holds no tokenizer"),
  ],
)
def test_a_tokenizer_that_is_not_known_is_refused(tmp_path, changes, fragment):
  values = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": ["a", "b", "ab", "d"],
    "token_type": [1, 1, 1, 1],
    "merges": ["a b"],
  } | changes
  values = {
    f"tokenizer.ggml.{name}": value
    for name, value in values.items()
    if value is not None
  }
  path = gguf_files.write(tmp_path / "x.gguf", "llama", values, {})
  with bad.refused("x.gguf", fragment):
    _ = Checkpoint.open(path).tokenizer
