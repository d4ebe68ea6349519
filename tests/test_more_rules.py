"""The rules beyond the paper: their theorems, planted faults.

They go through all of tests/test_verifiers.py too; `gbv` and `k_seq` are for
siblings with replacement alone.
"""

import functools
import itertools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from tests import battery, faulty, oracle, quick
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import plan
from tv_jax.proposals import PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import DEFAULT, VERIFIERS, gbv, k_seq, misfit, resolve

IID = "with_replacement"


# Exact arithmetic.


@pytest.mark.parametrize(
  ("method", "parents"),
  [
    ("k_seq", (-1, 0, 0, 1)),
    ("gbv", (-1, 0, 0, 1, 2)),
    ("gbv", (-1, 0, 0, 0)),
  ],
)
def test_the_oracle_is_lossless(method, parents):
  for seed in range(2):
    language = oracle.random_language(random.Random(seed), 3)
    own = oracle.output_law(parents, IID, language, method)
    target = oracle.target_output_law(parents, language)
    words = {*own, *target}
    error = max(abs(own.get(w, 0) - target.get(w, 0)) for w in words)
    # Its rho is a root of a polynomial, and had by halving.
    assert error <= (Fraction(1, 10**15) if method == "k_seq" else 0)


def test_on_one_layer_the_walk_is_the_traversal(x64):
  """It offers the last node first; what comes of it is the same."""
  t, rng = tree_lib.kary(3, 1), np.random.default_rng(2)
  lanes = battery.random_lanes(rng, t, 300)
  high = np.full((300, len(t)), battery.HIGH)
  own, other = (
    battery.run(rule, t, lanes, high) for rule in ("layer_walk", "traversal")
  )
  np.testing.assert_allclose(own.stop, other.stop, atol=1e-12)
  both = (own.node == ROOT) & (other.node == ROOT)
  assert both.sum() > 100
  np.testing.assert_allclose(
    own.residual[both], other.residual[both], atol=1e-12
  )


@pytest.mark.long
def test_oracle_agreement_of_gbv_on_other_bundles(x64):
  for widths in ([1, 1], [4]):
    t = tree_lib.branching(widths)
    drafts = battery.random_drafts("gbv", t, 16, seed=len(t))
    battery.assert_oracle_agrees("gbv", t, drafts)


# What is optimal.


def best_single_step(p, q, k):
  """1 + the least of p(H) - q(H)^k over the tokens of largest q / p first."""
  order = sorted(range(len(p)), key=lambda x: p[x] / q[x] if q[x] else np.inf)
  sums = np.cumsum(np.stack([p[order], q[order]]), axis=1)
  return 1 + min(0, (sums[0] - sums[1] ** k).min())


def by_linear_program(p, q, k):
  """The same over all plans: who is taken of every tuple of tokens."""
  V = len(p)
  tuples = list(itertools.product(range(V), repeat=k))
  chance = [np.prod(q[list(own)]) for own in tuples]
  columns = [(i, x) for i, own in enumerate(tuples) for x in {*own}]
  A = np.zeros((len(tuples) + V, len(columns)))
  for column, (i, x) in enumerate(columns):
    A[i, column] = A[len(tuples) + x, column] = 1
  b = np.concatenate([chance, p])
  solution = scipy.optimize.linprog(-np.ones(len(columns)), A_ub=A, b_ub=b)
  assert solution.success, solution.message
  return -solution.fun


@pytest.mark.parametrize("k", quick.shorter([2, 3]))
def test_no_rule_is_better_than_the_best_single_step(x64, k):
  """And K-SEQ takes 1 - (1 - 1/k)^k of it at least (SpecTr, Theorem 2)."""
  V = 3
  shape, iid = tree_lib.kary(k, 1), PROPOSALS[IID]
  runs = {
    rule: certify.exact.make_lengths(VERIFIERS[rule], iid, shape, np.float64)
    for rule in ("k_seq", "token_level", "gbv", "layer_walk")
  }
  ahead = dict.fromkeys(runs, 0)
  contexts = certify.num_contexts(V, 1)
  for case in certify.cases.generate(3, 27, V, contexts):
    best = best_single_step(case.p[0], case.q[0], k)
    program = by_linear_program(case.p[0], case.q[0], k)
    assert best == pytest.approx(program, abs=1e-8)  # the program's accuracy
    drawn = certify.drafts.enumerate_drafts(shape, iid, case.q)
    gained = {rule: run(case, drawn) - 1 for rule, run in runs.items()}
    assert max(gained.values()) <= best + 1e-12
    assert gained["k_seq"] >= (1 - (1 - 1 / k) ** k) * best - 1e-12
    assert gained["layer_walk"] == pytest.approx(
      gained["token_level"], abs=1e-12
    )
    for rule, own in gained.items():
      ahead[rule] += own > gained["token_level"] + 1e-9
  assert ahead["k_seq"] > 0


def test_k_seq_finds_the_root(x64):
  """1 - (1 - b)^k = rho b to the last digits, or no draft is of use."""
  rng = np.random.default_rng(5)
  t = tree_lib.kary(4, 1)
  solve = jax.jit(functools.partial(k_seq._solve, tree=t))
  for case in certify.cases.generate(7, 60, 5, 1):
    count = jnp.asarray([rng.integers(1, 5)], jnp.int32)
    rho, missed = solve(case.q, case.p, count)
    b = np.minimum(case.p / rho[0], case.q).sum()
    k = int(count[0])
    assert 1 <= rho[0] <= k
    assert float(missed[0]) == pytest.approx(1 - b, abs=1e-14)
    assert 1 - (1 - b) ** k == pytest.approx(float(rho[0] * b), abs=1e-14)


# Planted faults.


def caught(rule, proposal, shape, **changes):
  own = certify.Settings(**{"cases": 9, **changes})
  found = certify.check(rule, proposal, shape, own)
  return found.distance > 1e-3 and not found.lossless


def test_gbv_without_the_law_of_the_greatest_is_caught(x64, monkeypatch):
  """Block-verified against q, as if the path had not been chosen."""

  def ones(a, b, count, most):
    del b, count, most
    return jnp.ones_like(a)

  monkeypatch.setattr(gbv, "_ways", ones)
  assert caught("gbv", IID, tree_lib.kary(2, 1))


def test_k_seq_with_a_rho_below_the_root_is_caught(x64, monkeypatch):
  """Of 1: too much is taken for any residual to make up for it."""

  def one(q, p, count, tree):
    rho = jnp.ones(len(count), p.dtype)
    return rho, jnp.zeros_like(rho)

  monkeypatch.setattr(k_seq, "_solve", one)
  assert caught("k_seq", IID, tree_lib.kary(2, 1))


@pytest.mark.parametrize("fault", quick.shorter(faulty.LAYER_FAULTS))
def test_a_faulty_layer_walk_is_caught(x64, fault):
  rule = resolve(functools.partial(faulty.layer_walk, fault=fault))
  assert caught(rule, "without_replacement", battery.FIGURE_1, vocabulary=2)


def test_the_plain_layer_walk_is_sound(x64):
  rule = resolve(faulty.layer_walk)
  own = certify.Settings(vocabulary=2, cases=9)
  found = certify.check(rule, "without_replacement", battery.FIGURE_1, own)
  assert found.lossless, certify.spell_out(found.failure)


# Where they are defined.


@pytest.mark.parametrize(
  ("text", "remedy"),
  [
    ("chain:3", None),
    ("branching:3,1,1", None),
    ("kary:4x1", None),
    ("kary:2x2", "branching:2,1"),
    ("eagle", "branching:4,1,1,1,1"),
    ("branching:1,2", "branching:1,1"),
    ("adaptive:2,2", "branching:2,1"),
  ],
)
def test_gbv_is_for_chains_from_the_root(text, remedy):
  reason = misfit(VERIFIERS["gbv"], tree_lib.parse(text), PROPOSALS[IID])
  assert (reason is None) == (remedy is None)
  if remedy:
    assert "\n" not in reason
    assert f'give tree="{remedy}"' in reason
    parsed = tree_lib.parse(remedy)
    assert misfit(VERIFIERS["gbv"], parsed, PROPOSALS[IID]) is None


def test_chains_of_two_lengths_are_refused():
  uneven = tree_lib.from_parents([-1, 0, 0, 1])
  assert "of one length" in misfit(VERIFIERS["gbv"], uneven, PROPOSALS[IID])


@pytest.mark.parametrize("rule", ["k_seq", "gbv"])
def test_other_proposals_are_refused(rule):
  for name, own in PROPOSALS.items():
    reason = misfit(VERIFIERS[rule], tree_lib.chain(2), own)
    assert (reason is None) == (name == IID)


@pytest.mark.long
def test_the_layer_walk_takes_adaptive_trees(x64):
  own = certify.Settings(vocabulary=2, cases=9)
  found = certify.check("layer_walk", "with_replacement", "adaptive:2,1", own)
  assert (found.method, found.lossless) == ("exact", True)


def test_they_are_taken_by_name_alone():
  usual = plan.make(None, None, ["chain:2", "kary:2x2"])
  assert {row.names[0] for row in usual.rows} == {*DEFAULT}
  assert {*DEFAULT}.isdisjoint({"gbv", "k_seq", "layer_walk"})
  named = plan.make(["gbv", "k_seq", "layer_walk"], None, ["chain:2"])
  assert [row.names[:2] for row in named.rows] == [
    ("gbv", IID),
    ("k_seq", IID),
    *(("layer_walk", proposal) for proposal in PROPOSALS),
  ]


# Float32, and trees too large to enumerate.


@pytest.mark.long
@pytest.mark.parametrize(
  ("rule", "tree"),
  [
    ("layer_walk", "kary:2x5"),
    ("layer_walk", "eagle"),
    ("k_seq", "eagle"),
    ("gbv", "branching:4,1,1,1"),
  ],
)
def test_large_trees_by_sampling(rule, tree):
  found = certify.check(
    rule, IID, tree, certify.Settings(cases=18, dtype=np.float32)
  )
  assert "drafts" in found.method
  assert found.lossless, certify.spell_out(found.failure)


@pytest.mark.long
@pytest.mark.parametrize("tail", [1e-20, 1e-29, 1e-31, 1e-36])
@pytest.mark.parametrize(
  ("rule", "proposal", "tree"),
  [
    ("layer_walk", "without_replacement", "kary:2x2"),
    ("layer_walk", "sample_then_top", "kary:2x2"),
    ("ot_traversal", "without_replacement", "kary:2x2"),
    ("ot_traversal", "without_replacement", "branching:3"),
    ("k_seq", IID, "kary:2x2"),
    ("gbv", IID, "branching:3,1"),
  ],
)
def test_a_sure_draft_in_float32(rule, proposal, tree, tail):
  V, shape = 3, tree_lib.parse(tree)
  contexts = certify.num_contexts(V, shape.max_depth)
  rng = np.random.default_rng(0)
  p = rng.dirichlet(np.ones(V), contexts)
  q = rng.dirichlet(np.ones(V), contexts) * tail
  q[np.arange(contexts), rng.integers(V, size=contexts)] = 1
  outcome = certify.output_law(
    rule, proposal, shape, p.astype("f4"), q.astype("f4")
  )
  assert outcome.distance < 2e-6
  assert outcome.faults == ()
