"""The rules beyond the paper: their optima, planted faults, where they apply.

They go through tests/test_verifiers.py and tests/test_certify.py too.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import battery, faulty, quick
from tests.battery import IID, WOR, planned
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import plan
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import (
  DEFAULT,
  VERIFIERS,
  coupled,
  gbv,
  k_seq,
  misfit,
  pairs,
  resolve,
)

FEW = pairs.How(kept=2, steps=3)


# Single steps: what is optimal.


@pytest.mark.parametrize("k", quick.shorter([2, 3]))
def test_no_rule_is_better_than_the_best_single_step(x64, k):
  """And K-SEQ takes 1 - (1 - 1/k)^k of it at least (SpecTr, Theorem 2)."""
  shape, iid = tree_lib.kary(k, 1), PROPOSALS[IID]
  runs = {
    rule: certify.exact.make_lengths(VERIFIERS[rule], iid, shape, np.float64)
    for rule in ("k_seq", "token_level", "gbv", "layer_walk")
  }
  ahead = dict.fromkeys(runs, 0)
  for case in certify.cases.generate(3, 27, 3, certify.num_contexts(3, 1)):
    drawn = certify.drafts.enumerate_drafts(shape, iid, case.q)
    best = certify.bound.on_drafts(case.p, drawn) - 1  # see tests/test_bound.py
    gained = {rule: run(case, drawn) - 1 for rule, run in runs.items()}
    assert max(gained.values()) <= best + 1e-8  # the program's accuracy
    assert gained["k_seq"] >= (1 - (1 - 1 / k) ** k) * best - 1e-8
    assert gained["layer_walk"] == pytest.approx(
      gained["token_level"], abs=1e-12
    )
    for rule, own in gained.items():
      ahead[rule] += own > gained["token_level"] + 1e-9
  assert ahead["k_seq"] > 0


def most_of_a_pair(g, q):
  """1 + min over j of g(H) - P(both in H), H the first j tokens by q / g."""
  order = np.argsort(-q / np.maximum(g, 1e-300))
  q, g = q[order], g[order]
  left = np.array([np.delete(q, i).sum() for i in range(len(q))])
  pair = (q / left)[:, None] * q * (1 - np.eye(len(q)))
  both = np.diagonal(pair.cumsum(axis=0).cumsum(axis=1))
  return min(1, 1 + (np.cumsum(g) - both).min())


def plans_of(V, scale, count, **how):
  """(q, p, what plans take in all), of `count` laws at random."""
  rng = np.random.default_rng(V)
  logits = scale * rng.normal(size=(count, V))
  other = logits + scale / 2 * rng.normal(size=logits.shape)
  q, p = (np.asarray(jax.nn.softmax(x)) for x in (logits, other))
  make = functools.partial(pairs.plan, how=pairs.How(**how))
  return q, p, np.asarray(jax.jit(jax.vmap(make))(p, q).taken).sum(axis=1)


@pytest.mark.parametrize(
  ("V", "scale", "count"), [(30, 2, 40), (3, 4, 150), (30, 12, 150)]
)
def test_a_plan_takes_nearly_the_most(x64, V, scale, count):
  """And never more; of peaked laws none takes much less."""
  q, p, taken = plans_of(V, scale, count)
  bound = np.array([most_of_a_pair(*laws) for laws in zip(p, q, strict=True)])
  assert (taken <= bound + 1e-12).all()
  if scale == 2:
    assert taken.mean() > bound.mean() - 0.005
  else:
    assert (taken > bound - 0.03).all()


def test_no_row_is_sorted_for_its_largest_few():
  """On a CPU that took three quarters of a plan's time."""
  law = jnp.ones(512) / 512
  told = str(jax.jit(pairs.plan).lower(law, law).compile().as_text())
  assert "TopK" in told
  assert "sort(" not in told


# Planted faults.


def checked(rule, proposal, shape, **changes):
  own = certify.Settings(**{"cases": 9, **changes})
  return certify.check(rule, proposal, shape, own)


def ones(a, *_):
  """For `gbv`: as if the path had not been chosen."""
  return jnp.ones_like(a)


def rho_of_one(q, p, count, tree):
  """For `k_seq`: too much is taken for any residual to make up for it."""
  rho = jnp.ones(len(count), p.dtype)
  return rho, jnp.zeros_like(rho)


def surplus(p, q, token):
  """For `coupled`: the residual of token-level verification."""
  return jnp.maximum(p - q, 0)


MAKE = pairs.plan


def not_cut(*given):
  made = MAKE(*given)
  return made._replace(cut=jnp.ones_like(made.cut))


def takes_more_than_it_says(*given):
  made = MAKE(*given)
  return made._replace(taken=made.taken / 2)


def of_another_z(*given):
  made = MAKE(*given)
  return made._replace(z_others=made.z_others * 2)


@pytest.mark.parametrize(
  ("module", "name", "fault", "rule", "proposal", "tree"),
  [
    (gbv, "_ways", ones, "gbv", IID, "kary:2x1"),
    (k_seq, "_solve", rho_of_one, "k_seq", IID, "kary:2x1"),
    (coupled, "after_rejection", surplus, "coupled", WOR, "chain:2"),
    *(
      (pairs, "plan", fault, planned(FEW), WOR, tree)
      for fault in (not_cut, takes_more_than_it_says, of_another_z)
      for tree in ("branching:2", "adaptive:2")
    ),
  ],
)
def test_a_planted_fault_is_caught(
  x64, monkeypatch, module, name, fault, rule, proposal, tree
):
  monkeypatch.setattr(module, name, fault)
  found = checked(rule, proposal, tree)
  assert found.distance > 1e-3
  assert found.failure
  assert found.failure.law_broken


@pytest.mark.parametrize(
  "fault", [None, *quick.shorter(faulty.LAYER_FAULTS)], ids=str
)
def test_a_faulty_layer_walk_is_caught(x64, fault):
  rule = resolve(functools.partial(faulty.layer_walk, fault=fault))
  found = checked(rule, WOR, battery.FIGURE_1)
  assert found.lossless == (fault is None)
  assert (found.distance > 1e-3) == (fault is not None)


# Lossless, where tests/test_certify.py does not look.


@pytest.mark.parametrize(
  ("rule", "proposal", "tree", "dtype"),
  [
    (planned(FEW), WOR, "kary:2x2", np.float64),
  ],
)
def test_it_is_lossless(rule, proposal, tree, dtype):
  vocabulary = 4 if tree == "branching:4" else 3
  with jax.enable_x64(dtype == np.float64):
    found = checked(rule, proposal, tree, dtype=dtype, vocabulary=vocabulary)
  assert found.failure is None
  assert found.method == "exact"


# Where they are defined.


@pytest.mark.parametrize(
  ("text", "remedy"),
  [
    ("chain:3", None),
    ("kary:2x2", "branching:2,1"),
    ("eagle", "branching:4,1,1,1,1"),
    ("adaptive:2,2", "branching:2,1"),
  ],
)
def test_gbv_is_for_chains_from_the_root(text, remedy):
  reason = misfit(VERIFIERS["gbv"], tree_lib.parse(text), PROPOSALS[IID])
  assert (reason is None) == (remedy is None)
  if reason and remedy:
    assert "\n" not in reason
    assert f'give tree="{remedy}"' in reason
    parsed = tree_lib.parse(remedy)
    assert misfit(VERIFIERS["gbv"], parsed, PROPOSALS[IID]) is None
  uneven = tree_lib.from_parents([-1, 0, 0, 1])
  told = misfit(VERIFIERS["gbv"], uneven, PROPOSALS[IID])
  assert "of one length" in str(told)


@pytest.mark.parametrize(
  ("rule", "own"), [("k_seq", IID), ("gbv", IID), ("ot_traversal", WOR)]
)
def test_other_proposals_are_refused(rule, own):
  for name, proposal in PROPOSALS.items():
    reason = misfit(VERIFIERS[rule], tree_lib.chain(2), proposal)
    assert (reason is None) == (name == own)
    assert reason is None or f"is defined for {own} only" in reason


def test_they_are_taken_by_name_alone():
  usual = plan.make(None, None, ["chain:2", "kary:2x2"])
  assert {row.names[0] for row in usual.rows} == {*DEFAULT}
  named = plan.make(["gbv", "k_seq", "layer_walk"], None, ["chain:2"])
  assert [row.names[:2] for row in named.rows] == [
    ("gbv", IID),
    ("k_seq", IID),
    *(("layer_walk", proposal) for proposal in PROPOSALS),
  ]
