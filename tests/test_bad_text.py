"""Tokenizers and templates of strangers: one line, and no code is run."""

import json
import shutil
import sys

import pytest

import tv_jax.engine.pair
from tests import bad, checkpoints
from tv_jax import models
from tv_jax.edge import reading
from tv_jax.models import templates, tokenizers

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


@pytest.mark.parametrize("way", bad.WAYS)
@pytest.mark.parametrize("name", FILES)
def test_json_of_a_wrong_shape(saved, name, way):
  bad.spoil(saved / name, way)
  refused(saved, f"mine/{name}")


@pytest.mark.parametrize("ends", [True, -1, 1.5, "2", {}, [[2]], [2, -1], 4096])
def test_end_tokens_that_are_none(saved, ends):
  change(saved / "generation_config.json", eos_token_id=ends)
  refused(saved, "mine", "token")


@pytest.mark.parametrize(
  ("name", "fields"),
  [
    ("tokenizer.json", {"model": None}),
    ("tokenizer.json", {"added_tokens": 3}),
    ("tokenizer.json", {"normalizer": "x"}),
    ("tokenizer_config.json", {"tokenizer_class": 3}),
    ("tokenizer_config.json", {"bos_token": [1]}),
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
    ("{{ a.b.c }}", "chat template"),
    ("{{ messages[5].role }}", "chat template"),
    ("{{ 1 | no_such_filter }}", "chat template"),
    ("{% include 'x' %}", "chat template"),
    ("{{ ''.__class__.__mro__ }}", "chat template"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "chat template"),
    ("", "chat template"),
    ("your password is a word", "leaves out what the user says"),
    (
      "{% for m in mesages %}{{ m.content }}{% endfor %}<|assistant|>",
      "chat template",
    ),
    (
      "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3,
      "it was stopped after 0.3 seconds",
    ),
  ],
)
def test_a_template_that_fails(saved, monkeypatch, template, told):
  (saved / "chat_template.jinja").write_text(template)
  before = sys.gettrace()
  if "stopped" in told:
    monkeypatch.setattr(templates, "PATIENCE", 0.3)
  refused(saved, told)
  assert sys.gettrace() is before


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
@pytest.mark.parametrize(
  "turns", [None, 3, [3], [None], ["\ud800"], [], ["a", "b"]]
)
def test_what_is_no_conversation(whole, template, turns):
  tokenizer = tokenizers.load_tokenizer(whole)
  with pytest.raises(ValueError, match=r"conversation|surrogate") as error:
    templates.encode(template, tokenizer, turns)
  bad.one_line(error)
