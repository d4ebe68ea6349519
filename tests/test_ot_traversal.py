"""The traversal with pairs planned for: exact arithmetic, optima, faults."""

import functools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import battery, oracle, quick
from tests.battery import WOR, planned
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import VERIFIERS, misfit, pairs

RULE = VERIFIERS["ot_traversal"]
FORMS = "ot_traversal", "ot_traversal, traced"
FEW = pairs.How(kept=2, steps=3)


# Exact arithmetic.


@pytest.mark.parametrize(
  "parents", [(-1, 0, 0), (-1, 0, 0, 1, 1), (-1, 0, 0, 0)]
)
def test_the_oracle_is_lossless(parents):
  for seed in range(2):
    language = oracle.random_language(random.Random(seed), 3, 4)
    assert oracle.output_law(
      parents, WOR, language, "ot_traversal"
    ) == oracle.target_output_law(parents, language)


def test_any_plan_lifts(monkeypatch):
  """Plans at random, of which each takes no more than there is."""

  def at_random(g, chances):
    rng = random.Random(str(g))
    plan = {}
    for pair in chances:
      a, b, _ = oracle.norm(
        [Fraction(rng.randint(0, 9)) for _ in range(2)] + [1]
      )
      plan[pair] = a, b
    f = oracle.taken_by(plan, chances, len(g))
    cut = [
      min(Fraction(1), x / y) if y else 1 for x, y in zip(g, f, strict=True)
    ]
    return {
      (x, y): (a * cut[x], b * cut[y] if y != oracle.NONE else 0)
      for (x, y), (a, b) in plan.items()
    }

  lift = functools.cache(lambda d: oracle.lifted_offers(d, at_random))
  monkeypatch.setitem(oracle.IN_ORDER, "at random", lift)
  parents = (-1, 0, 0, 0, 1)
  for seed in range(2):
    language = oracle.random_language(random.Random(seed), 3, 4)
    assert oracle.output_law(
      parents, WOR, language, "at random"
    ) == oracle.target_output_law(parents, language)


def test_a_plan_is_the_oracles(x64):
  """Of two steps, token for token, with tokens that share a z and without."""
  rng = random.Random(0)
  how = pairs.How(kept=8, steps=2, lean=oracle.PAIR_LEAN)
  make = jax.jit(functools.partial(pairs.plan, how=how))
  for _ in range(10):
    g, q = (
      oracle.norm([Fraction(rng.randint(0, 4)) for _ in range(4)] + [1])
      for _ in range(2)
    )
    g = oracle.times(Fraction(rng.randint(1, 4), 4), g)
    chances = oracle.pair_chances(q)
    plan = oracle.transport_plan(g, chances, steps=2)
    made = make(*(jnp.array([*map(float, x)]) for x in (g, q)))
    f = oracle.taken_by(plan, chances, len(q))
    np.testing.assert_allclose(made.taken, [*map(float, f)], atol=1e-14)
    for pair, (first, second) in plan.items():
      exists = np.array(pair) != oracle.NONE
      tokens = np.maximum(pair, 0).astype(np.int32)
      own = pairs.enter(made, tokens, exists, how)
      np.testing.assert_allclose(own[0], float(first), atol=1e-14)
      if exists[1]:
        np.testing.assert_allclose(
          own[1] * (1 - own[0]), float(second), atol=1e-14
        )


def test_both_forms_decide_alike_with_three_pairs_of_siblings(x64):
  t, rng = tree_lib.branching([6, 1]), np.random.default_rng(3)
  lanes = battery.random_lanes(rng, t, 200, [WOR])
  eta = rng.random((200, len(t))) ** 2

  def decide(tree):
    def one(tree, *lane):
      return RULE.decide(tree, PROPOSALS[WOR], *lane)

    lanes_of = jax.vmap(one, in_axes=(None, 0, 0, 0, 0))
    return jax.jit(lanes_of)(tree, lanes.tokens, lanes.q, lanes.p, eta)

  found, other = map(decide, (t, t.topology()))
  assert {5, 6} & {*found.node.tolist()}
  np.testing.assert_array_equal(found.node, other.node)
  np.testing.assert_allclose(found.accept, other.accept, atol=1e-12)
  np.testing.assert_allclose(found.residual, other.residual, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_both_forms_decide_alike_in_float32(seed):
  """Of sure drafts with tiny tails, where both round."""
  t, rng = battery.LOPSIDED, np.random.default_rng(seed)
  lanes = battery.hardened(rng, battery.random_lanes(rng, t, 256, [WOR]))
  eta = rng.random((256, len(t)))
  found, other = (battery.run(rule, t, lanes, eta) for rule in FORMS)
  assert not (found.fault | other.fault).any()
  np.testing.assert_allclose(found.stop, other.stop, atol=1e-5)
  assert (found.node == other.node).mean() > 0.99


# Lossless, and not when it is made wrong.

SMALL = certify.Settings(cases=18)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("how", [pairs.USUAL, FEW], ids=["usual", "few"])
@pytest.mark.parametrize(
  "tree", quick.shorter(["kary:2x2", "branching:3,1", "branching:4"], keep=1)
)
def test_it_is_lossless(tree, how, dtype):
  settings = SMALL._replace(dtype=dtype, vocabulary=4 if tree[-1] == "4" else 3)
  with jax.enable_x64(dtype == np.float64):
    found = certify.check(planned(how), WOR, tree, settings)
  assert found.failure is None
  assert found.method == "exact"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
  "tree", quick.shorter(["adaptive:2,2", "adaptive:3,2", "adaptive:2,2,2"])
)
def test_it_is_lossless_on_trees_that_take_shape(tree, dtype):
  vocabulary = 4 if tree == "adaptive:3,2" else 3
  settings = SMALL._replace(dtype=dtype, vocabulary=vocabulary)
  with jax.enable_x64(dtype == np.float64):
    found = certify.check(planned(FEW), WOR, tree, settings)
  assert found.failure is None
  assert found.method == "exact"


def not_cut(made):
  return made._replace(cut=jnp.ones_like(made.cut))


def takes_more_than_it_says(made):
  return made._replace(taken=made.taken / 2)


def of_another_z(made):
  return made._replace(z_others=made.z_others * 2)


@pytest.mark.parametrize("tree", ["branching:2", "adaptive:2"])
@pytest.mark.parametrize(
  "fault", [not_cut, takes_more_than_it_says, of_another_z]
)
def test_a_wrong_plan_is_caught(monkeypatch, fault, tree):
  make = pairs.plan
  monkeypatch.setattr(pairs, "plan", lambda *given: fault(make(*given)))
  with jax.enable_x64(True):
    found = certify.check(planned(FEW), WOR, tree, SMALL)
  assert found.failure is not None
  assert found.failure.law_broken


# How much it takes.


def most(g, q):
  """1 + min over j of g(H) - P(both in H), H the first j tokens by q / g."""
  order = np.argsort(-q / np.maximum(g, 1e-300))
  q, g = q[order], g[order]
  left = np.array([np.delete(q, i).sum() for i in range(len(q))])
  pair = (q / left)[:, None] * q * (1 - np.eye(len(q)))
  both = np.diagonal(pair.cumsum(axis=0).cumsum(axis=1))
  return min(1, 1 + (np.cumsum(g) - both).min())


def some_laws(V, count=40, scale=2):
  rng = np.random.default_rng(V)
  logits = scale * rng.normal(size=(count, V))
  other = logits + scale / 2 * rng.normal(size=(count, V))
  return (np.asarray(jax.nn.softmax(x)) for x in (logits, other))


def test_a_plan_takes_nearly_the_most(x64):
  """And never more; in turn the two siblings take much less."""
  q, p = some_laws(30)
  made = jax.jit(jax.vmap(pairs.plan))(p, q)
  taken = np.asarray(made.taken).sum(axis=1)
  bound = np.array([most(*laws) for laws in zip(p, q, strict=True)])
  assert (taken <= bound + 1e-12).all()
  assert taken.mean() > bound.mean() - 0.005
  t = tree_lib.branching([2])
  q, p, taken = q[:5], p[:5], taken[:5]
  in_turn, planned_for = (
    [expected(rule, t, *laws) - 1 for laws in zip(q, p, strict=True)]
    for rule in (VERIFIERS["traversal"], RULE)
  )
  np.testing.assert_allclose(planned_for, taken, atol=1e-12)
  assert np.mean(in_turn) < taken.mean() - 0.02


@pytest.mark.parametrize(("V", "scale"), [(3, 4), (5, 4), (30, 12)])
def test_a_plan_of_peaked_laws_takes_nearly_the_most(x64, V, scale):
  q, p = some_laws(V, 150, scale)
  made = jax.jit(jax.vmap(pairs.plan))(p, q)
  taken = np.asarray(made.taken).sum(axis=1)
  bound = np.array([most(*laws) for laws in zip(p, q, strict=True)])
  assert (taken <= bound + 1e-12).all()
  assert (taken > bound - 0.03).all()


def expected(rule, t, q, p):
  """Over all drafts of a family of two."""
  chances = q[:, None] * q[None] / (1 - q)[:, None]
  first, second = np.nonzero(~np.eye(len(q), dtype=bool))
  tokens = np.stack([0 * first, first, second], axis=1).astype(np.int32)
  laws = jnp.stack([q] * len(t)), jnp.stack([p] * len(t))

  @jax.jit
  @jax.vmap
  def stop(own):
    return rule.stop_law(t, PROPOSALS[WOR], own, *laws)

  return chances[first, second] @ (np.asarray(stop(tokens)) @ (t.depth + 1.0))


def test_tokens_that_share_a_z_cost_little(x64):
  q, p = some_laws(200)
  whole, part = (
    np.asarray(
      jax.jit(
        jax.vmap(functools.partial(pairs.plan, how=pairs.How(kept=kept)))
      )(p, q).taken
    ).sum(axis=1)
    for kept in (200, 64)
  )
  assert part.mean() > whole.mean() - 0.01


def test_no_row_is_sorted_for_its_largest_few():
  """On a CPU that took three quarters of a plan's time."""
  law = jnp.ones(512) / 512
  told = jax.jit(pairs.plan).lower(law, law).compile().as_text()
  assert "TopK" in told
  assert "sort(" not in told


def test_it_says_what_it_is_for():
  reason = misfit(RULE, tree_lib.chain(2), PROPOSALS["top_k"])
  assert "is defined for without_replacement only" in reason
