"""Drafts of kinds that read a target's layers: trained, scored, begun."""

import dataclasses
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import bad, checkpoints
from tv_jax import distill, drafting, models
from tv_jax.distill import (
  chances,
  data,
  distilling,
  drafts,
  learning,
  passes,
)
from tv_jax.drafting.drafter import Committed
from tv_jax.models import borrowed, dspark

HEADS = ("vanilla", "gated", "rnn", None)


def few(draft, target, known):
  """A draft with the rows of its tokens alone."""
  config = dataclasses.replace(draft.config, draft_vocab_size=len(known))
  own = dict(draft.params)
  if "markov" in own:
    next_ = own["markov"]["next"][:, known]
    own["markov"] = own["markov"] | {"next": next_}
  own |= borrowed.params(target, known)
  return dataclasses.replace(draft, module=dspark.DSpark(config), params=own)


def one_pass(head, known=None):
  target = checkpoints.ours(checkpoints.tiny())
  draft = checkpoints.ours_dspark(target, head)
  return target, draft if known is None else few(draft, target, known)


@pytest.mark.parametrize(
  ("head", "known"),
  [*((head, None) for head in HEADS), ("rnn", [2, 3, 11, 30, 47])],
  ids=str,
)
def test_levels_are_those_of_the_drafter_at_each_root(head, known, monkeypatch):
  monkeypatch.setattr(passes, "_ROOTS", 3)  # one pass has less than all
  known = None if known is None else np.array(known)
  target, draft = one_pass(head, known)
  config, T, D = draft.config, 12, 4
  tokens = jnp.asarray(checkpoints.tokens(1, T, 48))
  _, theirs = passes.of_target(target, config.target_layers, tokens)
  roots = jnp.array([[5, 3, 6, 4]], jnp.int32)
  own = passes.Draft("dspark", draft.module)
  found = [*own.levels(draft.params, tokens, theirs, roots, D)]
  assert own.deepest == len(found) == D
  stop = 0.0
  if config.block.confidence:  # of half of the nodes it is less sure
    sure = np.sort(np.ravel([own.sure for own in found]))
    stop = float(sure[7:9].mean())
  drafter, unsure = drafting.InOnePass(draft.module, stop), set()
  for w, t in enumerate(roots[0].tolist()):
    cache = drafter.prefill(
      draft.params,
      tokens[:, : t - 1],
      tokens[:, 1:t],
      theirs[:, : t - 1],
      draft.init_cache(1, T + D),
    )
    cache = dataclasses.replace(cache, length=jnp.array([t - 1], jnp.int32))
    logits, state, cache = drafter.begin(
      draft.params,
      Committed(
        tokens=tokens[:, t - 1 : t + 1],
        features=theirs[:, t - 1 : t],
        gain=jnp.array([1], jnp.int32),
      ),
      jnp.array([t + 1], jnp.int32),
      cache,
    )
    for level in range(D):
      if level:
        logits, state, cache = drafter.extend(
          draft.params,
          tokens[:, t + level][:, None],
          state,
          jnp.array([[t + level]], jnp.int32),
          None,
          cache,
        )
      law = chances.Known.of(draft.params, config).law(logits[0, 0])
      np.testing.assert_allclose(found[level].logits[0, w], law, atol=1e-4)
      if stop:
        own = bool(found[level].sure[0, w] < stop)
        given = drafter.confidence(state)[0, 0]
        np.testing.assert_allclose(given, found[level].sure[0, w], atol=1e-4)
        assert own == (given < stop)
        unsure.add(own)
      if known is not None:
        others = np.setdiff1d(np.arange(48), known)
        assert (np.asarray(logits[0, 0])[others] == -np.inf).all()
  assert not stop or unsure == {True, False}


@pytest.mark.parametrize(
  ("kind", "family"),
  [
    ("eagle3", "qwen3"),
    pytest.param("dspark", "qwen2", marks=pytest.mark.long),
    pytest.param("dspark", "qwen3", marks=pytest.mark.long),
  ],
)
def test_drafts_of_all_tokens_for_other_families(kind, family, tmp_path):
  target = checkpoints.ours(checkpoints.tiny(model_type=family))
  made = drafts.make(kind, target, jax.random.key(0), (1,), None, rank=4)
  models.save(tmp_path / "target", target)
  drafts.save(tmp_path / "draft", made)
  pair = tv_jax.load(tmp_path / "draft", tmp_path / "target", draft_kind=kind)
  how = {"temperature": 0, "max_new_tokens": 8, "ends": ()}
  plain = tv_jax.generate(pair, [[1, 2, 3]], verifier=None, **how)
  found = tv_jax.generate(pair, [[1, 2, 3]], tree="chain:3", **how)
  assert found.tokens == plain.tokens


def test_a_draft_learns_to_be_as_sure_as_it_is_right():
  slope = jax.grad(lambda sure: learning._unsure(sure, jnp.asarray(0.7)))
  for sure, sign in ((0.3, -1), (0.7, 0), (0.9, 1)):
    found = float(slope(jnp.asarray(sure)))
    assert np.sign(round(found, 4)) == sign


def test_a_run_is_as_long_as_its_score():
  """Of a draft that knows few tokens, with a head that remembers."""
  target, draft = one_pass("rnn", np.arange(40))
  pair = tv_jax.engine.pair.Pair(
    target=target, draft=draft, draft_kind="dspark"
  )
  prompts = [[i, i + 1] for i in range(32)]
  run = tv_jax.generate(
    pair,
    prompts,
    tree="chain:4",
    verifier="traversal",
    max_new_tokens=64,
    batch_size=32,
    ends=(),
  )
  text = [
    distill.Conversation(prompt=tuple(prompt), answer=tuple(map(int, answer)))
    for prompt, answer in zip(prompts, run.tokens, strict=True)
  ]
  scores = distill.score(pair, text, depth=4)
  expected = scores.cycles["traversal"][-1]
  off = np.array([len(own) for own in run.accepted]) - expected
  assert abs(off.mean()) < 4 * off.std() / 32**0.5
  assert expected.sum() < 0.9 * scores.tokens
  with pytest.raises(ValueError, match=r"\S") as error:
    distill.score(pair, text, depth=5)
  bad.one_line(error, "depth=5: random drafts 4 levels at most")


WRITING = distill.Writing(
  conversations=24, question_tokens=12, answer_tokens=24
)
HOW = {
  "dspark": distill.Training(kind="dspark", depth=3, rank=8, roots=8),
  "eagle3": distill.Training(kind="eagle3", depth=2),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  """A target, and a folder with what it wrote and an EAGLE head read."""
  folder = tmp_path_factory.mktemp("written")
  target = tv_jax.load(None, "bundled/target", draft_kind="none")
  text = data.usable(distill.write(target, folder, WRITING))
  data.read(target.target, text, folder, 1.0)
  return target, folder


@pytest.mark.parametrize("kind", HOW)
def test_training_makes_it_longer_and_a_kill_changes_nothing(
  written, kind, tmp_path, monkeypatch
):
  monkeypatch.setattr(distilling, "SAVE", 10)
  target, text = written
  shutil.copytree(text, tmp_path / "data")
  kept = (text / data.FEATURES).read_bytes()
  how = dataclasses.replace(
    HOW[kind], vocabulary=512, rows=4, held_out=8, steps=30
  )

  def make(name, how=how, stop=None):
    def say(now, done, *_):
      if (now, done) == stop:
        raise KeyboardInterrupt

    return distill.distill(
      target,
      tmp_path / name,
      how,
      data_folder=tmp_path / "data",
      writing=WRITING,
      say=say,
    )

  for stop in (("reading it", 16), ("training", 15)):
    with pytest.raises(KeyboardInterrupt):
      make("broken", stop=stop)
  after = make("broken")
  made = tv_jax.load(tmp_path / "broken", "bundled/target", draft_kind=kind)
  layers = made.draft.config.target_layers
  stored = [tmp_path / "data" / f"layer_{layer}.bin" for layer in layers]
  assert (tmp_path / "data" / data.FEATURES).read_bytes() == kept
  once = [path.read_bytes() for path in stored]
  assert {*map(len, once)} == {len(kept)}
  # Layers that another draft has read are not read again.
  stored[1].unlink()
  asked = []
  of_target = passes.of_target

  def watched(target, layers, tokens):
    asked.append(tuple(layers))
    return of_target(target, layers, tokens)

  monkeypatch.setattr(passes, "of_target", watched)
  again = make("whole")
  assert {*asked} == {(layers[1],)}
  assert [path.read_bytes() for path in stored] == once
  files = [tmp_path / x / "model.safetensors" for x in ("whole", "broken")]
  assert files[0].read_bytes() == files[1].read_bytes()
  assert repr(after) == repr(again)
  before = make("short", dataclasses.replace(how, steps=1))
  gain = after.over(before, "traversal")[-1]
  assert gain.mean > 3 * gain.error > 0
  # Written in half precision.
  own = distill.score(
    made, distill.read(tmp_path / "data")[:8], depth=how.depth
  )
  depth = min(how.depth, len(after.lengths["traversal"])) - 1
  np.testing.assert_allclose(
    own.lengths["traversal"][depth].mean,
    after.lengths["traversal"][depth].mean,
    atol=0.02,
  )


def test_roots_are_drawn_from_an_answer_once_each():
  """Four of at most six; the second answer has three, which come first."""
  first, end = np.array([2, 5], np.int32), np.array([8, 8], np.int32)
  rows = data.Rows(np.zeros((2, 16), np.int32), first, end)
  drawn = np.stack(
    [learning._roots(4, 6, rows, jax.random.key(i)) for i in range(64)]
  )
  assert {len({*row}) for row in drawn.reshape(-1, 4)} == {4}
  assert {*drawn[:, 0].ravel()} == {*range(2, 8)}
  assert {*drawn[:, 1, :3].ravel()} == {5, 6, 7}
  every = learning._roots(6, 6, rows, jax.random.key(0))
  np.testing.assert_array_equal(every, first[:, None] + np.arange(6))
