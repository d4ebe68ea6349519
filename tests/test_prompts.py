import json

import pytest
import tokenizers
import transformers

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


def test_messages_may_begin_with_the_systems(tokenizer, directory):
  said = [
    {"role": "system", "content": "hello"},
    {"role": "user", "content": "bye"},
  ]
  text = tokenizer.decode(templates.encode_messages(tokenizer, said))
  assert text == "<s>26 Jul 2024<system>hello<user>bye<assistant>"
  deaf = tokenizers_lib.load_tokenizer(directory)
  deaf.chat_template = "{{ messages[-1].content }}"
  with pytest.raises(ValueError, match="leaves out what the system says"):
    templates.encode_messages(deaf, said)


@pytest.mark.parametrize(
  ("generation", "config", "expected"),
  [
    ({"eos_token_id": [5, 6, 7]}, {"eos_token_id": 5}, (5, 6, 7)),
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
