"""Prompts: templates and end tokens."""

import json

import pytest

from tests.lib import published
from tv_jax.models import templates
from tv_jax.models import tokenizers as tokenizers_lib
from tv_jax.models.checkpoint import Checkpoint

TURNS = ["hi there", "hello", "bye"]
BEGIN, END = "<|begin_of_text|>", "<|eot_id|>"


@pytest.fixture
def tokenizer(tmp_path):
  """A tokenizer that begins each text with a token."""
  published.tokenizer(tmp_path, ["hi there, hello, bye"])
  return Checkpoint.open(tmp_path).tokenizer


def said(role, text=""):
  return f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}"


@pytest.mark.parametrize(
  ("template", "turns", "text"),
  [
    ("raw", ["hi there"], f"{BEGIN}hi there"),
    (
      "vicuna",
      TURNS,
      f"{BEGIN}{templates.VICUNA_SYSTEM} USER: hi there ASSISTANT: hello</s>"
      "USER: bye ASSISTANT:",
    ),
    # The same on every day, and begun once.
    (
      "chat",
      TURNS,
      f"{BEGIN}{said('system', 'Today Date: 26 Jul 2024')}\n\n{END}"
      f"{said('user', 'hi there')}{END}{said('assistant', 'hello')}{END}"
      f"{said('user', 'bye')}{END}{said('assistant')}",
    ),
  ],
)
def test_templates(tokenizer, template, turns, text):
  assert tokenizer.decode(templates.encode(template, tokenizer, turns)) == text


@pytest.mark.parametrize(
  "message",
  [
    {"role": "user", "contents": "bye"},
    {"role": "user", "content": [{"type": "text", "text": "bye"}]},
    "bye",
  ],
)
def test_a_malformed_message_is_refused(tokenizer, message):
  messages = [{"role": "user", "content": "hi there"}, message]
  with pytest.raises(ValueError, match="two texts, not"):
    templates.encode_messages(tokenizer, messages, "chat")


def test_a_template_that_can_think_is_told_not_to(tokenizer):
  messages = [{"role": "user", "content": "bye"}]
  for encode in (
    lambda name: templates.encode(name, tokenizer, TURNS),
    lambda name: templates.encode_messages(tokenizer, messages, name),
  ):
    names = "chat", "without_thinking"
    plain, quiet = (tokenizer.decode(encode(name)) for name in names)
    assert quiet == f"{plain}<think>\n\n</think>\n\n"
  before, *_ = tokenizer.chat_template.partition("{%- if enable_thinking")
  tokenizer.chat_template = before
  with pytest.raises(ValueError, match=r'knows enable_thinking: give "chat"'):
    templates.encode("without_thinking", tokenizer, TURNS)


@pytest.mark.parametrize(
  ("generation", "config", "expected"),
  [
    ({"eos_token_id": [5, 6, 7]}, {"eos_token_id": 5}, (5, 6, 7)),
    (None, {"eos_token_id": [5, 6]}, (5, 6)),
  ],
)
def test_end_tokens(tmp_path, generation, config, expected):
  (tmp_path / "config.json").write_text(json.dumps(config))
  if generation is not None:
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(generation))
  assert tokenizers_lib.end_tokens(Checkpoint.open(tmp_path)) == expected
