"""The rules beyond the paper: their optima, planted faults, where they apply.

They go through tests/test_verifiers.py and tests/test_certify.py too.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import battery, faulty, quick
from tests.battery import IID, WOR
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import (
  VERIFIERS,
  from_offers,
  gbv,
  k_seq,
  misfit,
  ot_traversal,
  pairs,
  resolve,
)

FEW = from_offers(
  functools.partial(ot_traversal.offers, how=pairs.How(kept=2, steps=3)),
  proposals=(WOR,),
  static_only=False,
)


# Single steps: what is optimal.


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
  for case in certify.cases.generate(3, 27, V, certify.num_contexts(V, 1)):
    drawn = certify.drafts.enumerate_drafts(shape, iid, case.q)
    best = certify.bound.on_drafts(case.p, drawn) - 1
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
    *(
      (pairs, "plan", fault, FEW, WOR, "branching:2")
      for fault in (not_cut, takes_more_than_it_says, of_another_z)
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
  found = checked(rule, WOR, battery.FIGURE_1, vocabulary=2)
  assert found.lossless == (fault is None)
  assert (found.distance > 1e-3) == (fault is not None)
  if fault is None:
    own = checked("layer_walk", WOR, battery.FIGURE_1, vocabulary=2)
    assert own.expected == pytest.approx(found.expected, abs=1e-12)


# Lossless, where tests/test_certify.py does not look.


@pytest.mark.parametrize(
  ("rule", "proposal", "tree"),
  [
    (FEW, WOR, "kary:2x2"),
    *(
      pytest.param(*case, marks=pytest.mark.long)
      for case in [
        (FEW, WOR, "branching:3,1"),
        (FEW, WOR, "adaptive:2,2"),
        ("ot_traversal", WOR, "branching:4"),
        ("layer_walk", IID, "adaptive:2,1"),
      ]
    ),
  ],
)
def test_it_is_lossless(rule, proposal, tree, x64):
  vocabulary = 4 if tree == "branching:4" else 3
  found = checked(rule, proposal, tree, vocabulary=vocabulary)
  assert found.failure is None
  assert found.method == "exact"


# Where they are defined.


@pytest.mark.parametrize("text", ["kary:2x2", "adaptive:2,2"])
def test_gbv_is_for_chains_from_the_root(text):
  reason = misfit(VERIFIERS["gbv"], tree_lib.parse(text), PROPOSALS[IID])
  assert 'give tree="branching:2,1"' in str(reason)
  remedy = tree_lib.parse("branching:2,1")
  assert misfit(VERIFIERS["gbv"], remedy, PROPOSALS[IID]) is None
  other = misfit(VERIFIERS["gbv"], remedy, PROPOSALS[WOR])
  assert f"is defined for {IID} only" in str(other)
