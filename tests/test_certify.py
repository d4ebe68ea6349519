"""The certificate passes what is lossless and catches what is not."""

import dataclasses
import functools
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from tests import faulty, quick
from tv_jax import certify, tree
from tv_jax.certify import cases, drafts, exact
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import NOT_OFFERED, VERIFIERS, Verifier, resolve

LOPSIDED = tree.from_parents([-1, 0, 0, 1])
FORK = tree.from_parents([-1, 0, 0, 1, 1, 2])


def settings(**changes):
  return certify.Settings(**{"cases": 18, **changes})


@pytest.mark.parametrize("name", VERIFIERS)
@pytest.mark.parametrize("proposal", PROPOSALS)
class TestEveryRule:
  """Each entry of VERIFIERS, by being listed."""

  def checks(self, name, proposal, plan, dtype):
    rule = VERIFIERS[name]
    for shape, vocabulary, count in plan:
      if rule.chains_only and not shape.is_chain:
        shape = tree.chain(shape.max_depth)
      own = settings(vocabulary=vocabulary, cases=count, dtype=dtype)
      assert certify.enumerable(shape, PROPOSALS[proposal], own)
      check = certify.check(rule, PROPOSALS[proposal], shape, own)
      assert (check.method, check.cases) == ("exact", count)
      yield check

  @pytest.mark.parametrize(
    "plan", quick.shorter([[(LOPSIDED, 3, 144)], [(FORK, 2, 360)]]), ids=str
  )
  def test_is_lossless_in_float64(self, name, proposal, plan, x64):
    for check in self.checks(name, proposal, plan, np.float64):
      assert check.lossless, certify.spell_out(check.failure)
      assert check.distance <= 1e-12

  @pytest.mark.long
  def test_is_lossless_in_float32(self, name, proposal):
    plan = [(LOPSIDED, 3, 108)]
    for check in self.checks(name, proposal, plan, np.float32):
      assert check.lossless, certify.spell_out(check.failure)
      assert check.distance <= 2e-6


@pytest.mark.parametrize("walk", ["traversal", "token_level"])
@pytest.mark.parametrize("proposal", quick.shorter([*PROPOSALS]))
def test_the_plain_rule_is_lossless_without_a_fault(walk, proposal, x64):
  rule = resolve(functools.partial(faulty.plain, walk=walk))
  check = certify.check(rule, PROPOSALS[proposal], FORK, settings())
  assert check.lossless, certify.spell_out(check.failure)


@pytest.mark.parametrize(
  ("walk", "fault"),
  [
    (walk, fault)
    for walk in ("traversal", "token_level")
    for fault in faulty.FAULTS
    # Top-down the mass is 1, and the two sums are equal.
    if (walk, fault) != ("token_level", "divided by its own sum")
  ],
)
def test_planted_fault_is_caught(walk, fault, x64):
  rule = resolve(functools.partial(faulty.plain, walk=walk, fault=fault))
  proposal = PROPOSALS[faulty.FAULTS[fault]]
  check = certify.check(rule, proposal, FORK, settings(cases=9))
  assert not check.lossless
  if fault == "<=":
    assert any("threshold 0" in text for text in check.failure.faults)
  else:
    assert check.distance > 1e-3


def test_block_that_stops_at_the_first_rejection_is_caught(x64):
  rule = resolve(faulty.block_that_stops)
  proposal = PROPOSALS["without_replacement"]
  check = certify.check(rule, proposal, tree.chain(3), settings())
  assert not check.lossless
  assert check.distance > 1e-3


def test_siblings_verified_in_another_order_than_drawn_are_caught(x64):
  rule = resolve(faulty.siblings_sorted_by_q)
  proposal = PROPOSALS["without_replacement"]
  check = certify.check(rule, proposal, tree.kary(2, 1), settings())
  assert not check.lossless
  assert check.distance > 1e-3


def test_accept_that_lies_is_caught(x64):
  rule = resolve(faulty.accept_that_lies)
  proposal = PROPOSALS["without_replacement"]
  check = certify.check(rule, proposal, LOPSIDED, settings())
  assert not check.lossless
  assert any("accept lies" in text for text in check.failure.faults)


def test_a_coin_used_in_secret_is_caught(x64):
  def secretive(*args):
    decision = VERIFIERS["traversal"].decide(*args)
    hidden = jnp.full_like(decision.accept, NOT_OFFERED)
    return dataclasses.replace(decision, accept=hidden)

  proposal = PROPOSALS["without_replacement"]
  check = certify.check(resolve(secretive), proposal, LOPSIDED, settings())
  assert any("accept hides" in text for text in check.failure.faults)


def test_a_residual_that_looks_at_a_coin_is_caught(x64):
  def peeking(shape, proposal, tokens, q, p, eta):
    rule = VERIFIERS["traversal"].decide
    decision = rule(shape, proposal, tokens, q, p, eta)
    middle = (eta[0] > 0.2) & (eta[0] < 0.8)
    law = jnp.where(middle, p[0], decision.residual)
    return dataclasses.replace(decision, residual=law)

  proposal = PROPOSALS["without_replacement"]
  check = certify.check(resolve(peeking), proposal, LOPSIDED, settings())
  assert any("accept hides" in text for text in check.failure.faults)


def test_a_wrong_bonus_deep_in_a_large_tree_is_caught(x64):
  def deep(shape, proposal, tokens, q, p, eta):
    rule = VERIFIERS["traversal"].decide
    decision = rule(shape, proposal, tokens, q, p, eta)
    wrong = jnp.asarray(shape.depth >= 2)[decision.node]
    law = jnp.where(wrong, jnp.eye(p.shape[1], dtype=p.dtype)[0], p[0])
    law = jnp.where(wrong, law, decision.residual)
    return dataclasses.replace(decision, residual=law)

  stop_law = VERIFIERS["traversal"].stop_law
  rule = Verifier(decide=deep, stop_law=stop_law)
  proposal = PROPOSALS["without_replacement"]
  own = settings(cases=2, drafts=1000)
  check = certify.check(rule, proposal, tree.EAGLE_SPARSE, own)
  assert not check.lossless


def test_a_wrong_stop_law_is_caught(x64):
  rule = Verifier(
    decide=VERIFIERS["traversal"].decide,
    stop_law=VERIFIERS["token_level"].stop_law,
  )
  proposal = PROPOSALS["without_replacement"]
  check = certify.check(rule, proposal, LOPSIDED, settings())
  assert any("stop_law" in text for text in check.failure.faults)


@pytest.mark.long
def test_a_wrong_stop_law_is_caught_on_sampled_drafts(x64):
  def one_rank_up(shape, proposal, tokens, q, p):
    law = VERIFIERS["traversal"].stop_law(shape, proposal, tokens, q, p)
    return jnp.zeros_like(law).at[np.maximum(shape.parent, 0)].add(law)

  rule = Verifier(decide=VERIFIERS["traversal"].decide, stop_law=one_rank_up)
  proposal = PROPOSALS["without_replacement"]
  own = settings(cases=2, drafts=400)
  check = certify.check(rule, proposal, tree.EAGLE_SPARSE, own)
  assert any("stop_law" in text for text in check.failure.faults)


def test_a_fault_on_a_tree_too_large_to_enumerate_is_caught(x64):
  own = settings(cases=2, drafts=400)
  proposal = PROPOSALS["without_replacement"]
  shape = tree.EAGLE_SPARSE
  assert not certify.enumerable(shape, proposal, own)
  rule = resolve(faulty.bonus_from_p)  # bare: its coins are tossed
  check = certify.check(rule, proposal, shape, own)
  assert check.method == "400 drafts"
  assert not check.lossless
  sound = certify.check(resolve(faulty.plain), proposal, shape, own)
  assert sound.lossless, certify.spell_out(sound.failure)


def test_the_smallest_failing_case_is_smaller_and_spelled_out(x64):
  rule = resolve(faulty.bonus_from_p)
  proposal = PROPOSALS["without_replacement"]
  check = certify.check(rule, proposal, FORK, settings(cases=9))
  small = certify.smallest_failure(rule, proposal, check.failure, settings())
  assert small.tree == tree.chain(1)
  assert small.case.p.shape[1] == 2
  text = certify.spell_out(small)
  probabilities = re.search(
    r"probability ([\d.e-]+), under .* ([\d.e-]+)", text
  )
  ours, target = map(float, probabilities.groups())
  worst = abs(small.law - small.target).argmax()
  assert ours == pytest.approx(small.law[worst])
  assert target == pytest.approx(small.target[worst])
  assert abs(ours - target) > 1e-6
  assert "after ''" in text
  assert re.search(r"tokens \[\. [ab]\], accepted node 0 to 1", text)
  assert small.stop.sum() == pytest.approx(1)


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_drafts_are_all_drafts(proposal):
  V, shape = 3, FORK
  contexts = cases.num_contexts(V, shape.max_depth)
  for case in cases.generate(1, 9, V, contexts):
    found = drafts.enumerate_drafts(shape, PROPOSALS[proposal], case.q)
    assert found.chance.sum() == pytest.approx(1)
    assert (found.chance > 0).all()
    rows = {tuple(row) for row in found.tokens}
    assert len(rows) == len(found.tokens)
    assert len(rows) <= drafts.count_outcomes(shape, PROPOSALS[proposal], V)
    # A node's context is its path, so equal paths share it.
    first, second = found.context[:, 1], found.context[:, 2]
    valid = (found.tokens[:, 1] >= 0) & (found.tokens[:, 2] >= 0)
    same = found.tokens[:, 1] == found.tokens[:, 2]
    assert ((first == second) == same)[valid].all()


def test_the_output_law_of_given_laws(x64):
  p = np.tile([0.3, 0.4, 0.3], (4, 1))
  q = np.tile([0.6, 0.3, 0.1], (4, 1))
  outcome = certify.output_law(
    "token_level", "without_replacement", tree.chain(1), p, q
  )
  assert outcome.distance < 1e-15
  assert outcome.expected == pytest.approx(1.7)  # 1 + sum min(p, q)
  np.testing.assert_allclose(
    outcome.law.reshape(3, 3), np.outer(p[0], p[0]), atol=1e-15
  )


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda p, q: (p[:3], q[:3]), r"needs \[4, V\]"),
    (lambda p, q: (p * 1.01, q), r"p\[0\] = .* is no law"),
    (lambda p, q: (p, -q), r"q\[0\] = .* is no law"),
    (lambda p, q: (p * np.nan, q), r"p\[0\] = .* is no law"),
    (lambda p, q: (p, q[:, :2]), r"laws are p .* and q"),
  ],
)
def test_what_is_no_law_is_refused(change, message):
  p = np.tile([0.3, 0.4, 0.3], (4, 1))
  with pytest.raises(ValueError, match=message):
    certify.output_law("traversal", "top_k", tree.chain(1), *change(p, p))


def command(*flags):
  return subprocess.run(
    [sys.executable, "-m", "tv_jax.certify", *flags],
    capture_output=True,
    text=True,
    check=False,
  )


def test_the_command_says_lossless():
  done = command(
    "--verifier=traversal", "--trees=chain:2", "--cases=9", "--proposals=top_k"
  )
  assert done.returncode == 0, done.stderr
  assert "LOSSLESS" in done.stdout
  assert "1 of 1 rows are lossless" in done.stdout


def test_the_command_catches_a_rule_of_ones_own():
  done = command(
    "--verifier=tests.faulty:bonus_from_p",
    "--trees=chain:2",
    "--cases=9",
    "--proposals=with_replacement",
    "--f32",
  )
  assert done.returncode == 1, done.stderr
  assert "NOT LOSSLESS" in done.stdout
  assert "the output begins" in done.stdout


@pytest.mark.parametrize(
  ("flag", "message"),
  quick.shorter(
    [
      ("--verifier=traversl", "verifier 'traversl': not one of token_level"),
      ("--verifier=nowhere:rule", "No module named 'nowhere'"),
      ("--verifier=tests.faulty:rule", "tests.faulty has no 'rule'"),
      ("--proposals=greedy", "proposal 'greedy': not one of"),
      ("--trees=chain:x", "tree 'chain:x': write"),
      ("--verifier=tests.faulty:FAULTS", "neither a function nor a Verifier"),
      ("--verifier=rule.py", "nor module:function"),
      ("--vocab=1", "--vocab=1: give 2 or more"),
    ]
  ),
)
def test_a_bad_flag_is_one_line(flag, message):
  done = command(flag)
  assert done.returncode == 2
  assert message in done.stderr
  assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("proposal", ["without_replacement", "sample_then_top"])
@pytest.mark.parametrize(
  "rule",
  quick.shorter(
    ["traversal", "traversal_loop", "token_level", "token_level_loop"]
  ),
)
def test_a_sure_draft_leaves_next_to_nothing_to_the_others(rule, proposal):
  # A softmax does this. A second sibling's law is then q times a number that
  # float32 cannot hold; clipped, it was a law of tokens 0.2 off the target's.
  shape, V = tree.parse("kary:2x2"), 4
  contexts = cases.num_contexts(V, 2)
  run = exact.make_runner(
    VERIFIERS[rule], PROPOSALS[proposal], shape, np.float32, V
  )
  for tail in (1e-20, 1e-29, 1e-31, 1e-36):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(V), contexts)
    q = rng.dirichlet(np.ones(V), contexts) * tail
    q[np.arange(contexts), rng.integers(V, size=contexts)] = 1
    outcome = run(cases.Case("sure", p, q))
    assert outcome.distance < 2e-6, tail
    assert outcome.faults == (), tail
