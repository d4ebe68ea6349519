"""The traversal with pairs planned for: exact arithmetic, optima, faults."""

import dataclasses
import functools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import oracle, quick
from tests import test_verifiers as battery
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  misfit,
  ot_traversal,
  ot_traversal_loop,
  pairs,
)

RULE = VERIFIERS["ot_traversal"]
FORMS = {"ot_traversal": ot_traversal, "ot_traversal_loop": ot_traversal_loop}
WOR = "without_replacement"
FEW = pairs.How(kept=2, steps=3)


every_form = pytest.mark.parametrize("rule", FORMS)


def planned(how, rule="ot_traversal"):
  """The rule with pairs planned for in another way."""
  return dataclasses.replace(
    VERIFIERS[rule],
    name="",
    decide=functools.partial(FORMS[rule].decide, how=how),
    stop_law=functools.partial(FORMS[rule].stop_law, how=how),
    loop=None,
  )


@pytest.fixture
def known(monkeypatch):
  """The rule as the oracle has it."""
  how = pairs.How(steps=0, lean=oracle.PAIR_LEAN)
  for rule in FORMS:
    monkeypatch.setitem(VERIFIERS, rule, planned(how, rule))
    monkeypatch.setitem(battery.METHOD, rule, "ot_traversal")
  battery.program.cache_clear()  # of the rules by these names
  yield
  battery.program.cache_clear()


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


def drawable(draft):
  """Whether no sibling is missing that can be drawn: no plan is for such."""
  for node in range(len(draft.parents)):
    missing = [
      draft.tokens[child] == oracle.NONE
      for child in oracle.children_of(draft.parents, node)
    ]
    if missing != sorted(missing):
      return False
  try:
    return bool(oracle.ot_traversal_offers(draft))
  except KeyError:
    return False


@every_form
@pytest.mark.parametrize("t", [battery.FIGURE_1, battery.LOPSIDED])
def test_oracle_agreement(x64, known, t, rule):
  rng = random.Random(len(t))
  drafts = [battery.random_draft(rng, t, WOR) for _ in range(60)]
  drafts = [draft for draft in drafts if drawable(draft)]
  assert len(drafts) > 10
  battery.assert_oracle_agrees(rule, t, drafts, WOR)


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


@every_form
def test_a_nan_is_reported_or_was_not_read(x64, rule):
  t, rng = battery.LOPSIDED, np.random.default_rng(14)
  lanes = battery.random_lanes(rng, t, 24, only=WOR)
  eta = rng.random((24, len(t))) ** 2
  clean = battery.run(rule, t, lanes, eta, WOR)
  assert not clean.fault.any()
  assert set(clean.node.tolist()) > {ROOT}
  for name in "qp":
    for row in range(len(t)):
      bad = battery.poisoned(lanes, name, row, 5)
      found = battery.run(rule, t, bad, eta, WOR)
      for values in (found.node, found.residual, found.accept, found.stop):
        assert not np.isnan(values).any(), (name, row)
      np.testing.assert_allclose(found.residual.sum(axis=1), 1, atol=1e-12)
      sound = ~found.fault
      np.testing.assert_array_equal(found.node[sound], clean.node[sound])
      for field in ("residual", "accept"):
        own, other = (getattr(x, field)[sound] for x in (found, clean))
        np.testing.assert_allclose(own, other, atol=1e-12)
      assert (found.node[found.fault] == ROOT).all()
      assert (found.accept[found.fault] == NOT_OFFERED).all()
      if name == "q" and t.num_children[row] == 0:
        assert not found.fault.any()  # rows of leaves are never read
      if name == "p":  # the accepted row is
        assert found.fault[clean.node == row].all()


@every_form
def test_on_chains_it_is_the_traversal(x64, rule):
  """Coin for coin."""
  rng = np.random.default_rng(2)
  lanes = battery.random_lanes(rng, battery.CHAIN, 300, only=WOR)
  eta = rng.random((300, len(battery.CHAIN)))
  found, other = (
    battery.run(one, battery.CHAIN, lanes, eta, WOR)
    for one in (rule, "traversal")
  )
  battery.assert_same(found, other, lanes)


@battery.every_tree
def test_both_forms_decide_alike(x64, t):
  """The loop's tree is an argument, padded, with NaN where no node is."""
  rng = np.random.default_rng(len(t))
  lanes = battery.random_lanes(rng, t, 48, only=WOR)
  eta = rng.random((48, len(t))) ** 2
  found, other = (battery.run(rule, t, lanes, eta, WOR) for rule in FORMS)
  assert not found.fault.any()
  assert len({*found.node.tolist()}) > 2
  battery.assert_same(found, other, lanes)


def test_both_forms_decide_alike_with_three_pairs_of_siblings(x64):
  t, rng = tree_lib.branching([6, 1]), np.random.default_rng(3)
  lanes = battery.random_lanes(rng, t, 200, only=WOR)
  eta = rng.random((200, len(t))) ** 2

  def decide(rule):
    one = functools.partial(VERIFIERS[rule].decide, t, PROPOSALS[WOR])
    return jax.jit(jax.vmap(one))(lanes.tokens, lanes.q, lanes.p, eta)

  found, other = map(decide, FORMS)
  assert {5, 6} & {*found.node.tolist()}
  np.testing.assert_array_equal(found.node, other.node)
  np.testing.assert_allclose(found.accept, other.accept, atol=1e-12)
  np.testing.assert_allclose(found.residual, other.residual, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_both_forms_decide_alike_in_float32(seed):
  """Of sure drafts with tiny tails, where both round."""
  t, rng = battery.LOPSIDED, np.random.default_rng(seed)
  lanes = battery.random_lanes(rng, t, 256, only=WOR)

  def harden(law):
    law = law.astype(np.float32) ** rng.choice([1, 4, 12], (256, len(t), 1))
    return (law / law.sum(axis=2, keepdims=True)).astype(np.float32)

  lanes = dataclasses.replace(lanes, q=harden(lanes.q), p=harden(lanes.p))
  eta = rng.random((256, len(t)))
  found, other = (battery.run(rule, t, lanes, eta, WOR) for rule in FORMS)
  assert not (found.fault | other.fault).any()
  np.testing.assert_allclose(found.stop, other.stop, atol=1e-5)
  assert (found.node == other.node).mean() > 0.99


@battery.every_tree
@pytest.mark.parametrize("poison", [None, "q", "p"])
@pytest.mark.parametrize("name", ["ot_traversal_loop", "traversal_loop"])
def test_a_decision_and_its_law_of_one_walk(x64, t, poison, name):
  """What either walk alone says, to the bit; a NaN behind the hit is unseen."""
  rng = np.random.default_rng(len(t))
  lanes = battery.random_lanes(rng, t, 32, only=WOR)
  eta = rng.random((32, len(t))) ** 2
  loop = VERIFIERS[name]

  @jax.jit
  @jax.vmap
  def alone(*lane):
    given = t, PROPOSALS[WOR], *lane
    return loop.decide(*given), loop.stop_law(*given[:-1])

  @jax.jit
  @jax.vmap
  def together(*lane):
    return loop.both(t, PROPOSALS[WOR], *lane)

  faults = set()
  for row in range(len(t)) if poison else [0]:
    own = battery.poisoned(lanes, poison, row, 5) if poison else lanes
    lane = own.tokens, own.q, own.p, eta
    one, other = ([*found(*lane)] for found in (alone, together))
    if name == "traversal_loop":
      # Only what the last division is fused with may differ.
      decided = one[0].residual, other[0].residual
      np.testing.assert_allclose(*decided, rtol=1e-15, atol=1e-16)
      other[0] = dataclasses.replace(other[0], residual=one[0].residual)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    faults |= {*np.asarray(one[0].fault).tolist()}
  assert (True in faults) == bool(poison)
  assert False in faults


# Lossless, and not when it is made wrong.

SMALL = certify.Settings(cases=18)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
  ("rule", "how"),
  [
    ("ot_traversal", pairs.USUAL),
    ("ot_traversal", FEW),
    ("ot_traversal_loop", FEW),  # of more steps it is held against the other
  ],
  ids=["usual", "few", "loop-few"],
)
@pytest.mark.parametrize(
  "tree", quick.shorter(["kary:2x2", "branching:3,1", "branching:4"], keep=1)
)
def test_it_is_lossless(tree, how, dtype, rule):
  settings = SMALL._replace(dtype=dtype, vocabulary=4 if tree[-1] == "4" else 3)
  with jax.enable_x64(dtype == np.float64):
    found = certify.check(planned(how, rule), WOR, tree, settings)
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
    found = certify.check(
      planned(FEW, "ot_traversal_loop"), WOR, tree, settings
    )
  assert found.failure is None
  assert found.method == "exact"


def not_cut(made):
  return made._replace(cut=jnp.ones_like(made.cut))


def takes_more_than_it_says(made):
  return made._replace(taken=made.taken / 2)


def of_another_z(made):
  return made._replace(z_others=made.z_others * 2)


@every_form
@pytest.mark.parametrize(
  "fault", [not_cut, takes_more_than_it_says, of_another_z]
)
def test_a_wrong_plan_is_caught(monkeypatch, fault, rule):
  make = pairs.plan
  monkeypatch.setattr(pairs, "plan", lambda *given: fault(make(*given)))
  with jax.enable_x64(True):
    found = certify.check(planned(FEW, rule), WOR, "branching:2", SMALL)
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
