"""A draft whose tokens are other texts than the target's is refused."""

import json
import shutil

import pytest

import tv_jax
from tests import bad, checkpoints
from tv_jax import models
from tv_jax.edge import reading
from tv_jax.models import vocabularies

TARGET = reading.BUNDLED / "target" / "tokenizer.json"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """A target and a draft, each with the bundled tokenizer."""
  folder = tmp_path_factory.mktemp("pair")
  for name in ("target", "draft"):
    config = checkpoints.tiny(vocab_size=4096, num_hidden_layers=1)
    models.save(folder / name, checkpoints.ours(config))
    shutil.copy(TARGET, folder / name)
    shutil.copy(TARGET.with_name("tokenizer_config.json"), folder / name)
  return folder


@pytest.fixture
def draft(saved, tmp_path):
  shutil.copytree(saved / "draft", tmp_path / "draft")
  return tmp_path / "draft"


def change(draft, edit):
  """Edits the draft's tokens: a dict of texts, and the list of added ones."""
  path = draft / TARGET.name
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
    (lambda v, _: swap(v, "a", "z"), ("is 'z' to the draft", "'a'")),
    (
      lambda v, _: v.update({t: i + 1 for t, i in v.items() if i > 4}),
      ("token 6 is '!'", "'\"'"),
    ),
    (
      lambda _, a: [name(a, 3, "<|end|>"), name(a, 2, "<|user|>")],
      ("token 2",),
    ),
    (lambda _, a: name(a, 4, "!"), ("token 4 is '!'", "'<|assistant|>'")),
    (
      lambda _, a: a.append({"id": 700, "content": "<|new|>"}),
      ("token 700 is '<|new|>'",),
    ),
  ],
  ids=range(6),
)
def test_another_text_of_a_token_is_refused(saved, draft, edit, fragments):
  change(draft, edit)
  with pytest.raises(ValueError, match=r"\S") as error:
    tv_jax.load(draft, saved / "target")
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
  ids=range(5),
)
def test_fewer_tokens_more_and_other_special_ones_are_no_fault(
  saved, draft, edit
):
  change(draft, edit)
  assert tv_jax.load(draft, saved / "target").draft is not None


@pytest.mark.parametrize("vocabulary", [None, 3, [3], {"a": "x"}])
def test_what_holds_no_tokens_is_named(saved, draft, vocabulary):
  path = draft / TARGET.name
  path.write_text(json.dumps({"model": {"vocab": vocabulary}}))
  with pytest.raises(ValueError, match=r"\S") as error:
    tv_jax.load(draft, saved / "target")
  bad.one_line(error, "draft/tokenizer.json holds no tokens")


def test_scored_tokens_are_read_too(saved, draft):
  path = draft / TARGET.name
  raw = json.loads(path.read_text())
  texts = sorted(raw["model"]["vocab"], key=raw["model"]["vocab"].get)
  raw["model"]["vocab"] = [[text, -1.0] for text in texts]
  path.write_text(json.dumps(raw))
  vocabularies.check_tokens((draft, None), (saved / "target", None))
  raw["model"]["vocab"][9][0] = "?!"
  path.write_text(json.dumps(raw))
  with pytest.raises(ValueError, match="token 9 is '\\?!'"):
    vocabularies.check_tokens((draft, None), (saved / "target", None))


def test_without_the_file_the_tokenizer_is_asked_or_believed(
  saved, draft, caplog
):
  (draft / TARGET.name).rename(draft / "vocab.json")
  vocabularies.check_tokens((draft, None), (saved / "target", None))
  assert "may not mean the same" in caplog.text
  (draft / "vocab.json").unlink()
  assert tv_jax.load(draft, saved / "target").draft is not None


def test_of_a_repository_the_files_that_were_had_are_read(
  saved, draft, tmp_path, monkeypatch
):
  from huggingface_hub import constants

  monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
  change(draft, lambda vocabulary, _: swap(vocabulary, "!", "#"))
  folder = tmp_path / "models--some--draft"
  shutil.copytree(draft, folder / "snapshots" / "abc")
  (folder / "refs").mkdir()
  (folder / "refs" / "main").write_text("abc")
  with pytest.raises(ValueError, match="token 5 is '#' to the draft some/dra"):
    vocabularies.check_tokens(("some/draft", None), (saved / "target", None))
