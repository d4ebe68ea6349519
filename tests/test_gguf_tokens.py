"""Tokenizers of GGUF files: the same tokens as their families' ours."""

import json

import pytest
import sentencepiece
import tokenizers as theirs
from tokenizers import decoders, normalizers, pre_tokenizers

from tests import bad, gguf_files
from tests.gguf_files import TEXTS
from tv_jax.models import tokenizers

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
    pre_tokenizers.Split(theirs.Regex(_LLAMA3), "isolated"),
    _PLAIN,
  ],
  "qwen2": [
    pre_tokenizers.Split(
      theirs.Regex(_LLAMA3.replace("{1,3}", "")), "isolated"
    ),
    _PLAIN,
  ],
}


@pytest.mark.parametrize("pre", [*PUBLISHED, "default"])
def test_merged_bytes_are_as_published(tmp_path, pre):
  whole = theirs.Tokenizer(theirs.models.BPE())
  steps = PUBLISHED.get(pre, [_PLAIN])
  whole.pre_tokenizer = pre_tokenizers.Sequence(steps)
  if pre == "qwen2":
    whole.normalizer = normalizers.NFC()
  whole.decoder = decoders.ByteLevel()
  trainer = theirs.trainers.BpeTrainer(
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
  ours = tokenizers.load_tokenizer(path)
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
  ours = tokenizers.load_tokenizer(path)
  for text in TEXTS[1:]:
    ids = ours(text).input_ids
    assert ids == [pieces.bos_id(), *pieces.encode(text)]
    assert ours.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize(
  ("changes", "fragment"),
  [
    ({"model": "bert"}, "tokenizer.ggml.model='bert'"),
    ({"pre": "tekken"}, "tokenizer.ggml.pre='tekken'"),
    ({"pre": None}, "tokenizer.ggml.pre=None"),
    ({"tokens": ["a", "b", "a", "d"]}, "has a text twice"),
    ({"merges": None}, "merges is missing"),
    ({"merges": ["a z"]}, "`z` out of vocabulary"),
    ({"model": "llama"}, "scores is missing"),
    ({"model": "llama", "remove_extra_whitespaces": True}, "whitespaces"),
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
  with pytest.raises(ValueError, match=r"\S") as error:
    tokenizers.load_tokenizer(path)
  bad.one_line(error, "x.gguf", fragment)
