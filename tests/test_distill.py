"""Drafts that are made from a target, and scores from text alone."""

import dataclasses
import functools
import itertools
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import checkpoints, oracle
from tv_jax import distill, models
from tv_jax.distill import (
  chances,
  data,
  drafts,
  learning,
  losses,
  passes,
  scoring,
)
from tv_jax.models import mask, sharding

METHODS = {"token_level": "token_level", "traversal": "traversal"}


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
    for node, stop in oracle.stop_law(draft, METHODS[rule]).items():
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
      # The sum over what comes later is 1: count each beginning once.
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


def head_pair(known=None):
  target = checkpoints.ours(checkpoints.tiny())
  made = drafts.make("eagle", target, jax.random.key(3), (1,), known)
  layer = made.trained["layer"]
  noisy = jax.tree.map(
    lambda x: x + 0.1 * jax.random.normal(jax.random.key(4), x.shape), layer
  )
  return target, made._replace(trained=made.trained | {"layer": noisy})


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_a_heads_levels_are_those_of_drafting_from_each_root(kind):
  if kind == "eagle":
    target, made = head_pair()
    draft, params = made.draft, made.params
  else:
    target = checkpoints.pair(kind).target
    head = checkpoints.pair(kind).draft
    draft = passes.Draft(kind, head.module)
    params = head.params
  T, D = 12, 3
  tokens = jnp.asarray(checkpoints.tokens(1, T, 48))
  module = target.module.clone(outputs=draft.config.target_layers)
  theirs = passes.features(module, target.params, tokens)
  roots = jnp.array([[5, 3, 6, 4]], jnp.int32)
  found = [*draft.levels(params, tokens, theirs, roots, D)]
  for w, t in enumerate(roots[0].tolist()):
    own = theirs[:, 0]
    cache = models.cache.empty(draft.config, 1, T + D)
    for m in range(t + D - 1):  # token by token, as a chain is drafted
      feature = theirs[:, m] if m < t else own
      seen = mask.causal(cache.length, 1, cache.slots)
      logits, out, cache = draft.module.apply(
        {"params": params},
        tokens[:, m + 1][:, None],
        feature[:, None],
        jnp.full((1, 1), m, jnp.int32),
        seen,
        cache,
      )
      own = out[:, 0]
      if m >= t - 1:
        level = m - (t - 1)
        known = chances.Known.of(params, draft.config).law(logits[0, 0])
        ours = found[level].logits[0, w]
        np.testing.assert_allclose(ours, known, atol=1e-4)


@pytest.mark.parametrize("kind", drafts.KINDS)
def test_a_draft_that_knows_few_tokens_is_written_and_loaded(kind, tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path / "target", target)
  known = np.array([2, 3, 11, 30, 47])
  made = drafts.make(kind, target, jax.random.key(0), (1,), known, rank=4)
  if kind == "dspark":  # its Markov head would have nothing to say
    made.trained["markov"]["next"] = jax.random.normal(
      jax.random.key(1), (4, 5)
    )
  drafts.save(tmp_path / "draft", made)
  pair = tv_jax.load(tmp_path / "draft", tmp_path / "target", draft_kind=kind)
  assert pair.draft.config.draft_vocab_size == 5
  place = np.asarray(pair.draft.params["place"])
  assert [*np.flatnonzero(place < 5)] == [*known]
  result = tv_jax.generate(
    pair,
    [[1, 2, 3], [7]],
    tree="kary:2x3",
    panel=["token_level"],
    max_new_tokens=24,
    trace=2,
    ends=[],
  )
  drafted = np.concatenate([own.tokens[:, 1:].ravel() for own in result.trace])
  assert {*drafted[drafted >= 0]} <= {*known}
  assert result.faults == 0
  assert abs(result.check.mean) < 4 * result.check.error + 1e-6
  # The same law by either way.
  rows = jnp.asarray([[1, 2, 3, 4]])
  layers = pair.draft.config.target_layers
  assert layers == made.draft.config.target_layers
  theirs, read = passes.of_target(target, layers, rows)
  theirs = theirs if read is None else read
  root = jnp.array([[1]], jnp.int32)
  own = passes.Draft(kind, pair.draft.module)
  (x,) = own.levels(pair.draft.params, rows, theirs, root, 1)
  (y,) = made.draft.levels(made.params, rows, theirs, root, 1)
  np.testing.assert_allclose(x.logits, y.logits, rtol=2e-2, atol=2e-2)
  begun = drafts.begun(pair.draft, kind, pair.target)
  (z,) = begun.draft.levels(begun.params, rows, theirs, root, 1)
  np.testing.assert_allclose(x.logits, z.logits, atol=1e-5)
  np.testing.assert_array_equal(
    begun.laws["unembedding"], made.laws["unembedding"]
  )
  cold = tv_jax.generate(
    pair, [[1, 2, 3]], tree="kary:2x3", temperature=0, max_new_tokens=24
  )
  plain = dataclasses.replace(pair, draft=None, draft_kind="none")
  alone = tv_jax.generate(
    plain, [[1, 2, 3]], verifier=None, temperature=0, max_new_tokens=24
  )
  assert cold.tokens == alone.tokens


@pytest.mark.parametrize("kind", ["eagle", "independent"])
def test_a_draft_that_knows_few_tokens_is_where_its_target_is(kind, tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path / "target", target)
  known = np.array([2, 3, 11, 30, 47])
  made = drafts.make(kind, target, jax.random.key(0), (1,), known)
  drafts.save(tmp_path / "draft", made)
  mesh = sharding.mesh(jax.devices()[:2])
  one, two = (
    tv_jax.load(
      tmp_path / "draft", tmp_path / "target", draft_kind=kind, mesh=place
    )
    for place in (None, mesh)
  )
  own = two.draft.params
  for name in ("unembedding", "place"):
    assert own[name].sharding.device_set == {*mesh.devices.flat}
  results = [
    tv_jax.generate(
      pair, [[1, 2, 3]], tree="chain:2", temperature=0, max_new_tokens=8
    )
    for pair in (one, two)
  ]
  assert results[0].tokens == results[1].tokens


def test_what_a_draft_knows_is_checked(tmp_path):
  from safetensors.numpy import load_file, save_file

  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path / "target", target)
  made = drafts.make(
    "independent", target, jax.random.key(0), (0,), np.array([1, 5])
  )
  draft = tmp_path / "draft"
  drafts.save(draft, made)
  with pytest.raises(ValueError, match="as the draft of that target"):
    models.load(draft)
  tensors = load_file(draft / "model.safetensors")
  for offsets in ([1, 48], [1, 0], [1]):
    tensors["d2t"] = np.array(offsets)
    save_file(tensors, draft / "model.safetensors")
    with pytest.raises(ValueError, match="2 different tokens"):
      tv_jax.load(draft, tmp_path / "target")
  checkpoints.rewrite(draft, draft_vocab_size=None)
  with pytest.raises(ValueError, match="unknown: d2t"):
    tv_jax.load(draft, tmp_path / "target")
  checkpoints.rewrite(draft, draft_vocab_size=1, vocab_size=96)
  with pytest.raises(ValueError, match="vocabulary of 96 is not the target's"):
    tv_jax.load(draft, tmp_path / "target")
  checkpoints.rewrite(draft, hidden_size=16, shares_embedding=True)
  with pytest.raises(ValueError, match="is not the target's 32"):
    tv_jax.load(draft, tmp_path / "target")


def test_losses_are_what_they_say():
  p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.7, 0.1])
  before = chances.Prefix.empty(()).longer(jnp.log(0.4), jnp.log(0.1))
  seen = losses.Seen(before, jnp.log(p), jnp.log(q), jnp.log(q[0]))
  m = R = 0.25
  overlap = np.minimum(p, q).sum()
  after = {
    "traversal": np.minimum(m * p, R * q).sum(),
    "token_level": m * overlap,
  }
  for rule in chances.RULES:
    found = {name: f(seen, rule) for name, f in losses.LOSSES.items()}
    wanted = {
      "cross_entropy": -np.log(q[0]),
      "kl": -np.sum(p * np.log(q)),
      "total_variation": 1 - overlap,
      "weighted": m - after[rule],
      "length": -after[rule],
    }
    for name in losses.LOSSES:
      np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)
  unknown = seen._replace(chosen=jnp.array(-jnp.inf))
  slope = jax.grad(
    lambda q: losses.cross_entropy(unknown._replace(log_q=q), "traversal")
  )(seen.log_q)
  assert np.isfinite(slope).all()


@pytest.mark.parametrize("name", losses.LOSSES)
def test_what_a_draft_does_not_know_ends_a_chain(name):
  """Neither the loss nor its slope is NaN behind such a token."""
  known = chances.Known(jnp.array([0, 2]), jnp.array([0, 2, 1]))
  log_p = known.law(jnp.log(jnp.array([0.5, 0.3, 0.2])))

  def loss(logits, rule):
    log_q = jax.nn.log_softmax(logits)
    own = [known.chance(x, jnp.array(1)) for x in (log_p, log_q)]
    before = chances.Prefix.empty(()).longer(*own)
    seen = losses.Seen(before, log_p, log_q, own[1])
    return losses.LOSSES[name](seen, rule)

  for rule in chances.RULES:
    value, slope = loss(jnp.zeros(2), rule), jax.grad(loss)(jnp.ones(2), rule)
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize(
  ("changes", "told"),
  [
    ({"temperature": 0.0}, "temperature=0.0: give a number of at least"),
    ({"draft_temperature": 0.0}, "draft_temperature=0.0"),
    ({"depth": 0}, "depth=0"),
    ({"answer": (5,), "depth": 2}, "depth=2: give 1 at most"),
    ({"answer": ()}, "no conversation has an answer"),
    ({"answer": (5, 96)}, "token 96 is in the text"),
    ({"answer": (5, -1)}, "token -1 is in the text"),
  ],
)
def test_what_cannot_be_scored_is_refused(changes, told):
  own = dict(changes)
  answer = own.pop("answer", (5, 6))
  text = [distill.Conversation(prompt=(1, 2), answer=answer)]
  with pytest.raises(ValueError, match=re.escape(told)):
    distill.score(checkpoints.pair(), text, **own)


@pytest.mark.parametrize("known", [None, [2, 3, 4, 30, 47]])
def test_the_loss_is_less_the_length_that_is_scored(known):
  """Token 5 of the text is one that the second draft does not know."""
  target = checkpoints.ours(checkpoints.tiny())
  text = [distill.Conversation(prompt=(1, 2, 3), answer=(4, 5, 30))]
  known = None if known is None else np.array(known)
  made = drafts.make("independent", target, jax.random.key(0), (0,), known)
  shape = data.Shape(T=8, W=3, D=2)
  rows = jax.tree.map(jnp.asarray, data.Rows.of(text, shape.T))
  features = passes.features(target.module, target.params, rows.tokens)
  logits = passes.logits(target.params, features)
  read = rows, features, jax.nn.logsumexp(logits, axis=-1), None
  how = distill.Training(kind="independent", loss="length", kl=0.0, depth=2)
  loss = functools.partial(
    learning.loss, how, made.draft, shape, 1.0, made.laws, made.borrowed
  )
  (value, _), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(
    made.trained, jax.random.key(0), read
  )
  (found,) = scoring.measure(
    made.draft, target.params, made.params, rows, features, (1.0, 1.0), shape
  )
  own = found[chances.RULES.index("traversal"), 1]  # [D, roots]
  scored = own[0].sum() + own[1, :2].sum()  # of the last root there is no more
  np.testing.assert_allclose(value, -scored / 3, rtol=1e-5)
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))
