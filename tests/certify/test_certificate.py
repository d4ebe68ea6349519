"""The certificate passes lossless rules and catches lossy ones."""

import dataclasses
import functools
import itertools
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import commands, faulty, quick
from tv_jax import certify, tree, verifiers
from tv_jax.certify import rules, worlds
from tv_jax.proposals import PROPOSALS, WITHOUT_REPLACEMENT
from tv_jax.verifiers import (
  NOT_OFFERED,
  UP,
  VERIFIERS,
  Verifier,
  unsupported_reason,
)

LOPSIDED = tree.from_parents([-1, 0, 0, 1])
FORK = tree.from_parents([-1, 0, 0, 1, 1, 2])
TRAVERSAL = VERIFIERS["traversal"]
WITHOUT = "without_replacement"
INTACT = "CONTRACT BROKEN (law intact)"
UNKNOWN = "CONTRACT BROKEN (law not known)"
BOTH = "NOT LOSSLESS, CONTRACT BROKEN"


def settings(**changes):
  return certify.Settings(**{"cases": 18, **changes})


def suiting(name):
  """Proposals of a rule; `make test` tries one, of the traversal all."""
  rule, chain = VERIFIERS[name], tree.chain(1)
  drawn = [
    x for x in PROPOSALS if not unsupported_reason(rule, chain, PROPOSALS[x])
  ]
  pairs = [(name, each) for each in drawn]
  return pairs if name == "traversal" else quick.shorter(pairs)


@pytest.mark.parametrize(
  ("name", "proposal"), [*itertools.chain(*map(suiting, VERIFIERS))]
)
class TestEveryRule:
  """Each entry of VERIFIERS, by being listed."""

  def check(self, name, proposal, shape, **changes):
    rule, drawn = VERIFIERS[name], PROPOSALS[proposal]
    if unsupported_reason(rule, shape, drawn):
      twins = tree.branching([2] + [1] * (shape.max_depth - 1))
      fits = not unsupported_reason(rule, twins, drawn)
      shape = twins if fits else tree.chain(shape.max_depth)
    own = settings(**changes)
    found = certify.check(rule, drawn, shape, own)
    assert len(found.cases) == own.cases
    assert found.lossless, repr(found)
    return found

  @pytest.mark.parametrize(
    ("shape", "vocabulary", "count"),
    quick.shorter([(LOPSIDED, 3, 54), (FORK, 3, 90)]),
  )
  def test_is_lossless_in_float64(
    self, name, proposal, shape, vocabulary, count, x64
  ):
    found = self.check(
      name, proposal, shape, vocabulary=vocabulary, cases=count
    )
    assert found.distance <= 1e-12

  @pytest.mark.long
  def test_is_lossless_in_float32(self, name, proposal):
    found = self.check(name, proposal, LOPSIDED, cases=108, dtype=np.float32)
    assert found.distance <= 2e-6


def with_a_coin_more(draft, eta):
  """Chooses between two rules by the root's coin."""
  rules = TRAVERSAL, VERIFIERS["token_level"]
  one, other = (rule.decide(draft, eta) for rule in rules)
  pick = functools.partial(jnp.where, eta[0] < 0.3)
  made = jax.tree.map(pick, one, other)
  threshold = made.threshold.at[0].set(0.3)
  return dataclasses.replace(made, threshold=threshold)


def test_a_users_rule_is_certified_in_float64_wherever_it_is_asked():
  """As in a process that has not turned float64 on."""
  rule = verifiers.Verifier(offers=VERIFIERS["traversal"].offers, walk=UP)
  found = certify.check(rule, "without_replacement", "chain:2")
  assert found.lossless
  assert found.distance < 1e-12


def test_a_rule_may_toss_the_roots_coin(x64):
  check = certify.check(with_a_coin_more, WITHOUT, FORK, settings(cases=9))
  assert check.lossless, repr(check)


def altered(**changes):
  """The traversal with fields of its decision replaced."""

  def decide(draft, eta):
    made, (_, _, tokens, _, p) = TRAVERSAL.decide(draft, eta), draft
    new = {name: f(made, tokens, p, eta) for name, f in changes.items()}
    return dataclasses.replace(made, **new)

  return decide


def at_the_middle_coin(made, tokens, p, eta):
  middle = (eta[0] > 0.2) & (eta[0] < 0.8)
  return jnp.where(middle, p[0], made.residual)


def by_the_roots_coin(draft, eta):
  """Wrong if the root's coin is low; its threshold is reported."""
  made = TRAVERSAL.decide(draft, eta)
  residual = jnp.where(eta[0] < 0.5, draft.p[0], made.residual)
  threshold = made.threshold.at[0].set(0.5)
  return dataclasses.replace(made, residual=residual, threshold=threshold)


def by_the_roots_token(made, tokens, p, eta):
  return jnp.where(tokens[0] == 0, made.residual, p[0])


def by_leaves_of_q(wrong, draft, eta):
  """Wrong if a leaf's row of q is not a distribution."""
  made = TRAVERSAL.decide(draft, eta)
  residual = jnp.where(wrong(draft.q[-1].sum()), draft.p[0], made.residual)
  return dataclasses.replace(made, residual=residual)


def where_q_is_one_hot(draft, eta):
  """There the contract is broken, and elsewhere the law."""
  made = TRAVERSAL.decide(draft, eta)
  sure = draft.q[0].max() == 1
  wrong = jnp.where(sure, made.residual, draft.p[0])
  return dataclasses.replace(made, fault=sure, residual=wrong)


class OfAnother(Verifier):
  """A rule with the stopping distribution of token-level verification."""

  def stopping(self, draft, offers=None):
    return VERIFIERS["token_level"].stopping(draft)


class Planted(NamedTuple):
  rule: object
  verdict: str = "NOT LOSSLESS"
  fault: str = ""  # the reported breach of the contract
  proposal: str = WITHOUT
  shape: tree.Tree = LOPSIDED


PLANTED = {
  fault: Planted(faulty.rule(fault), proposal=proposal, shape=FORK)
  for fault, proposal in faulty.FAULTS.items()
} | {
  "<=": Planted(
    faulty.closed_coins, UNKNOWN, "accepted with threshold 0", shape=FORK
  ),
  "block stops at the first rejection": Planted(
    faulty.block_that_stops, shape=tree.chain(3)
  ),
  "siblings in another order": Planted(
    faulty.siblings_sorted_by_q, shape=tree.kary(2, 1)
  ),
  # Under the thresholds that it tells the law is right; under real coins not.
  "threshold lies": Planted(
    faulty.threshold_that_lies, UNKNOWN, "threshold lies"
  ),
  "a coin in secret": Planted(
    altered(threshold=lambda d, *_: jnp.full_like(d.threshold, NOT_OFFERED)),
    UNKNOWN,
    "threshold hides",
  ),
  "a residual that looks at a coin": Planted(
    altered(residual=at_the_middle_coin), UNKNOWN, "threshold hides"
  ),
  "another's stopping": Planted(
    OfAnother(offers=TRAVERSAL.offers, walk=UP), INTACT, "stopping differs"
  ),
  "fault": Planted(
    altered(fault=lambda d, *_: d.node == 0), INTACT, "fault is raised"
  ),
  "residual": Planted(
    altered(residual=lambda d, *_: 2 * d.residual), BOTH, "residual is no law"
  ),
  "node": Planted(
    altered(node=lambda d, *_: d.node + 9), UNKNOWN, "node is not a node"
  ),
  "threshold": Planted(
    altered(threshold=lambda d, *_: d.threshold + 2),
    UNKNOWN,
    "is no probability",
  ),
  "INVALID": Planted(
    altered(node=lambda d, t, *_: jnp.where(t[2] < 0, 2, d.node)),
    BOTH,
    "INVALID) is accepted",
  ),
  "law and contract in different cases": Planted(
    where_q_is_one_hot, BOTH, "fault is raised", "with_replacement"
  ),
  "the root's coin": Planted(by_the_roots_coin),
  "the root's token": Planted(altered(residual=by_the_roots_token)),
  "a leaf's q of 0": Planted(
    functools.partial(by_leaves_of_q, lambda x: x == 0)
  ),
  "a leaf's q of NaN": Planted(functools.partial(by_leaves_of_q, jnp.isnan)),
  "a leaf's q above 1": Planted(
    functools.partial(by_leaves_of_q, lambda x: x > 2)
  ),
  "too few thresholds": Planted(
    altered(threshold=lambda d, *_: d.threshold[:-1]),
    UNKNOWN,
    "Decision.threshold is float64[3], not float64[4]",
  ),
}


# One fault of each kind; `make check` tries all.
FEW = ("bonus from p inside", "<=", "threshold lies", "a coin in secret")
FEW += ("another's stopping", "node", "INVALID", "too few thresholds")
FEW += ("the root's coin", "the root's token", "a leaf's q of NaN")


@pytest.mark.parametrize(
  "name",
  quick.shorter(sorted(PLANTED, key=lambda x: x not in FEW), keep=len(FEW)),
)
def test_planted_fault_is_caught(name, x64):
  rule, verdict, fault, proposal, shape = PLANTED[name]
  check = certify.check(rule, proposal, shape, settings(cases=9))
  assert check.verdict == verdict
  assert any(fault in text for text in check.faults) == bool(fault)
  assert bool(check.cases) == (verdict != UNKNOWN)
  if check.cases:
    assert (check.smallest.distance > 1e-3) == (verdict != INTACT)
  assert fault in repr(check)


def test_what_was_reached_is_known(x64):
  for drawn, invalid in ((WITHOUT, 3), ("with_replacement", 0)):
    check = certify.check("token_level", drawn, "branching:4", settings())
    offered, ties, sure, undrawn = check.reached[:, 1:].sum(axis=1)
    assert (offered, ties, undrawn) == (4, 4, invalid)
    assert sure == (1 if invalid else 4)  # then the others are INVALID


def test_the_smallest_failing_case_is_smaller_and_spelled_out(x64):
  rule = faulty.bonus_from_p
  check = certify.check(rule, WITHOUT, FORK, settings(cases=9))
  small = certify.smallest_failure(
    rule, WITHOUT_REPLACEMENT, check.smallest, settings()
  )
  assert small.tree == tree.chain(1)
  assert small.world.vocabulary == 2
  assert small.distance > 1e-6
  assert "tree parents:0," in repr(small)
  assert "the output begins" in repr(small)
  assert re.search(r"nodes 1 are \([ab]\); thresholds", repr(small))


@pytest.mark.parametrize(
  ("rule", "proposal", "shape"),
  [
    ("traversal", WITHOUT, "kary:2x2"),
    ("traversal", "sample_then_top", "kary:2x2"),
    ("traversal_reference", WITHOUT, "kary:2x2"),
    ("token_level", "sample_then_top", "kary:2x2"),
    ("examples.rules.k_seq:rule", "with_replacement", "kary:2x2"),
  ],
)
def test_a_sure_draft_leaves_next_to_nothing_to_the_others(
  rule, proposal, shape
):
  # A softmax does this. A second sibling's law is then q times a number that
  # float32 cannot hold; clipped, it was a law of tokens 0.2 off the target's.
  shape, V = tree.parse(shape), 3
  contexts = worlds.num_contexts(V, shape.max_depth)
  own = certify.Settings(vocabulary=V, dtype=np.float32)
  run = rules.compile_rule(
    verifiers.resolve(rule), PROPOSALS[proposal], shape, own
  )
  for tail in (1e-20, 1e-29, 1e-31, 1e-36):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(V), contexts)
    q = rng.dirichlet(np.ones(V), contexts) * tail
    q[np.arange(contexts), rng.integers(V, size=contexts)] = 1
    found = run(worlds.of_rows("sure", p, q))
    assert found.distance < 2e-6, tail
    assert found.faults == (), tail


def test_the_command_catches_a_rule_of_ones_own(tmp_path):
  (tmp_path / "mine.py").write_text(
    "def decide(draft, eta):\n  return [1][len(draft.tree)]\n"
  )

  def command(name):
    told = "--trees=chain:2 chain:3", "--cases=9"
    told += ("--proposals=with_replacement",)
    told = f"--verifiers={name}", *told
    return commands.run(*told, program="tv_jax.certify", cwd=tmp_path)

  done = command("tests.lib.faulty:bonus_from_p")
  assert done.returncode == 1, done.stderr
  assert "NOT LOSSLESS" in done.stdout
  assert done.stdout.count("the output begins") == 1  # one case for both trees
  done = command("mine:decide")  # it raises
  assert done.returncode == 2
  # Each row says so, and names the line; the others are not lost.
  assert done.stdout.count("NOT RUN: IndexError") == 2, done.stdout
  assert done.stdout.count("of range (mine.py, line 2)") == 2
  assert not done.stderr


def before(tree, proposal, tokens, q, p, eta):
  """A rule with the former arguments."""


@pytest.mark.parametrize(
  ("rule", "drawn", "shape", "message"),
  [
    ("tests.lib.faulty:FAULTS", WITHOUT, "chain:2", "or a Verifier$"),
    ("traversal", "greedy", "chain:2", "proposal 'greedy': not one of"),
    ("traversal", WITHOUT, "chain:x", "tree 'chain:x': write .* of a Tree$"),
    ("block", WITHOUT, "kary:2x2", "verifier 'block' is"),
    (before, WITHOUT, "chain:2", r"\(tree, .*should be before\(draft, eta\):"),
    (
      VERIFIERS["token_level"].offers,
      WITHOUT,
      "chain:2",
      r"takes no coins: if it returns Offers, give Verifier\(offers=offers,",
    ),
  ],
)
def test_what_cannot_be_certified_is_refused(rule, drawn, shape, message):
  with pytest.raises(ValueError, match=message):
    certify.check(rule, drawn, shape)
