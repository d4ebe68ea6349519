"""Ways of drafting: one class and one line of `KINDS` each."""

import jax
import pytest

import tv_jax
from configs import quickstart
from tests import checkpoints
from tv_jax import drafting, models, runs
from tv_jax.models import sharding

PROMPTS = [[5], [1, 2, 3]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """A target, a draft and a head on disk."""
  folder = tmp_path_factory.mktemp("pair")
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=True))
  models.save(folder / "target", target)
  draft = checkpoints.ours(checkpoints.tiny(num_hidden_layers=1), seed=1)
  models.save(folder / "independent", draft)
  models.save(folder / "eagle", checkpoints.ours_head(target))
  models.save(folder / "eagle3", checkpoints.ours_eagle3(target))
  models.save(folder / "dspark", checkpoints.ours_dspark(target, "gated"))
  return folder


@pytest.mark.parametrize("kind", drafting.KINDS)
@pytest.mark.parametrize("split", [False, True])
def test_what_is_split(saved, kind, split):
  mesh = sharding.mesh(jax.devices()[:2])
  pair = tv_jax.load(
    saved / kind,
    saved / "target",
    draft_kind=kind,
    mesh=mesh,
    shard_draft=split,
  )
  assert (pair.draft.mesh is mesh) is (split or kind != "independent")
  for leaf in jax.tree.leaves(pair.draft.params):
    assert leaf.sharding.device_set == {*mesh.devices.flat}


def test_a_third_way_is_one_line(saved, monkeypatch):
  """The target drafts for itself, from the same weights."""

  class Itself(drafting.Independent):
    @staticmethod
    def load(kind, path, target, **options):
      return target

  monkeypatch.setitem(drafting.KINDS, "itself", Itself)
  raw = quickstart.get_config().to_dict()
  raw["models"]["draft_kind"] = "itself"
  runs.from_config(raw)
  pair = tv_jax.load("", saved / "target", draft_kind="itself")
  result = tv_jax.generate(
    pair,
    PROMPTS,
    tree="chain:2",
    verifier="token_level",
    proposal="top_k",
    temperature=0,
    max_new_tokens=9,
    ends=(),
  )
  assert all(set(gained) == {3} for gained in result.accepted)


@pytest.mark.parametrize(
  ("draft", "kind", "words"),
  [
    (
      "independent",
      "medusa",
      "is not one of independent, eagle, eagle3, dspark",
    ),
    (None, "independent", "needs a draft"),
    ("nowhere", "independent", "neither a directory"),
    ("independent", "eagle", 'a model of its own.*draft_kind="independent"'),
    ("eagle3", "eagle", 'EAGLE-3 head.*draft_kind="eagle3"'),
    ("eagle", "eagle3", 'EAGLE-1 head.*draft_kind="eagle"'),
    ("eagle3", "independent", 'EAGLE-3 head.*draft_kind="eagle3"'),
    ("independent", "dspark", 'a model of its own.*draft_kind="independent"'),
    ("dspark", "independent", 'a DSpark draft.*draft_kind="dspark"'),
    ("dspark", "eagle3", 'a DSpark draft.*draft_kind="dspark"'),
    ("eagle3", "dspark", 'EAGLE-3 head.*draft_kind="eagle3"'),
  ],
)
def test_what_is_wrong_is_said(saved, draft, kind, words):
  with pytest.raises(ValueError, match=words):
    tv_jax.load(draft and saved / draft, saved / "target", draft_kind=kind)


def test_a_home_is_found(saved, monkeypatch):
  monkeypatch.setenv("HOME", str(saved))
  loaded = tv_jax.load("~/independent", "~/target")
  assert loaded.path == str(saved / "target")
