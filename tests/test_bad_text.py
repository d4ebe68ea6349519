"""Tokenizers and templates of strangers, and drafts with other tokens.

Each is refused in one line, and no code is run.
"""

import json
import shutil
import sys

import pytest

import tv_jax.engine.pair
from tests import bad, checkpoints
from tv_jax import models
from tv_jax.edge import reading
from tv_jax.models import templates, tokenizers, vocabularies

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
  pair = tv_jax.engine.pair.load(None, folder, draft_kind="none")
  tokens = templates.encode("chat", pair.tokenizer, ["What?"])
  return pair.tokenizer.decode(tokens)


def refused(folder, *fragments):
  with pytest.raises(ValueError, match=r"\S") as error:
    use(folder)
  return bad.one_line(error, *fragments)


def change(path, **fields):
  path.write_text(json.dumps(json.loads(path.read_text()) | fields))


# What `bad.WAYS` do to JSON is in tests/test_models_loading.py.
@pytest.mark.parametrize("way", ["cut", "no-object", "twice", "pipe"])
@pytest.mark.parametrize("name", FILES)
def test_json_of_a_wrong_shape(saved, name, way):
  bad.spoil(saved / name, way)
  refused(saved, f"mine/{name}")


@pytest.mark.parametrize("ends", [True, -1, "2", [[2]], 4096])
def test_end_tokens_that_are_none(saved, ends):
  change(saved / "generation_config.json", eos_token_id=ends)
  refused(saved, "mine", "token")


@pytest.mark.parametrize(
  ("name", "fields"),
  [
    ("tokenizer.json", {"model": None}),
    ("tokenizer.json", {"normalizer": "x"}),
    ("tokenizer_config.json", {"tokenizer_class": 3}),
    ("tokenizer_config.json", {"added_tokens_decoder": [1]}),
  ],
)
def test_a_tokenizer_of_wrong_fields(saved, name, fields):
  change(saved / name, **fields)
  refused(saved, "mine")


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json"])
def test_code_is_neither_run_nor_asked_for(saved, monkeypatch, name):
  (saved / "own.py").write_text("import sys\nsys.own_code_ran = True\n")
  fields = {"auto_map": {"AutoTokenizer": ["own.Own", None]}}
  change(saved / name, tokenizer_class="Own", **fields)

  def ask(*_):
    raise AssertionError("nobody is to be asked")

  monkeypatch.setattr("builtins.input", ask)
  with pytest.raises(ValueError, match="code of its own") as error:
    tokenizers.load_tokenizer(saved)
  bad.one_line(error, f"mine/{name}")
  assert not hasattr(sys, "own_code_ran")


@pytest.mark.parametrize(
  ("template", "told"),
  [
    ("{% for %}", "chat template"),
    ("{{ raise_exception('no\nway') }}", "chat template"),
    ("{{ ''.__class__.__mro__ }}", "chat template"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "chat template"),
    ("", "chat template"),
  ],
)
def test_a_template_that_fails(saved, template, told):
  (saved / "chat_template.jinja").write_text(template)
  refused(saved, told)


@pytest.mark.parametrize("template", [3, {"a": 1}, ["x"], [{"name": "x"}]])
def test_a_template_that_is_no_text(saved, template):
  (saved / "chat_template.jinja").unlink()
  change(saved / "tokenizer_config.json", chat_template=template)
  refused(saved, "mine")


def test_a_template_may_write_a_text_in_its_own_way(saved):
  template = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
  (saved / "chat_template.jinja").write_text(template)
  assert "WHAT?" in use(saved).replace(" ", "")


@pytest.mark.parametrize("template", ["raw", "vicuna", "chat"])
@pytest.mark.parametrize("turns", [3, [None], ["\ud800"], [], ["a", "b"]])
def test_what_is_no_conversation(whole, template, turns):
  tokenizer = tokenizers.load_tokenizer(whole)
  with pytest.raises(ValueError, match=r"conversation|surrogate") as error:
    templates.encode(template, tokenizer, turns)
  bad.one_line(error)


# A draft whose tokens are other texts than the target's.


@pytest.fixture
def draft(whole, tmp_path):
  shutil.copytree(whole, tmp_path / "draft")
  return tmp_path / "draft"


def retell(draft, edit):
  """Edits the draft's tokens: a dict of texts, and the list of added ones."""
  path = draft / TOKENS
  raw = json.loads(path.read_text())
  edit(raw["model"]["vocab"], raw["added_tokens"])
  path.write_text(json.dumps(raw))


def swap(vocabulary, *texts):
  one, two = texts
  vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]


def name(added, token, text):
  next(one for one in added if one["id"] == token)["content"] = text


@pytest.mark.parametrize(
  ("edit", "fragments"),
  [
    (lambda v, _: swap(v, "!", "#"), ("token 5 is '#'", "and '!' to the t")),
    (
      lambda v, _: v.update({t: i + 1 for t, i in v.items() if i > 4}),
      ("token 6 is '!'", "'\"'"),
    ),
    (
      lambda _, a: [name(a, 3, "<|end|>"), name(a, 2, "<|user|>")],
      ("token 2",),
    ),
    (lambda _, a: name(a, 4, "!"), ("token 4 is '!'", "'<|assistant|>'")),
  ],
)
def test_another_text_of_a_token_is_refused(whole, draft, edit, fragments):
  retell(draft, edit)
  with pytest.raises(ValueError, match=r"\S") as error:
    tv_jax.load(draft, whole)
  bad.one_line(error, *fragments, "draft", "target", "shares its tokenizer")


@pytest.mark.parametrize(
  "edit",
  [
    lambda *_: None,  # the same, written in another way
    lambda v, _: [v.pop(t) for t, i in [*v.items()] if i > 4000],
    lambda _, a: a.append({"id": 4096, "content": "<|new|>"}),
    lambda _, a: name(a, 3, "<|human|>"),
    lambda _, a: name(a, 3, "<|reserved_0|>"),
  ],
)
def test_fewer_tokens_more_and_other_special_ones_are_no_fault(
  whole, draft, edit
):
  retell(draft, edit)
  assert tv_jax.load(draft, whole).draft is not None


@pytest.mark.parametrize("vocabulary", [None, 3, [3], {"a": "x"}])
def test_what_holds_no_tokens_is_named(whole, draft, vocabulary):
  path = draft / TOKENS
  path.write_text(json.dumps({"model": {"vocab": vocabulary}}))
  with pytest.raises(ValueError, match=r"\S") as error:
    tv_jax.load(draft, whole)
  bad.one_line(error, "draft/tokenizer.json holds no tokens")


def test_scored_tokens_are_read_too(whole, draft):
  path = draft / TOKENS
  raw = json.loads(path.read_text())
  texts = sorted(raw["model"]["vocab"], key=raw["model"]["vocab"].get)
  raw["model"]["vocab"] = [[text, -1.0] for text in texts]
  path.write_text(json.dumps(raw))
  vocabularies.check_tokens((draft, None), (whole, None))
  raw["model"]["vocab"][9][0] = "?!"
  path.write_text(json.dumps(raw))
  with pytest.raises(ValueError, match="token 9 is '\\?!'"):
    vocabularies.check_tokens((draft, None), (whole, None))


def test_without_the_file_the_tokenizer_is_asked_or_believed(
  whole, draft, caplog
):
  (draft / TOKENS).rename(draft / "vocab.json")
  vocabularies.check_tokens((draft, None), (whole, None))
  assert "may not mean the same" in caplog.text
  (draft / "vocab.json").unlink()
  assert tv_jax.load(draft, whole).draft is not None


def test_of_a_repository_the_files_that_were_had_are_read(
  whole, draft, tmp_path, monkeypatch
):
  from huggingface_hub import constants

  monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
  retell(draft, lambda vocabulary, _: swap(vocabulary, "!", "#"))
  folder = tmp_path / "models--some--draft"
  shutil.copytree(draft, folder / "snapshots" / "abc")
  (folder / "refs").mkdir()
  (folder / "refs" / "main").write_text("abc")
  with pytest.raises(ValueError, match="token 5 is '#' to the draft some/dra"):
    vocabularies.check_tokens(("some/draft", None), (whole, None))
