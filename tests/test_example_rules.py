"""Rules of others in examples/: certified, and planted faults are caught."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import gated
from examples.rules import gbv, k_seq, ot_traversal, pairs
from tests import battery, quick
from tests.battery import CHAIN, IID, WOR, Case
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS, WITHOUT_REPLACEMENT
from tv_jax.verifiers import Verifier, misfit

FEW = pairs.Options(kept=2, steps=3)
FEW_PAIRS = Verifier(
  name="few pairs",
  offers=functools.partial(ot_traversal.offers, options=FEW),
  proposals=(WOR,),
  static_only=False,
)


def check(rule, proposal, shape, **changes):
  settings = certify.Settings(**{"cases": 9, **changes})
  return certify.check(rule, proposal, shape, settings)


@pytest.mark.parametrize(
  ("rule", "proposal", "tree"),
  quick.shorter(
    [
      ("examples.rules.gbv:rule", IID, "branching:2,1"),
      ("examples.rules.k_seq:rule", IID, "kary:2x2"),
      ("examples.rules.ot_traversal:rule", WOR, "branching:2,1"),
      ("examples.rules.ot_traversal:rule", WOR, "adaptive:2,2"),
      (FEW_PAIRS, WOR, "kary:2x2"),
      ("traversal", "examples.gated:half", "kary:2x2"),
    ],
    keep=2,
  ),
)
def test_it_is_lossless(rule, proposal, tree, x64):
  verdict = check(rule, proposal, tree)
  assert verdict.lossless, repr(verdict.failure)
  assert verdict.method == "exact"


@pytest.mark.parametrize(
  "rule",
  quick.shorter([gbv.rule, ot_traversal.rule], keep=1),
  ids=lambda rule: rule.name,
)
def test_on_a_chain_it_is_block_verification(x64, monkeypatch, rule):
  """Coin for coin, and by its stop law."""
  case = Case(rule, "block", {}, rule.proposals)
  monkeypatch.setitem(battery.RULES, rule.name, case)
  drafts = battery.random_drafts(rule.name, CHAIN, 64, seed=0)
  battery.assert_oracle_agrees(rule.name, CHAIN, drafts)


# Planted faults.


def ones(a, *_):
  """For `gbv`: as if the path had not been chosen."""
  return jnp.ones_like(a)


MAKE = pairs.plan


def not_cut(*draft):
  plan = MAKE(*draft)
  return plan._replace(cut=jnp.ones_like(plan.cut))


def takes_more_than_it_says(*draft):
  plan = MAKE(*draft)
  return plan._replace(taken=plan.taken / 2)


@pytest.mark.parametrize(
  ("module", "name", "fault", "rule", "proposal", "tree"),
  quick.shorter(
    [
      (gbv, "_ways", ones, gbv.rule, IID, "kary:2x1"),
      (pairs, "plan", not_cut, FEW_PAIRS, WOR, "branching:2"),
      (pairs, "plan", takes_more_than_it_says, FEW_PAIRS, WOR, "adaptive:2"),
    ],
    keep=2,
  ),
)
def test_a_planted_fault_is_caught(
  x64, monkeypatch, module, name, fault, rule, proposal, tree
):
  monkeypatch.setattr(module, name, fault)
  verdict = check(rule, proposal, tree)
  assert verdict.distance > 1e-3
  assert verdict.failure.law_broken


# What is claimed.


def most_of_a_pair(g, q):
  """1 + min over j of g(H) - P(both in H), H the first j tokens by q / g."""
  order = np.argsort(-q / np.maximum(g, 1e-300))
  q, g = q[order], g[order]
  rest = np.array([np.delete(q, i).sum() for i in range(len(q))])
  pair = (q / rest)[:, None] * q * (1 - np.eye(len(q)))
  both = np.diagonal(pair.cumsum(axis=0).cumsum(axis=1))
  return min(1, 1 + (np.cumsum(g) - both).min())


def test_a_plan_takes_nearly_the_most(x64):
  """And never more."""
  rng = np.random.default_rng(30)
  logits = 2 * rng.normal(size=(40, 30))
  other = logits + rng.normal(size=logits.shape)
  q, p = (np.asarray(jax.nn.softmax(x)) for x in (logits, other))
  taken = np.asarray(jax.jit(jax.vmap(pairs.plan))(p, q).taken).sum(axis=1)
  most = np.array([most_of_a_pair(*laws) for laws in zip(p, q, strict=True)])
  assert (taken <= most + 1e-12).all()
  assert taken.mean() > most.mean() - 0.005


@pytest.mark.parametrize("text", ["kary:2x2", "eagle", "adaptive:2,2"])
def test_gbv_is_for_chains_from_the_root(text):
  """For an unknown name, the error names the nearest rule."""
  assert not misfit(gbv.rule, tree_lib.parse("chain:3"), PROPOSALS[IID])
  reason = misfit(gbv.rule, tree_lib.parse(text), PROPOSALS[IID])
  nearest = re.search(r'give tree="([^"]+)"', reason)[1]
  assert not misfit(gbv.rule, tree_lib.parse(nearest), PROPOSALS[IID])


def test_k_seq_is_for_one_proposal():
  for name, proposal in PROPOSALS.items():
    reason = misfit(k_seq.rule, CHAIN, proposal)
    assert (reason is None) == (name == IID)
    assert reason is None or f"is defined for {IID} only" in reason


# The gate.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_law_on_the_edge_is_on_one_side_for_all_three(dtype, x64):
  gate, q = gated.gated(0.7), np.array([0.1, 0.2, 0.7, 0.0], dtype)
  scale, at = gate.laws(jnp.asarray(q[[2, 1]]), dtype(0.1), np.ones(2, bool))
  assert (scale[0], at[0, 0], at[0, 1]) == (0, 1, 0)
  # The certificate computes in float64, a run in float32.
  assert gate.following(q.astype(float), (), 2)[2] == 1
  for key in jax.random.split(jax.random.key(0), 20):
    assert gate.draw(key, jnp.asarray(q, jnp.float32), 1) == 2


@pytest.mark.parametrize("dtype", quick.shorter([np.float64, np.float32]))
def test_a_gate_is_sound(dtype):
  with jax.enable_x64(dtype == np.float64):
    settings = certify.Settings(cases=9, dtype=dtype)
    assert certify.check_proposal(gated.half, settings, (2, 4)).faults == ()


def test_a_gate_that_looks_at_the_drawn_token_is_caught(x64):
  """The token is drawn from q, and then taken for one that had to come."""
  fault = dataclasses.replace(
    gated.half,
    draw=WITHOUT_REPLACEMENT.draw,
    following=WITHOUT_REPLACEMENT.following,
    name="planted",
  )
  verdict = certify.check_proposal(fault, certify.Settings(cases=9))
  assert any("by laws" in text for text in verdict.faults), verdict.faults
