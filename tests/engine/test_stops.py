"""Texts that end an answer, and answers as text while they come."""

import functools
import types

import pytest
import tokenizers
import transformers

import tv_jax
from tests.lib import quick
from tests.lib.decoding import ASKED, bundled
from tv_jax.chat import Speech
from tv_jax.engine.results import stop_after


@functools.cache
def answers(kind="independent", **changes):
  """Answers that go on behind their end token."""
  return generate(kind, **changes)


def generate(kind="independent", **changes):
  options = {"template": "chat", "tree": "chain:3", "max_new_tokens": 40}
  options |= {"batch_size": 2, "ends": ()}  # of three: the last is alone
  return tv_jax.generate(bundled(kind), ASKED, **options | changes)


def fewest(tokens, stop):
  """How many tokens it takes to write one of the texts, or all of them."""
  decode = bundled().tokenizer.decode
  texts = (decode(tokens[:n]) for n in range(1, len(tokens) + 1))
  found = (n for n, t in enumerate(texts, 1) if any(one in t for one in stop))
  return next(found, len(tokens))


@pytest.mark.parametrize(
  "changes",
  quick.shorter([{}, {"kind": "eagle"}]),
  ids=str,
)
def test_an_answer_ends_with_the_first_of_the_texts(changes):
  free = answers(**changes)
  # From inside a token to inside another; twice in the third answer.
  stop = [free.text[0][12:21], free.text[2][5:12], free.text[2][3:7], "qqqq"]
  assert [len(bundled().tokenizer(one).input_ids) > 2 for one in stop][:2]
  held = generate(**changes, stop=stop)
  for own, all_of_it in zip(held.text, free.text, strict=True):
    at = [all_of_it.index(one) for one in stop if one in all_of_it]
    assert own == all_of_it[: min(at)] if at else all_of_it
  for own, whole in zip(held.tokens, free.tokens, strict=True):
    assert own == whole[: fewest(whole, stop)]
  for own, whole in zip(held.gained, free.gained, strict=True):
    assert own.tolist() == whole.tolist()  # counted before the cut
  assert len(held.tokens[0]) < len(free.tokens[0])


def test_a_single_text_and_a_special_token_by_its_name():
  assert generate(stop=" ").text == [t.split(" ")[0] for t in answers().text]
  free = answers()
  held = generate(stop=["<|end|>"])
  end = bundled().tokenizer.convert_tokens_to_ids("<|end|>")
  assert any(end in own for own in free.tokens)
  for own, whole in zip(held.tokens, free.tokens, strict=True):
    assert own == whole[: whole.index(end) + 1 if end in whole else None]


@pytest.fixture(scope="module")
def pieces():
  """A tokenizer as Llama 2's is: words begin with a bar, bytes are named."""
  names = ["<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
  names += [*"abcn\u2581", "\u2581a", "ab", "\u2581ab", "nn", "\u2581nan"]
  vocabulary = {name: i for i, name in enumerate(names)}
  model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "<s>"))
  model.decoder = tokenizers.decoders.Sequence(
    [
      tokenizers.decoders.Replace("\u2581", " "),
      tokenizers.decoders.ByteFallback(),
      tokenizers.decoders.Fuse(),
    ]
  )
  return transformers.PreTrainedTokenizerFast(
    tokenizer_object=model, bos_token="<s>"
  )


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
def test_speech_token_by_token_is_the_text(kind, pieces):
  tokenizer = bundled().tokenizer if kind == "bytes" else pieces
  begin = tokenizer.all_special_ids[:1]
  tokens = tokenizer.convert_tokens_to_ids(["\u2581ab", "nn"]) + begin
  if kind == "bytes":
    tokens = tokenizer(" abnn", add_special_tokens=False).input_ids + begin
  for letter in "\u00e9\u20ac\U0001f98a":
    if kind == "bytes":
      tokens += tokenizer(letter, add_special_tokens=False).input_ids
    else:
      tokens += [1 + byte for byte in letter.encode()]
  speech = Speech(tokenizer)
  said = [speech.say([token]) for token in tokens]
  assert "".join(said) == speech.text == " abnn\u00e9\u20ac\U0001f98a"
  assert said.count("") >= 1 + 1 + 2 + 3  # a special token, parts of letters
  assert speech.say(end=True) == ""
  # Half of a letter is told when no more can come.
  speech = Speech(tokenizer)
  assert speech.say(tokens[-2:-1]) == ""
  assert speech.say(end=True) == "\ufffd"


def test_the_unknown_token_completes_no_stop_string(pieces):
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=pieces.backend_tokenizer, unk_token="<s>"
  )
  unknown, pair = tokenizer.unk_token_id, types.SimpleNamespace()
  pair.tokenizer = tokenizer
  assert tokenizer.convert_tokens_to_ids("User:") == unknown
  assert stop_after(pair, [unknown], ["User:"]) is None
  assert stop_after(pair, [unknown], ["<s>"]) == 1
