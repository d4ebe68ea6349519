"""Tokenizers and templates of strangers, and drafts with other tokens.

Each is refused in one line, and no code is run.
"""

import json
import shutil

import pytest

import tv_jax.engine.pair
from tests.lib import bad, checkpoints
from tv_jax import models
from tv_jax.io import reading
from tv_jax.models import templates, tokenizers

TOKENS = "tokenizer.json"
FILES = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  folder = tmp_path_factory.mktemp("whole")
  config = checkpoints.tiny(vocab_size=4096, num_hidden_layers=1)
  models.save(folder, checkpoints.ours(config))
  for name in (*FILES, "chat_template.jinja"):
    shutil.copy(reading.BUNDLED / "target" / name, folder / name)
  return folder


@pytest.fixture
def saved(whole, tmp_path):
  shutil.copytree(whole, tmp_path / "mine")
  return tmp_path / "mine"


def use(folder):
  """Loads a target, and asks it a question."""
  pair = tv_jax.engine.pair.load(folder)
  tokens = templates.encode("chat", pair.tokenizer, ["What?"])
  return pair.tokenizer.decode(tokens)


def refused(folder, *fragments):
  with bad.refused(*fragments):
    use(folder)


def change(path, **fields):
  path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_code_is_not_run(saved):
  (saved / "own.py").write_text("raise SystemExit('run')")
  code = {"AutoTokenizer": ["own.Own", None]}
  changes = {"auto_map": code, "tokenizer_class": "Own"}
  change(saved / "tokenizer_config.json", **changes)
  refused(saved, "no tokenizer could be loaded", "custom code")


@pytest.mark.parametrize("template", ["{% for %}", ""])
def test_a_template_that_fails(saved, template):
  (saved / "chat_template.jinja").write_text(template)
  refused(saved, "chat template")


# A draft and a target with different texts for the same tokens.


@pytest.fixture
def draft(whole, tmp_path):
  shutil.copytree(whole, tmp_path / "draft")
  config = {"tokenizer_class": "PreTrainedTokenizerFast"}
  (tmp_path / "draft" / FILES[1]).write_text(json.dumps(config))
  return tmp_path / "draft"


def retell(draft, edit):
  """Edits the draft's vocabulary and its list of added tokens."""
  path = draft / TOKENS
  raw = json.loads(path.read_text())
  edit(raw["model"]["vocab"], raw["added_tokens"])
  known = raw["model"]["vocab"]
  raw["model"]["merges"] = [
    (left, right)
    for left, right in raw["model"]["merges"]
    if {left, right, left + right} <= known.keys()
  ]
  path.write_text(json.dumps(raw))


def swap(vocabulary, *texts):
  first, second = texts
  ids = vocabulary[second], vocabulary[first]
  vocabulary[first], vocabulary[second] = ids


def rename(vocabulary, added, token, text):
  (entry,) = (x for x in added if x["id"] == token)
  vocabulary.pop(entry["content"])
  vocabulary[text], entry["content"] = token, text


@pytest.mark.parametrize(
  ("edit", "fragments"),
  [
    (lambda v, _: swap(v, "!", "#"), ("token 5 is '#'", "and '!' to the t")),
    (
      lambda v, a: [rename(v, a, 3, "x"), rename(v, a, 2, "<|user|>")],
      ("token 2",),
    ),
  ],
)
def test_another_text_of_a_token_is_refused(whole, draft, edit, fragments):
  retell(draft, edit)
  with bad.refused(*fragments, "draft", "target", "shares its tokenizer"):
    tv_jax.load(whole, draft)


@pytest.mark.parametrize(
  "edit",
  [
    lambda v, _: [v.pop(t) for t, i in [*v.items()] if i > 4000],
    lambda _, a: a.append(a[0] | {"id": 4096, "content": "<|new|>"}),
    lambda v, a: rename(v, a, 3, "<|human|>"),
  ],
)
def test_fewer_tokens_more_and_other_special_ones_are_no_fault(
  whole, draft, edit, caplog
):
  retell(draft, edit)
  assert tv_jax.load(whole, draft).draft is not None
  assert "may not mean the same" not in caplog.text


def test_without_the_file_the_tokenizer_is_asked_or_believed(
  whole, draft, caplog
):
  (draft / TOKENS).write_text("{}")
  tokenizers.check_tokens(*map(models.Checkpoint.open, (draft, whole)))
  assert "may not mean the same" in caplog.text
  (draft / TOKENS).unlink()
  assert tv_jax.load(whole, draft).draft is not None


@pytest.mark.parametrize(
  ("content", "words"), [(b"{", "not JSON"), (b"[]", "not a JSON obj")]
)
def test_a_file_that_is_no_json_object_is_named(tmp_path, content, words):
  path = tmp_path / "config.json"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=words) as error:
    reading.json_object(path)
  assert str(path) in str(error.value)
  path.write_bytes(b"\xef\xbb\xbf{}")  # as some editors begin a file
  assert reading.json_object(path) == {}
