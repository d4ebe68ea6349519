"""Drafts that are made from a target, and scores from text alone."""

import dataclasses
import functools
import itertools
import random
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.lib import checkpoints, oracle, quick
from tv_jax import distill, models, runs
from tv_jax.distill import chances, data, distilling, drafts, learning, scoring
from tv_jax.distill import text as texts
from tv_jax.distill.distilling import Training
from tv_jax.drafting import drafter_of, in_one_pass, passes
from tv_jax.drafting.drafter import Committed
from tv_jax.io import disk
from tv_jax.models import mask
from tv_jax.models.checkpoint import Checkpoint


def logs(law):
  with np.errstate(divide="ignore"):
    return np.log(np.array([float(x) for x in law], np.float32))


def after_context(law, context, tokens):
  return law((*context, *tokens))


def along(language, context, tokens):
  """Yields the two laws of each of `tokens` after a context."""
  for i in range(len(tokens)):
    before = (*context, *tokens[:i])
    yield language[0](before), language[1](before)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", chances.RULES)
def test_chances_of_a_text_are_those_of_drafting_it(rule, seed):
  """Exactly: sums over all texts give P(at least i accepted) of the oracle."""
  language = oracle.random_language(random.Random(seed), 3)
  D = 3
  parents = (oracle.NONE, *range(D))
  wanted = np.zeros(D + 1)
  for chance, draft in oracle.drafts(parents, "without_replacement", language):
    for node, stop in oracle.stop_law(draft, rule).items():
      wanted[: node + 1] += float(chance * stop)
  found, averaged = np.zeros(D + 1), np.zeros(D + 1)
  for tokens in itertools.product(range(3), repeat=D):
    prefix, share = chances.Prefix.empty(()), 1.0
    found[0] += np.prod(
      [
        float(p[x])
        for (_, p), x in zip(along(language, (), tokens), tokens, strict=True)
      ]
    )
    for i, (q, p) in enumerate(along(language, (), tokens)):
      # Continuations sum to 1: count each prefix once.
      first = not any(tokens[i + 1 :])
      log_q, log_p = logs(q), logs(p)
      if share > 0 and first and not tokens[i]:
        averaged[i + 1] += share * prefix.next_chance(rule, log_p, log_q)
      if share > 0 and p[tokens[i]] > 0:
        prefix = prefix.longer(log_p[tokens[i]], log_q[tokens[i]])
      share *= float(p[tokens[i]])
      if share > 0 and first:
        found[i + 1] += share * prefix.chance(rule)
  np.testing.assert_allclose(found, wanted, atol=1e-6)
  np.testing.assert_allclose(averaged[1:], wanted[1:], atol=1e-6)


@pytest.mark.parametrize("rule", chances.RULES)
def test_a_run_begins_its_cycles_where_visits_say(rule):
  """Exactly: over all texts, and over all cycles of a run, place by place."""
  language = oracle.random_language(random.Random(5), 2)
  D, L = 2, 5
  parents = (oracle.NONE, *range(D))
  begun = {(): 1.0}  # the chance that a cycle begins after these tokens
  wanted = np.zeros(L)
  for t in range(L):
    for context in [x for x in begun if len(x) == t]:
      reach = begun[context]
      wanted[t] += reach
      own = [functools.partial(after_context, law, context) for law in language]
      for chance, draft in oracle.drafts(parents, "without_replacement", own):
        for node, stop in oracle.stop_law(draft, rule).items():
          path = oracle.path_tokens(draft, node)
          if not stop:
            continue
          bonus = oracle.residual_at(draft, rule, node)
          for token, part in enumerate(bonus):
            after = (*context, *path, token)
            weight = reach * float(chance * stop * part)
            begun[after] = begun.get(after, 0.0) + weight
  found = np.zeros(L)
  for tokens in itertools.product(range(2), repeat=L + D):
    laws = [*along(language, (), tokens)]
    share = np.prod(
      [float(p[x]) for (_, p), x in zip(laws, tokens, strict=True)]
    )
    if not share:
      continue
    table = np.zeros((D, L))
    for t in range(L):
      prefix = chances.Prefix.empty(())
      for d in range(D):
        q, p = laws[t + d]
        token = tokens[t + d]
        prefix = prefix.longer(logs(p)[token], logs(q)[token])
        table[d, t] = prefix.chance(rule)
    found += share * scoring.visits(table)
  np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.fixture(autouse=True, scope="module")
def _kept_programs(tmp_path_factory):
  """Keeps compiled programs: each training would compile its step again."""
  runs.keep_programs(str(tmp_path_factory.mktemp("programs")))
  yield
  runs.keep_programs("")


@pytest.mark.parametrize("kind", [*drafts.RECIPES, "dflash"])
def test_levels_are_those_of_the_drafter_at_each_root(kind, monkeypatch):
  monkeypatch.setattr(in_one_pass, "_ROOTS", 3)  # one pass has less than all
  pair = checkpoints.pair(kind)
  draft, params = pair.draft, pair.draft.params
  T, D = 12, 3
  tokens = jnp.asarray(checkpoints.tokens(1, T, 48))
  layers = draft.config.target_layer_ids
  _, read = passes.target_features(pair.target, layers, tokens)
  roots = jnp.array([[5, 3, 6, 4]], jnp.int32)
  drafter = drafter_of(draft.module)
  levels = [*drafter.teacher_forced(params, tokens, read, roots, D)]
  assert len(levels) == D
  for w, t in enumerate(roots[0].tolist()):
    cache = drafter.prefill(
      params,
      tokens[:, : t - 1],
      tokens[:, 1:t],
      read[:, : t - 1],
      draft.init_cache(1, 2 * T),
    )
    committed = Committed(
      tokens=tokens[:, t - 1 : t + 1],
      features=read[:, t - 1 : t],
      gain=jnp.array([1], jnp.int32),
    )
    cache = dataclasses.replace(cache, length=jnp.array([t - 1], jnp.int32))
    logits, state, cache, block = drafter.begin(
      params, committed, jnp.array([t + 1], jnp.int32), cache
    )
    root = cache.length - 1
    for number, level in enumerate(levels):
      if number:
        logits, state, cache = drafter.extend(
          params,
          tokens[:, t + number][:, None],
          state,
          (root + number)[:, None],
          mask.causal(cache.length, 1, cache.slots),
          cache,
          block,
        )
      known = chances.Known.of(params, draft.config).columns(logits[0, 0])
      np.testing.assert_allclose(level.logits[0, w], known, atol=1e-4)
      sure = drafter.confidence(state)
      assert (sure is None) == (level.confidence is None)
      if sure is not None:
        theirs = np.asarray(sure[0, 0])
        np.testing.assert_allclose(level.confidence[0, w], theirs, atol=1e-4)


@pytest.mark.parametrize("kind", quick.shorter([*drafts.RECIPES][::-1]))
def test_a_draft_that_knows_few_tokens_is_written_and_loaded(kind, tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path / "target", target)
  known = np.array([2, 3, 11, 30, 47])
  made = drafts.make(kind, target, jax.random.key(0), known)
  if kind == "dspark":  # its Markov head would have nothing to say
    made.trained["markov"]["next"] = jax.random.normal(
      jax.random.key(1), (5, drafts.RANK)
    )
  drafts.save(tmp_path / "draft", made)
  pair = tv_jax.load(tmp_path / "target", tmp_path / "draft")
  assert pair.draft.config.draft_vocab_size == 5
  place = np.asarray(pair.draft.params["place"])
  assert [*np.flatnonzero(place < 5)] == [*known]
  result = tv_jax.record(
    pair,
    [[1, 2, 3], [7]],
    tmp_path / "run.npz",
    tv_jax.Options(
      tree="kary:2x3", panel=["token_level"], max_new_tokens=24, ends=[]
    ),
  )
  drafted = tv_jax.replay.load(tmp_path / "run.npz").tokens[:, 1:]
  assert {*drafted[drafted >= 0]} <= {*known}
  assert result.faults == 0
  assert abs(result.check.mean) < 4 * result.check.error + 1e-6
  # The same law by either way.
  rows = jnp.asarray([[1, 2, 3, 4]])
  layers = pair.draft.config.target_layer_ids
  assert layers == made.module.config.target_layer_ids
  _, theirs = passes.target_features(target, layers, rows)
  root = jnp.array([[1]], jnp.int32)
  written, fresh = (
    next(
      drafter_of(x.module).teacher_forced(x.params, rows, theirs, root, 1)
    ).logits
    for x in (pair.draft, made)
  )
  np.testing.assert_allclose(written, fresh, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
  ("changes", "told"),
  [
    ({"temperature": 0.0}, "temperature=0.0: give a number of at least"),
    ({"answer": (5,), "depth": 2}, "depth=2: give 1 at most"),
    ({"depth": 0}, "depth=0: give an integer of at least"),
    ({"answer": ()}, "no conversation has an answer"),
    ({"answer": (5, 96)}, "token 96 is in the text"),
  ],
)
def test_what_cannot_be_scored_is_refused(changes, told):
  own = dict(changes)
  answer = own.pop("answer", (5, 6))
  text = [distill.Conversation(prompt=(1, 2), answer=answer)]
  with pytest.raises(ValueError, match=re.escape(told)):
    distill.score(checkpoints.pair(), text, **own)


@pytest.mark.parametrize("known", [None, [2, 3, 4, 30, 47]])
def test_the_loss_is_what_laws_say(known):
  """Token 5 of the text is one that the second draft does not know."""
  target = checkpoints.ours(checkpoints.tiny())
  text = [distill.Conversation(prompt=(1, 2, 3), answer=(4, 5, 30))]
  known = None if known is None else np.array(known)
  made = drafts.make("independent", target, jax.random.key(0), known)
  shape = data.Shape(T=8, W=3, D=2)
  rows = jax.tree.map(jnp.asarray, data.Rows.of(text, shape.T))
  features, _ = passes.target_features(target, (), rows.tokens)
  logits = passes.logits(target.params, features)
  normaliser = jax.nn.logsumexp(logits, axis=-1)
  rows = rows._replace(features=features, normaliser=normaliser, read=features)
  loss = functools.partial(
    learning.loss, made.module, shape, 0, 1.0, made.borrowed
  )
  found, slope = jax.jit(jax.value_and_grad(loss))(
    made.trained, jax.random.key(0), rows
  )
  # No NaN behind a token that the draft does not know.
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))
  roots, wanted = jnp.array([[2, 3, 4]], jnp.int32), 0.0
  levels = drafter_of(made.module).teacher_forced(
    made.params, rows.tokens, features, roots, 2
  )
  for level, said in enumerate(levels):
    law = jax.nn.softmax(logits[0, 2 + level : 5])
    law = law if known is None else law[:, known]
    log_q = jax.nn.log_softmax(said.logits[0, : 3 - level])
    wanted -= jnp.sum(law * log_q) / 3
  np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_roots_are_drawn_from_an_answer_once_each():
  """Four of at most six; the second answer has three, which come first."""
  first, end = np.array([2, 5], np.int32), np.array([8, 8], np.int32)
  rows = data.Rows(np.zeros((2, 16), np.int32), first, end)
  drawn = np.stack(
    [learning.choose_roots(4, 6, rows, jax.random.key(i)) for i in range(64)]
  )
  assert {len({*row}) for row in drawn.reshape(-1, 4)} == {4}
  assert {*drawn[:, 0].ravel()} == {*range(2, 8)}
  assert {*drawn[:, 1, :3].ravel()} == {5, 6, 7}
  every = learning.choose_roots(6, 6, rows, jax.random.key(0))
  np.testing.assert_array_equal(every, first[:, None] + np.arange(6))


def test_a_draft_learns_to_be_as_sure_as_it_is_right():
  slope = jax.grad(
    lambda sure: learning.confidence_loss(sure, jnp.asarray(0.7))
  )
  for sure, sign in ((0.3, -1), (0.7, 0), (0.9, 1)):
    assert np.sign(round(float(slope(jnp.asarray(sure))), 4)) == sign


def test_a_run_is_as_long_as_its_score():
  target = checkpoints.ours(checkpoints.tiny())
  draft = checkpoints.ours_dspark(target)
  pair = tv_jax.engine.pair.Pair(target=target, draft=draft)
  prompts = [[i, i + 1] for i in range(32)]
  how = {"tree": "chain:4", "max_new_tokens": 64, "batch_size": 32, "ends": ()}
  run = tv_jax.generate(pair, prompts, verifier="traversal", **how)
  text = [
    distill.Conversation(prompt=tuple(prompt), answer=tuple(map(int, answer)))
    for prompt, answer in zip(prompts, run.tokens, strict=True)
  ]
  scores = distill.score(pair, text, depth=4)
  expected = scores.cycles["traversal"][-1]
  off = np.array([len(own) for own in run.gained]) - expected
  assert abs(off.mean()) < 4 * off.std() / 32**0.5
  assert expected.sum() < 0.9 * scores.tokens
  with pytest.raises(ValueError, match="depth=5: random drafts 1 to 4 levels"):
    distill.score(pair, text, depth=5)
  # A draft of another block size is compared at the depths that both have.
  deeper = checkpoints.ours_dspark(target, size=6)
  others = distill.score(dataclasses.replace(pair, draft=deeper), text)
  assert [len(x.gain) for x in (scores, others)] == [4, 6]
  assert len(others.over(scores, "traversal")) == 4
  assert len(scores.over(others, "traversal")) == 4


# Whole runs.

WRITING = distill.Writing(
  conversations=24, question_tokens=12, answer_tokens=24
)
HOW = {
  "independent": Training(kind="independent", depth=1, steps=40),
  "eagle": Training(kind="eagle", depth=2),
  "eagle3": Training(kind="eagle3", depth=2),
  "dspark": Training(kind="dspark", depth=3, roots=8),
}
HOW = {
  kind: dataclasses.replace(
    how,
    vocabulary=512,
    rows=4,
    held_out=8,
    # Its Markov head and its confidence begin with nothing to say.
    steps=120 if kind == "dspark" else 30,
  )
  for kind, how in HOW.items()
}


@pytest.fixture(scope="module")
def pair():
  return tv_jax.load("bundled/target")


@pytest.fixture(scope="module")
def folder(pair, tmp_path_factory):
  folder = tmp_path_factory.mktemp("text")
  distill.write(pair, folder, WRITING)
  return folder


def make(pair, out, how, folder, **more):
  return distill.distill(
    pair, out, how, data_folder=folder, writing=WRITING, **more
  )


def weights(out):
  return (out / "model.safetensors").read_bytes()


KINDS = ["eagle", "dspark", "eagle3", "independent"]


@pytest.mark.parametrize("kind", quick.shorter(KINDS))
def test_training_makes_it_longer_and_a_kill_changes_nothing(
  pair, folder, kind, tmp_path, monkeypatch
):
  monkeypatch.setattr(distilling, "SAVE", 10)
  monkeypatch.setattr(texts, "BLOCK", 8)
  how, own = HOW[kind], tmp_path / "data"
  whole = make(pair, tmp_path / "whole", how, folder)
  # Killed in each stage, with half of a line on disk.
  for stage, at in (
    ("writing text", 8),
    ("reading text", 8),
    ("training", 15),
  ):

    def interrupt(now, done, _, stage=stage, at=at):
      if (now.partition(",")[0], done) == (stage, at):
        if stage == "training":  # nobody else trains this draft meanwhile
          with pytest.raises(disk.StoreError, match="give --out another name"):
            make(pair, tmp_path / "broken", how, own)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
      make(pair, tmp_path / "broken", how, own, progress=interrupt)
    with (own / texts.FILE).open("ab") as file:
      file.write(b'{"prompt": [1')
  seen = []
  again = make(
    pair,
    tmp_path / "broken",
    how,
    own,
    progress=lambda now, done, _: seen.append((now.partition(",")[0], done)),
  )
  assert ("training", 11) in seen
  assert ("training", 10) not in seen
  assert weights(tmp_path / "broken") == weights(tmp_path / "whole")
  assert repr(again) == repr(whole)
  # Better than after one step, and equal to the file in half precision.
  before = make(
    pair, tmp_path / "short", dataclasses.replace(how, steps=1), folder
  )
  gain = again.over(before, "traversal")[-1]
  assert gain.mean > 3 * gain.error > 0
  made = tv_jax.load("bundled/target", tmp_path / "whole")
  held = distill.read(folder)[:8]
  depth = len(whole.gain)
  mean = whole.lengths["traversal"][-1].mean
  scores = distill.score(made, held, depth=depth)
  assert scores.lengths["traversal"][-1].mean == pytest.approx(mean, abs=0.02)


def test_a_text_is_read_once(pair, folder, tmp_path):
  """And more of it where it ends; other layers have other files."""
  text = data.usable(distill.read(folder), pair.target.config.vocab_size)
  read = []

  def use(text, layers=()):
    read.clear()
    return data.read(
      pair, text, tmp_path, 1.0, layers, lambda *what: read.append(what[1])
    )

  few = use(text[:16]).rows(range(16), 128)
  assert read == [*range(16)]
  more = use(text[:20]).rows(range(20), 128)
  assert read == [*range(16, 20)]
  for ours, theirs in zip(few, more, strict=True):
    np.testing.assert_array_equal(ours, theirs[:16])
  features, _ = passes.target_features(pair.target, (), few.tokens[9:10])
  size = few.end[9] + 1
  np.testing.assert_allclose(
    few.features[9, :size], features[0, :size], rtol=2e-3, atol=2e-3
  )
  use(text[4:12])
  assert read == []
  layered = use(text[:8], (0, 2)).rows([3], 128)
  assert read == [*range(8)]
  assert layered.read.shape[-1] == 2 * layered.features.shape[-1]


def test_text_is_gone_on_with_as_it_was_begun(pair, tmp_path):
  two = dataclasses.replace(WRITING, conversations=2)
  distill.write(pair, tmp_path, two, [["What is this?"]])
  with pytest.raises(ValueError, match=r"another way \(prompts: "):
    distill.write(pair, tmp_path, two, [["What is that?"]])
  hot = dataclasses.replace(two, temperature=0.5)
  with pytest.raises(ValueError, match=r"temperature: 1\.0 there, 0\.5 now"):
    distill.write(pair, tmp_path, hot, [["What is this?"]])
  with (tmp_path / texts.FILE).open("a") as file:
    file.write('{"prompt": [1], "answer": 3}\n')
  with pytest.raises(ValueError, match=r"line 3\.answer=3: give a list"):
    distill.read(tmp_path)


@pytest.mark.parametrize(
  ("how", "told"),
  [
    ({"held_out": 0}, "held_out=0"),
    ({"length": 20}, "0 conversations have at most length=20"),
    ({"answer": (3, 9999)}, "token 9999"),
  ],
)
def test_what_cannot_be_made_is_refused(pair, tmp_path, how, told):
  answer = how.get("answer", (5, 6))
  text = [distill.Conversation(prompt=(1,) * 20, answer=answer)] * 6
  how = {name: value for name, value in how.items() if name != "answer"}
  how = dataclasses.replace(HOW["eagle"], **how)
  with pytest.raises(ValueError, match=told):
    make(pair, tmp_path / "out", how, tmp_path / "data", text=text)


def test_another_target_under_the_same_name_is_refused(pair, tmp_path):
  copy = tmp_path / "target"
  copy.mkdir()
  shutil.copy(pair.checkpoint.config_path, copy)
  pair = dataclasses.replace(pair, checkpoint=Checkpoint.open(copy))
  text = [distill.Conversation(prompt=(1,) * 20, answer=(5, 6))] * 6
  how = dataclasses.replace(HOW["eagle"], length=20)
  for weights, told in ((b"1", "length=20"), (b"2", "begun in another way")):
    (copy / "model.safetensors").write_bytes(weights)
    with pytest.raises(ValueError, match=told):
      make(pair, tmp_path / "out", how, tmp_path / "data", text=text)


def test_what_no_draft_is_made_for_is_refused_before_any_text(pair, tmp_path):
  other = dataclasses.replace(pair.target.config, model_type="qwen3")
  module = pair.target.module.clone(config=other)
  target = dataclasses.replace(pair.target, module=module)
  qwen = dataclasses.replace(pair, target=target)
  with pytest.raises(ValueError, match="make an independent draft"):
    make(qwen, tmp_path / "out", HOW["eagle"], tmp_path)
  assert not [*tmp_path.iterdir()]
  (tmp_path / "model.safetensors").write_bytes(b"")
  with pytest.raises(ValueError, match="holds something else"):
    make(pair, tmp_path, HOW["eagle"], tmp_path)


def test_a_loss_that_is_no_number_is_not_gone_on_with(
  pair, folder, tmp_path, monkeypatch
):
  monkeypatch.setattr(
    learning, "confidence_loss", lambda confidence, _: confidence * jnp.nan
  )
  how = dataclasses.replace(HOW["dspark"], steps=2)
  with pytest.raises(ValueError, match="the loss is nan after step 1"):
    make(pair, tmp_path / "nan", how, folder)
  assert not [*folder.glob("nan*.npz")]
