"""The certificate passes what is lossless and catches what is not."""

import dataclasses
import functools
import itertools
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import faulty, quick
from tests.stores import ROOT
from tv_jax import certify, tree
from tv_jax.certify import cases, drafts, exact, plan
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import NOT_OFFERED, VERIFIERS, Verifier, misfit, resolve

LOPSIDED = tree.from_parents([-1, 0, 0, 1])
FORK = tree.from_parents([-1, 0, 0, 1, 1, 2])


def settings(**changes):
  return certify.Settings(**{"cases": 18, **changes})


@pytest.mark.parametrize(
  ("name", "proposal"),
  [
    (name, drawn)
    for name, drawn in itertools.product(VERIFIERS, PROPOSALS)
    if not misfit(VERIFIERS[name], tree.chain(1), PROPOSALS[drawn])
  ],
)
class TestEveryRule:
  """Each entry of VERIFIERS, by being listed."""

  def checks(self, name, proposal, plan, dtype):
    rule = VERIFIERS[name]
    for shape, vocabulary, count in plan:
      if misfit(rule, shape, PROPOSALS[proposal]):
        twins = tree.branching([2] + [1] * (shape.max_depth - 1))
        fits = not misfit(rule, twins, PROPOSALS[proposal])
        shape = twins if fits else tree.chain(shape.max_depth)
      own = settings(vocabulary=vocabulary, cases=count, dtype=dtype)
      assert certify.enumerable(shape, PROPOSALS[proposal], own)
      check = certify.check(rule, PROPOSALS[proposal], shape, own)
      assert (check.method, check.cases) == ("exact", count)
      yield check

  @pytest.mark.parametrize(
    "plan", quick.shorter([[(LOPSIDED, 3, 54)], [(FORK, 2, 450)]]), ids=str
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
    assert check.verdict == "CONTRACT BROKEN (law intact)"
  else:
    assert check.distance > 1e-3
    assert check.failure.law_broken
    assert check.verdict == "NOT LOSSLESS"


@pytest.mark.parametrize("shape", ["chain:2", "kary:2x2"])
def test_of_drafts_without_chance_no_rule_gains(shape, x64):
  """With top_k every lossless rule expects the same; else not all do."""
  gains = [
    certify.check("traversal", name, shape, settings()).gain
    for name in ("top_k", "without_replacement")
  ]
  assert abs(gains[0]) < 1e-12
  assert gains[1] > 1e-3


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
  # Under the thresholds that it tells the law is right; under real coins not.
  assert check.failure.tossed
  assert check.failure.law_broken
  assert check.verdict == "NOT LOSSLESS, CONTRACT BROKEN"
  assert "with coins tossed" in certify.spell_out(check.failure)


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


def noisy(shape, proposal, tokens, q, p, eta):
  """The traversal, by coins that are drawn from a key made of its own."""
  bits = jax.lax.bitcast_convert_type(eta.astype(jnp.float32), jnp.uint32)
  key = jax.random.key(0)
  for own in bits:
    key = jax.random.fold_in(key, own)
  eta = jax.random.uniform(key, eta.shape, eta.dtype)
  made = VERIFIERS["traversal_loop"].decide(shape, proposal, tokens, q, p, eta)
  hidden = jnp.full_like(made.accept, NOT_OFFERED)
  return dataclasses.replace(made, accept=hidden)


def noisy_and_wrong(*arguments):
  made = noisy(*arguments)
  return dataclasses.replace(made, residual=arguments[4][made.node])


SAMPLED = certify.Settings(cases=4, sampled=True)


def test_noise_that_is_no_coin_passes_if_it_is_sampled(x64):
  drawn = "without_replacement"
  found = certify.check(noisy, drawn, LOPSIDED, settings(cases=2))
  assert found.verdict == "CONTRACT BROKEN (law intact)"
  assert "there is --sampled" in certify.spell_out(found.failure)
  found = certify.check(noisy, drawn, LOPSIDED, SAMPLED)
  assert found.lossless
  assert found.distance < 5
  told = f"LOSSLESS (sampled, 16000 drafts, {found.distance:.1f} sigma)"
  assert found.verdict == told
  table = certify.text(certify.table([("noisy", drawn, "tree", found)]))
  assert re.search(r"4000 drafts, 4 cases .* 5 sigma .* - +LOSSLESS \(s", table)


def test_what_is_sampled_is_held_against_the_law_and_the_stop_law(x64):
  drawn = "without_replacement"
  found = certify.check(noisy_and_wrong, drawn, LOPSIDED, SAMPLED)
  assert found.verdict == "NOT LOSSLESS"
  small = certify.smallest_failure(
    resolve(noisy_and_wrong), PROPOSALS[drawn], found.failure, SAMPLED
  )
  assert small.tree == tree.chain(1)
  assert small.faults == ()  # of its thresholds nothing is said
  laws = [VERIFIERS[name].stop_law for name in ("traversal", "token_level")]
  right, wrong = (
    certify.check(
      Verifier(name="noisy", decide=noisy, stop_law=law),
      drawn,
      LOPSIDED,
      SAMPLED,
    )
    for law in laws
  )
  assert right.lossless
  assert wrong.verdict == "CONTRACT BROKEN (law intact)"
  assert "sigma from the decisions" in wrong.failure.faults[0]


def test_trees_that_take_shape_are_not_sampled(x64):
  shape = tree.Adaptive((2, 2), 2)
  loop = Verifier(name="noisy", decide=noisy, static_only=False)
  with pytest.raises(ValueError, match="such drafts are not sampled: give"):
    certify.check(loop, "top_k", shape, SAMPLED)


def test_what_lies_on_a_tree_that_takes_shape_has_no_law(x64):
  def secretive(*arguments):
    made = VERIFIERS["traversal_loop"].decide(*arguments)
    hidden = jnp.full_like(made.accept, NOT_OFFERED)
    return dataclasses.replace(made, accept=hidden)

  rule = Verifier(name="lies", decide=secretive, static_only=False)
  found = certify.check(
    rule, "top_k", tree.Adaptive((2,), 2), settings(cases=2)
  )
  assert found.verdict == "CONTRACT BROKEN (law not run)"
  assert "Adaptive(3 nodes" in certify.spell_out(found.failure)
  assert "accept hides" in certify.spell_out(found.failure)


@pytest.mark.long
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


def test_a_wrong_stop_law_is_caught_and_leaves_the_law_intact(x64):
  rule = Verifier(
    name="stops",
    decide=VERIFIERS["traversal"].decide,
    stop_law=VERIFIERS["token_level"].stop_law,
  )
  check = certify.check(rule, "without_replacement", LOPSIDED, settings())
  assert not check.lossless
  assert any("stop_law" in text for text in check.failure.faults)
  assert len(check.failure.faults) == 1  # of all cases
  assert check.failure.contract_broken
  assert not check.failure.law_broken
  assert not check.failure.tossed
  assert check.verdict == "CONTRACT BROKEN (law intact)"
  text = certify.spell_out(check.failure)
  assert "the output's law is the target's" in text
  assert "the output begins" not in text
  assert check.verdict in certify.text(
    certify.table([("stops", "without", "tree", check)])
  )


def altered(**changes):
  """The traversal with fields of its decision replaced."""

  def decide(shape, proposal, tokens, q, p, eta):
    rule = VERIFIERS["traversal"].decide
    decision = rule(shape, proposal, tokens, q, p, eta)
    new = {name: f(decision, tokens) for name, f in changes.items()}
    return dataclasses.replace(decision, **new)

  return Verifier(name="altered", decide=decide)


@pytest.mark.parametrize(
  ("changes", "fault", "law_broken"),
  [
    ({"fault": lambda d, t: d.node == 0}, "fault is raised", False),
    ({"residual": lambda d, t: 2 * d.residual}, "residual is no law", True),
    ({"node": lambda d, t: d.node + 9}, "node is not a node", True),
    ({"accept": lambda d, t: d.accept + 2}, "is no probability", False),
    (
      {"node": lambda d, t: jnp.where(t[2] < 0, 2, d.node)},
      "INVALID) is accepted",
      True,
    ),
    ({"accept": lambda d, t: d.accept[1:]}, "accept is float64[3], not", None),
    (
      {"residual": lambda d, t: d.residual.astype(jnp.float32)},
      "residual is float32[3], not float64[3]",
      None,
    ),
    (
      {"node": lambda d, t: d.node.astype(jnp.float32)},
      "node is float32[], not int32[]",
      None,
    ),
  ],
)
def test_what_is_broken_is_told(changes, fault, law_broken, x64):
  rule = altered(**changes)
  check = certify.check(
    rule, "without_replacement", LOPSIDED, settings(cases=9)
  )
  assert not check.lossless
  assert any(fault in text for text in check.failure.faults)
  assert check.failure.contract_broken
  assert check.failure.law_broken == law_broken
  assert (
    check.verdict
    == {
      None: "CONTRACT BROKEN (law not run)",
      False: "CONTRACT BROKEN (law intact)",
      True: "NOT LOSSLESS, CONTRACT BROKEN",
    }[law_broken]
  )
  assert fault in certify.spell_out(check.failure)


def test_contract_and_law_are_told_of_all_cases(x64):
  """One is broken where q is one-hot, the other elsewhere."""

  def decide(shape, proposal, tokens, q, p, eta):
    rule = VERIFIERS["traversal"].decide
    decision = rule(shape, proposal, tokens, q, p, eta)
    sure = q[0].max() == 1
    wrong = jnp.where(sure, decision.residual, p[0])
    return dataclasses.replace(decision, fault=sure, residual=wrong)

  rule = Verifier(name="both", decide=decide)
  check = certify.check(rule, "with_replacement", "chain:1", settings(cases=9))
  assert check.verdict == "NOT LOSSLESS, CONTRACT BROKEN"
  assert check.failure.law is not None
  assert check.failure.distance > 1e-3


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


@pytest.mark.long
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


def command(*flags, cwd=ROOT):
  return subprocess.run(
    [sys.executable, "-m", "tv_jax.certify", *flags],
    capture_output=True,
    text=True,
    check=False,
    cwd=cwd,
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


def test_the_command_certifies_a_proposal_of_ones_own_first():
  done = command(
    "--verifier=traversal",
    "--trees=chain:1",
    "--cases=2",
    "--proposals=tests.faulty_proposals:sorted_by_id top_k",
  )
  assert done.returncode == 1, done.stderr
  proposals, rules = done.stdout.split(" verifier ")
  assert re.search(r"faulty_proposals:sorted_by_id .* WRONG", proposals)
  assert "top_k" not in proposals  # which is built in, and a rule was named
  assert re.search(r"sorted_by_id .* not run .* NOT RUN", rules)
  assert re.search(r"top_k .* LOSSLESS", rules)
  assert "WRONG: proposal tests.faulty_proposals:sorted_by_id" in done.stdout
  assert "fault: draw(key, q, 2) from q = [" in done.stdout
  assert "0 of 1 proposals are sound, 1 of 2 rows are lossless" in done.stdout


@pytest.mark.parametrize(
  ("flag", "message"),
  [
    ("--verifier=modules:exits", "it exits when it is imported"),
    ("--verifier=rule_raises:decide", "of range (rule_raises.py, line 3)"),
    ("--verifier=rule_raises:counts", "by zero (rule_raises.py, line 4)"),
    ("--vocab=1", "--vocab=1: give 2 or more"),
  ],
)
def test_a_bad_flag_is_one_line(flag, message, tmp_path):
  (tmp_path / "modules.py").write_text("raise SystemExit(0)\n")
  (tmp_path / "rule_raises.py").write_text(
    "def decide(tree, proposal, tokens, q, p, eta):\n"
    "  some = [1]\n"
    "  return some[len(tree)]\n"
    "def more(tree): return 1 / 0\n"
    "from tv_jax.verifiers import Verifier\n"
    "counts = Verifier(decide=decide, coins=more)\n"
  )
  done = command(flag, "--proposals=top_k", "--trees=chain:2", cwd=tmp_path)
  assert done.returncode == 2
  assert message in " ".join(done.stderr.split()), done.stderr
  assert len(done.stderr.splitlines()) == 1
  assert done.stdout == ""


class TestWhatIsNamed:
  """`plan.make`, which is given the command's flags."""

  @pytest.mark.parametrize(
    ("rules", "drawn", "trees", "message"),
    [
      (["traversl"], None, "chain:2", "verifier 'traversl': not one of token"),
      (["nowhere:rule"], None, "chain:2", "No module named 'nowhere'"),
      (["tests.faulty:rule"], None, "chain:2", "tests.faulty has no 'rule'"),
      (["tests.faulty:FAULTS"], None, "chain:2", "a Verifier or a decide"),
      (["rule.py"], None, "chain:2", "nor module:name"),
      ([".rule:decide"], None, "chain:2", "write package.module:name"),
      (["raises:rule"], None, "chain:2", r"raises.py, line 2\): KeyError: 'x'"),
      (["exits:rule"], None, "chain:2", "it exits when it is imported"),
      (None, ["greedy"], "chain:2", "proposal 'greedy': not one of"),
      (None, [".mine:one"], "chain:2", "write package.module:name"),
      (None, ["raises:mine"], "chain:2", r"raises.py, line 2\): KeyError"),
      (None, ["exits:mine"], "chain:2", "it exits when it is imported"),
      (None, ["tests.faulty:FAULTS"], "chain:2", "or a Proposal"),
      (None, None, "chain:x", "tree 'chain:x': write .* of a Tree$"),
      (None, None, "exits:tree", "it exits when it is imported$"),
      (None, None, "tests.faulty:FAULTS", "should be a Tree"),
      (None, None, "", "nothing to certify: give --verifier"),
      (["block"], None, "kary:2x2", "nothing to certify: verifier 'block' is"),
    ],
  )
  def test_what_cannot_be_is_refused_in_one_line(
    self, rules, drawn, trees, message, tmp_path, monkeypatch
  ):
    (tmp_path / "raises.py").write_text("names = {}\nnames['x']\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
      plan.make(rules, drawn, trees.split())
    assert "\n" not in str(caught.value)

  def test_modules_in_the_current_directory(self, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
      "import dataclasses\n"
      "from tv_jax import tree\n"
      "from tv_jax.proposals import TOP_K\n"
      "from tv_jax.verifiers import VERIFIERS, Verifier, chains_only\n"
      "drawn = dataclasses.replace(TOP_K, name='')\n"
      "rule = Verifier(\n"
      "  decide=VERIFIERS['traversal'].decide,\n"
      "  proposals=('mine:drawn', 'top_k'),\n"
      "  defined_on=chains_only,\n"
      ")\n"
      "fork = tree.from_parents([-1, 0, 0])\n"
      "chain = tree.chain(2)\n"
    )
    monkeypatch.chdir(tmp_path)
    made = plan.make(["mine:rule"], None, ["mine:fork", "mine:chain"])
    assert [row.names for row in made.rows] == [
      ("mine:rule", "top_k", "mine:chain"),
      ("mine:rule", "mine:drawn", "mine:chain"),
    ]
    assert [one.name for one in made.to_certify] == ["mine:drawn"]
    assert made.widths == (1, 2)

  def test_built_in_proposals_are_certified_if_no_rule_is_named(self):
    every = plan.make(None, None, ["chain:2"])
    assert [one.name for one in every.to_certify] == [*PROPOSALS]
    assert plan.make(["traversal"], None, ["chain:2"]).to_certify == []

  def test_check_takes_all_by_name(self, x64):
    found = certify.check("block", "top_k", "chain:1", settings(cases=2))
    assert found.lossless


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
