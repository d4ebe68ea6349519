"""Rules that want more coins than one a node: certified, run and verified."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import random_path
from tv_jax import certify, proposals, tree
from tv_jax.certify.engine import cases, exact, report, statistics
from tv_jax.verifiers import verify

FORK = tree.from_parents([-1, 0, 0, 1])
FEW = certify.Settings(cases=9)


def check(rule, shape=FORK, own=FEW):
  return certify.check(rule, "without_replacement", shape, own)


@pytest.mark.parametrize("shape", [FORK, tree.kary(3, 1), tree.chain(2)])
def test_a_random_path_is_exactly_lossless(shape, x64):
  found = check(random_path.RULE, shape, certify.Settings(cases=18))
  assert found.method == "exact"
  assert found.lossless, certify.spell_out(found.failure)
  assert found.distance <= 1e-12


def test_a_random_path_is_lossless_in_float32():
  found = check(random_path.RULE, own=FEW._replace(dtype=np.float32))
  assert found.lossless, certify.spell_out(found.failure)


def test_a_wrong_chance_to_pick_a_child_breaks_the_law(x64):
  found = check(random_path.UNFAIR)
  assert found.verdict == "NOT LOSSLESS"
  assert found.failure.law_broken
  assert found.failure.faults == ()
  assert found.distance > 1e-2


def test_a_lie_about_a_further_coin_breaks_the_contract_alone(x64):
  found = check(random_path.LIAR)
  assert found.verdict == "CONTRACT BROKEN (law intact)"
  assert any("accept lies" in text for text in found.failure.faults)
  assert not found.failure.law_broken
  assert found.failure.tossed


def test_a_further_coin_used_in_secret_is_caught(x64):
  def secretive(*arguments):
    decision = random_path.decide(*arguments)
    hidden = decision.accept.at[4].set(-1.0)
    return dataclasses.replace(decision, accept=hidden)

  rule = dataclasses.replace(random_path.RULE, decide=secretive)
  found = check(rule)
  assert found.failure.contract_broken
  assert any("accept" in text for text in found.failure.faults)
  assert not found.failure.law_broken


@pytest.mark.parametrize(
  ("coins", "told"),
  [
    (None, "Decision.accept is float64[5], not float64[4]"),
    (lambda shape: 2, "Decision.accept is float64[5], not float64[6]"),
    (lambda shape: -1, "coins(tree) is -1: it should be"),
    (lambda shape: 0.5, "coins(tree) is 0.5: it should be"),
  ],
)
def test_a_wrong_number_of_coins_is_a_broken_contract(coins, told, x64):
  def decide(shape, proposal, tokens, q, p, eta):
    full = jnp.zeros(len(shape) + 1, eta.dtype)
    return random_path.decide(shape, proposal, tokens, q, p, full)

  rule = dataclasses.replace(random_path.RULE, decide=decide, coins=coins)
  found = check(rule)
  assert found.verdict == "CONTRACT BROKEN (law not run)"
  assert any(told in text for text in found.failure.faults)


def test_coins_count_in_the_budget():
  own = certify.Settings()
  proposal = proposals.WITHOUT_REPLACEMENT
  assert certify.enumerable(FORK, proposal, own, random_path.RULE)
  many = dataclasses.replace(random_path.RULE, coins=lambda shape: 18)
  assert certify.enumerable(FORK, proposal, own)
  assert not certify.enumerable(FORK, proposal, own, many)


@pytest.mark.long
def test_a_random_path_is_sampled_on_large_trees(x64):
  own = FEW._replace(cases=2, drafts=6000)
  shape = tree.from_parents([-1, 0, 0, *range(1, 13)])
  found = check(random_path.RULE, shape, own)
  assert found.method == "6000 drafts"
  assert found.lossless, certify.spell_out(found.failure)
  assert not check(random_path.UNFAIR, shape, own).lossless


@pytest.mark.long
def test_a_random_path_decodes_with_the_targets_law():
  case = cases.Case(
    draft_kind="independent",
    tree=FORK,
    proposal=proposals.WITHOUT_REPLACEMENT,
    verifier=random_path.RULE,
    temperature=0.5,
    top_p=1.0,
  )
  counts, cycles, faults = cases.count(case, 10_000, 1_000, seed=7)
  assert cycles >= report.FEWEST_CYCLES
  assert faults == 0
  assert statistics.chi_square(counts, exact.law(case)) > 1e-3


def test_a_random_path_verifies():
  q = jnp.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0, 0, 1], [0, 1, 0]])
  p = jnp.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [1, 0, 0], [0, 0, 1]])
  tokens = jnp.array([0, 1, 2, 0], jnp.int32)

  def one(key):
    return verify(
      key, random_path.RULE, FORK, "without_replacement", tokens, q, p
    ).node

  node = np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(0), 4000)))
  stop = random_path.stop_law(FORK, None, tokens, q, p)
  seen = np.bincount(node, minlength=4) / 4000
  np.testing.assert_allclose(seen, stop, atol=5 * 0.5 / 4000**0.5)
