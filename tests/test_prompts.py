import json
import subprocess
import sys

import pytest
import tokenizers
import transformers

from tests.stores import ROOT
from tv_jax.models import templates
from tv_jax.models import tokenizers as tokenizers_lib

TURNS = ["hi there", "hello", "bye"]
TEMPLATE = (
  "{{ bos_token }}{{ date_string }}{% for m in messages %}"
  "<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
  "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
  """A tokenizer of characters that begins each text with <s>."""
  vocabulary = {"<s>": 0, "</s>": 1}
  for code in (10, *range(32, 127)):
    vocabulary[chr(code)] = len(vocabulary)
  model = tokenizers.Tokenizer(
    tokenizers.models.WordLevel(vocabulary, unk_token="<s>")
  )
  model.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
  model.decoder = tokenizers.decoders.Fuse()
  model.post_processor = tokenizers.processors.TemplateProcessing(
    single="<s> $A", special_tokens=[("<s>", 0)]
  )
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=model,
    bos_token="<s>",
    eos_token="</s>",
    chat_template=TEMPLATE,
  )
  path = tmp_path_factory.mktemp("tokenizer")
  tokenizer.save_pretrained(path)
  return path


@pytest.fixture(scope="module")
def tokenizer(directory):
  return tokenizers_lib.load_tokenizer(directory)


@pytest.mark.parametrize(
  ("template", "turns", "text"),
  [
    ("raw", ["hi there"], "<s>hi there"),
    (
      "vicuna",
      TURNS,
      f"<s>{templates.VICUNA_SYSTEM} USER: hi there ASSISTANT: hello</s>"
      "USER: bye ASSISTANT:",
    ),
    # The same on every day, and begun once.
    (
      "chat",
      TURNS,
      "<s>26 Jul 2024<user>hi there<assistant>hello<user>bye<assistant>",
    ),
  ],
)
def test_templates(tokenizer, template, turns, text):
  assert tokenizer.decode(templates.encode(template, tokenizer, turns)) == text


def test_messages_are_turns_and_may_begin_with_the_systems(tokenizer):
  roles = ("user", "assistant", "user")
  said = [{"role": r, "content": t} for r, t in zip(roles, TURNS, strict=True)]
  assert templates.encode_messages(tokenizer, said) == templates.encode(
    "chat", tokenizer, TURNS
  )
  said = [{"role": "system", "content": "hello"}, *said]
  assert tokenizer.decode(templates.encode_messages(tokenizer, said)) == (
    "<s>26 Jul 2024<system>hello"
    "<user>hi there<assistant>hello<user>bye<assistant>"
  )


def test_a_template_that_drops_the_systems_message_is_refused(directory):
  deaf = tokenizers_lib.load_tokenizer(directory)
  deaf.chat_template = "{{ messages[-1].content }}"
  said = [
    {"role": "system", "content": "hello"},
    {"role": "user", "content": "bye"},
  ]
  with pytest.raises(ValueError, match="leaves out what the system says"):
    templates.encode_messages(deaf, said)


@pytest.mark.parametrize(
  "said",
  [
    [{"role": "user"}],
    [{"role": "user", "content": [{"type": "text", "text": "bye"}]}],
    [{"role": "user", "content": "bye"}, "bye"],
    [{"role": "user", "content": "\ud800"}],
    [{"role": "assistant", "content": "bye"}],
  ],
)
def test_what_is_no_message(tokenizer, said):
  with pytest.raises(ValueError, match=r"message|surrogate") as error:
    templates.encode_messages(tokenizer, said)
  assert "\n" not in str(error.value)


def test_what_no_template_serves(tokenizer, directory):
  plain = tokenizers_lib.load_tokenizer(directory)
  plain.chat_template = None
  for template, of, turns, told in (
    ("chat", plain, TURNS, "no chat template: use one of raw, vi"),
    ("alpaca", tokenizer, TURNS, "'alpaca' is not one of raw, vicuna"),
    ("vicuna", tokenizer, TURNS[:2], "2 turns does not end with the user"),
  ):
    with pytest.raises(ValueError, match=told):
      templates.encode(template, of, turns)


def test_no_tokenizer(tmp_path):
  with pytest.raises(ValueError, match=f"no tokenizer .* {tmp_path}"):
    tokenizers_lib.load_tokenizer(tmp_path)


# Without PyTorch even where it is installed.
WITHOUT_TORCH = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: (
  None if name == "torch" else find(name, *rest)
)
from tv_jax.edge import reading
from tv_jax.models import tokenizers
tokenizers.load_tokenizer(reading.BUNDLED / "target")
import transformers
assert not transformers.is_torch_available()
transformers.utils.logging.get_logger("transformers").warning("a real one")
"""


def test_that_pytorch_is_missing_is_told_to_nobody():
  done = subprocess.run(
    [sys.executable, "-c", WITHOUT_TORCH],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  assert (done.returncode, done.stdout) == (0, "")
  assert done.stderr == "[transformers] a real one\n"


@pytest.mark.parametrize(
  ("generation", "config", "expected"),
  [
    ({"eos_token_id": [5, 6, 7]}, {"eos_token_id": 5}, (5, 6, 7)),
    ({"eos_token_id": 4}, {"eos_token_id": 5}, (4,)),
    (None, {"eos_token_id": 5}, (5,)),
    ({}, {"eos_token_id": [5, 6]}, (5, 6)),
    (None, {}, None),
  ],
)
def test_end_tokens(tmp_path, generation, config, expected):
  (tmp_path / "config.json").write_text(json.dumps(config))
  if generation is not None:
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(generation))
  if expected is None:
    with pytest.raises(ValueError, match="names no eos_token_id"):
      tokenizers_lib.end_tokens(tmp_path)
  else:
    assert tokenizers_lib.end_tokens(tmp_path) == expected
