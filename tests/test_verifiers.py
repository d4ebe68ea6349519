"""Verification rules against exact arithmetic, the paper's claims, each other.

That each rule is lossless, and that its coins and stop law agree, is certified
by enumeration in tests/test_certify.py.
"""

import functools
import itertools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import oracle, quick
from tests.battery import (
  CHAIN,
  FIGURE_1,
  HIGH,
  IID,
  NAMES,
  RULES,
  TREE_RULES,
  TREES,
  WOR,
  Results,
  V,
  all_drafts,
  as_lanes,
  assert_oracle_agrees,
  assert_same,
  poisoned,
  random_drafts,
  random_lanes,
  run,
)
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  toss_and_draw,
  verify,
)

every_rule = pytest.mark.parametrize("rule", RULES)


# The battery.


@pytest.mark.parametrize(
  ("rule", "name"),
  [
    pytest.param(rule, name, marks=[pytest.mark.long] * (name == "binary"))
    for rule, case in RULES.items()
    if case.method
    for name in case.trees
  ],
)
def test_oracle_agreement(x64, rule, name):
  t = RULES[rule].trees[name]
  drafts = random_drafts(rule, t, 8 if len(t) > 20 else 32, seed=len(t))
  if t is FIGURE_1:
    drafts.append(EXAMPLE)
  assert_oracle_agrees(rule, t, drafts)


# On a chain every rejection of the root is its last.
@pytest.mark.parametrize(
  ("rule", "t"),
  [(rule, case.tree) for rule, case in RULES.items()]
  + [(rule, CHAIN) for rule in TREE_RULES],
)
def test_a_nan_is_a_fault_and_a_plain_step_or_was_not_read(x64, rule, t):
  count, rng = 24, np.random.default_rng(14)
  lanes = random_lanes(rng, t, count, RULES[rule].proposals)
  eta = rng.random((count, len(t))) ** 2
  clean = run(rule, t, lanes, eta)
  assert not clean.fault.any()
  assert set(clean.node.tolist()) > {ROOT}
  places = [*itertools.product("qp", range(len(t)), [None, *range(V)])]
  spoiled = [poisoned(lanes, *place) for place in places]
  whole = jax.tree.map(lambda *arrays: np.concatenate(arrays), *spoiled)
  results = run(rule, t, whole, np.tile(eta, (len(places), 1)))
  # How near decisions with and without a NaN behind them are.
  tied = 1e-12 if rule.startswith("ot_traversal") else 0
  for i, (name, row, column) in enumerate(places):
    own = slice(i * count, (i + 1) * count)
    found = Results(*(array[own] for array in results))
    told = str((name, row, column))
    assert not any(np.isnan(array).any() for array in found), told
    for law in (found.stop, found.residual):
      assert (law >= 0).all()
      np.testing.assert_allclose(law.sum(axis=1), 1, atol=1e-12, err_msg=told)
    fault, sound = found.fault, ~found.fault
    assert (found.node[fault] == ROOT).all()
    assert (found.accept[fault] == NOT_OFFERED).all()
    # The bonus token then comes from what is finite in the root's law.
    p = np.nan_to_num(spoiled[i].p[:, ROOT])
    total = p.sum(axis=1, keepdims=True)
    plain = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / V)
    np.testing.assert_allclose(
      found.residual[fault], plain[fault], atol=1e-12, err_msg=told
    )
    # No fault: the decision is that of the clean laws, NaN or not.
    np.testing.assert_array_equal(found.node[sound], clean.node[sound])
    for field in ("residual", "accept"):
      own, other = (getattr(one, field)[sound] for one in (found, clean))
      np.testing.assert_allclose(own, other, rtol=0, atol=tied, err_msg=told)
    if name == "q" and t.num_children[row] == 0:
      assert sound.all()  # rows of leaves are never read
    if name == "p":  # the accepted row is
      assert fault[clean.node == row].all()


@pytest.mark.optimised
@every_rule
def test_a_nan_is_seen_in_a_vocabulary_of_real_size(rule):
  """Long rows may be summed by another library than short ones.

  XLA gives some sums to YNNPACK on a CPU; its max(NaN, 0) is 0.
  """
  t, size = tree_lib.chain(2), 32_000
  rng = np.random.default_rng(16)
  q, p = rng.dirichlet(np.ones(size), (2, 3)).astype("f4")
  tokens = np.array([INVALID, 5, 9], np.int32)
  proposal = PROPOSALS[RULES[rule].proposals[0]]
  decide = jax.jit(
    functools.partial(RULES[rule].rule.decide, t, proposal),
    compiler_options=quick.AS_USERS,
  )
  for node in (0, 1):  # entries of about a half, and a quarter
    p[node, tokens[node + 1]] = q[node, tokens[node + 1]] / 2
  for coin in (0.0, 0.99):  # accepts the leaf; accepts nothing
    eta = np.full(3, coin, np.float32)
    clean = decide(jnp.asarray(tokens), q, p, eta)
    assert clean.node == (0 if coin else 2)
    assert not clean.fault
    for name, row in [("p", 0), ("p", 1), ("p", 2), ("q", 0), ("q", 1)]:
      laws = {"q": q.copy(), "p": p.copy()}
      laws[name][row, 777] = np.nan
      decision = decide(jnp.asarray(tokens), laws["q"], laws["p"], eta)
      if decision.fault:
        assert decision.node == ROOT
        assert abs(decision.residual.sum() - 1) < 1e-4
      else:  # then it was not read
        assert (name, row) != ("p", int(clean.node))
        for field in ("node", "residual", "accept"):
          np.testing.assert_array_equal(
            getattr(decision, field), getattr(clean, field), str((name, row))
          )


# The rules against each other.


@pytest.mark.parametrize(
  ("rule", "other", "name"),
  [
    ("traversal", "traversal_loop", "eagle"),
    ("token_level", "token_level_loop", "eagle"),
    ("traversal", "block", "chain"),
    ("traversal_loop", "block", "chain"),
    ("layer_walk", "block", "chain"),
    ("ot_traversal", "block", "chain"),
    ("gbv", "block", "chain"),
    ("k_seq", "token_level", "chain"),
  ],
)
def test_rules_that_are_one_take_the_same_decisions(x64, rule, other, name):
  """The two forms of a rule, and what it is on a chain: coin for coin."""
  t, rng, size = TREES[name], np.random.default_rng(0), 1024
  lanes = random_lanes(rng, t, size, RULES[rule].proposals)
  first = run(rule, t, lanes, np.full((size, len(t)), HIGH))
  assert_same(first, run(other, t, lanes, np.full((size, len(t)), HIGH)))
  # Coins as small as what they must beat, or every walk would end at once;
  # then a hair above and below thresholds.
  eta = rng.random((size, len(t))) ** rng.choice([0.1, 1, 3], (size, 1))
  hair = np.where(rng.random(eta.shape) < 0.5, 1 + 1e-9, 1 - 1e-9)
  near = np.clip(first.accept, 0, HIGH) * hair
  aimed = rng.integers(1, len(t), size)[:, None] == np.arange(len(t))
  for coins in (eta, near, np.where(aimed, near, eta)):
    coins = np.clip(coins, 0, HIGH)
    own = run(rule, t, lanes, coins)
    assert_same(own, run(other, t, lanes, coins))
    assert len(set(own.node.tolist())) > len(t) / 2


# What the paper says and proves.

A, B, C = range(3)
TARGET = oracle.norm([Fraction(w) for w in (3, 4, 3)])
SOURCE = oracle.norm([Fraction(w) for w in (6, 3, 1)])
EXAMPLE = oracle.Draft(
  FIGURE_1.parents,
  (INVALID, A, C, B, C, A),
  (SOURCE,) * 6,
  (TARGET,) * 6,
  WOR,
)


@pytest.mark.parametrize("method", ["traversal", "token_level"])
def test_the_oracle_is_lossless(method):
  """Theorem 1, to the last digit: the oracle may judge."""
  trees = [(-1, 0, 1), (-1, 0, 0, 1, 1), (-1, 0, 0, 0)]
  for proposal, parents in itertools.product(NAMES, trees):
    language = oracle.random_language(random.Random(0), 3)
    own = oracle.output_law(parents, proposal, language, method)
    assert own == oracle.target_output_law(parents, language)


def test_the_oracle_gives_the_papers_example():
  offers = oracle.traversal_offers(EXAMPLE)
  assert [(o.node, o.threshold) for o in offers[:-1]] == [
    (3, Fraction(2, 3)),
    (4, Fraction(7, 11)),
    (1, Fraction(0)),
    (5, Fraction(1, 2)),
    (2, Fraction(1)),
  ]
  # Section 2.2: after a, the target is [0, 1/3, 2/3].
  laws = (SOURCE,) * 3, (TARGET,) * 3
  alone, after_a = (
    oracle.token_level_offers(
      oracle.Draft((-1, 0, 0), (INVALID, A, second), *laws, WOR), ROOT
    )
    for second in (INVALID, B)
  )
  assert alone[-1].residual == (0, Fraction(1, 3), Fraction(2, 3))
  assert after_a[1].threshold == Fraction(4, 9)


@pytest.mark.parametrize("rule", ["traversal", "traversal_loop"])
@pytest.mark.parametrize("proposal", NAMES)
def test_lemma_2(x64, rule, proposal):
  """P(accepted at or below the l-th node of the first chain) = p_ini(l).

  Given the first chain down to that node, and on average over all the rest of
  the tree, what hangs below the node included.
  """
  language = oracle.random_language(random.Random(7), 3, zeros=0.1)
  chances, drafts = all_drafts(FIGURE_1, proposal, language)
  stop = run(rule, FIGURE_1, as_lanes(drafts), np.zeros((len(drafts), 6))).stop
  below = {node: FIGURE_1.ancestors[:, node] for node in (1, 3)}
  averages = {}
  for chance, draft, law in zip(chances, drafts, stop, strict=True):
    for node, rate in oracle.rates_of_first_chain(draft):
      chain = oracle.path_tokens(draft, node)
      weight, total, _ = averages.get(chain, (0, 0, None))
      total += chance * law[below[node]].sum()
      averages[chain] = (weight + chance, total, float(rate))
  assert {len(chain) for chain in averages} == {1, 2}
  for chain, (weight, total, rate) in averages.items():
    assert total / weight == pytest.approx(rate, abs=1e-12), chain


def test_traversal_is_not_always_longer_on_trees(x64):
  t = tree_lib.from_parents([-1, 0, 1, 1])
  laws = {
    "q": ((10, 0, 0, 0), (1, 6, 3, 0)),
    "p": ((95, 0, 0, 5), (2, 2, 3, 3)),
  }

  def law(name):
    rows = [oracle.norm([Fraction(w) for w in row]) for row in laws[name]]
    return lambda context: rows[min(len(context), 1)]

  language = law("q"), law("p")
  chances, drafts = all_drafts(t, WOR, language)
  lengths = {}
  for rule in ("traversal", "traversal_loop", "token_level"):
    stop = run(rule, t, as_lanes(drafts), np.zeros((len(drafts), 4))).stop
    lengths[rule] = chances @ stop @ (t.depth + 1)
  assert round(lengths["traversal"], 5) == 2.61397
  assert lengths["traversal_loop"] == pytest.approx(lengths["traversal"])
  assert lengths["token_level"] == pytest.approx(2.615, abs=1e-12)


# The entry `verify`.


def a_draft(**spoilt):
  """A draft, and in it `name=(place, value)`."""
  rng = np.random.default_rng(0)
  q, p = rng.dirichlet(np.ones(V), (2, 6)).astype("f4")
  tokens = rng.integers(V, size=6).astype(np.int32)
  draft = {"tokens": tokens, "q": q, "p": p}
  for name, (place, value) in spoilt.items():
    draft[name][place] = value
  return draft


def checked(rule="traversal", proposal="top_k", **draft):
  whole = a_draft() | draft
  return verify(jax.random.key(0), rule, FIGURE_1, proposal, **whole)


@pytest.mark.parametrize(
  ("given", "message"),
  [
    (a_draft(p=((1, 2), -0.25)), r"p\[1\] holds -0.25"),
    (a_draft(p=((2, slice(None)), 0.2)), r"p\[2\] sums to 1.6, not to 1"),
    (a_draft(q=((1, 3), np.nan)), r"q\[1\] holds a NaN"),
    (a_draft(tokens=(4, V)), f"node 4 has token {V}"),
    (a_draft(tokens=(1, INVALID)), "node 3 has token . below node 1"),
    ({"tokens": np.zeros(5, np.int32)}, r"tokens are int32\[5\]"),
    ({"rule": "greedy"}, r"verifier 'greedy': not one of .*token_level"),
    ({"proposal": "beam"}, "proposal 'beam': not one of without_"),
    ({"rule": "block"}, r"for chains only, .* Tree\(6"),
  ],
)
def test_verify_refuses_what_it_cannot_judge(given, message):
  with pytest.raises(ValueError, match=message):
    checked(**given)


def test_verify_reads_no_more_than_it_needs():
  """Near laws, rows of leaves and of what was not drawn; all rules alike."""
  draft = a_draft(
    tokens=([2, 5], INVALID),
    q=([3, 4, 2, 5], np.nan),
    p=([2, 5], np.nan),
  )
  draft["p"] *= np.float32(0.9995)
  verdicts = [
    checked(rule, proposal, **draft)
    for rule, proposal in [
      ("traversal", IID),
      (VERIFIERS["traversal"], PROPOSALS[IID]),
      (VERIFIERS["traversal"].decide, IID),
    ]
  ]
  assert len({str(verdict) for verdict in verdicts}) == 1
  verdict = verdicts[0]
  assert verdict.length == FIGURE_1.depth[verdict.node] + 1
  assert not verdict.fault
  # Traced values are not looked at: the verdict says what is wrong.
  broken = a_draft(p=(ROOT, np.nan))
  verdict = jax.jit(lambda draft: checked(**draft))(broken)
  assert verdict.fault
  assert (verdict.node, verdict.length) == (ROOT, 1)


def test_the_first_token_follows_the_target():
  """20,000 cycles: drafts by `draw`, coins and bonus by `toss_and_draw`."""
  t, n, own, rule = FIGURE_1, 20_000, PROPOSALS[WOR], VERIFIERS["traversal"]
  rng = np.random.default_rng(15)
  # A language of one step of memory: after token x, rows q[x] and p[x].
  q, p = rng.dirichlet(np.ones(5), (2, 6)).astype("f4")

  def cycle(key):
    key, *draws = jax.random.split(key, 1 + 3)
    tokens = jnp.full(len(t), 5, jnp.int32)  # the root's own row
    for node, draw in zip((0, 1, 2), draws, strict=True):
      k = int(t.num_children[node])
      law = jnp.asarray(q)[tokens[node]]
      tokens = tokens.at[t.children[node, :k]].set(own.draw(draw, law, k))
    laws = jnp.asarray(q)[tokens], jnp.asarray(p)[tokens]
    verdict = toss_and_draw(key, rule.decide, t, own, tokens, *laws)
    above = jnp.asarray(t.ancestors)[verdict.node]
    first = jnp.where(above[1], tokens[1], tokens[2])
    return jnp.where(verdict.length > 1, first, verdict.token)

  tokens = jax.jit(jax.vmap(cycle))(jax.random.split(jax.random.key(0), n))
  counts = np.bincount(tokens, minlength=5)
  sigma = np.sqrt(n * p[5] * (1 - p[5]))
  assert (np.abs(counts - n * p[5]) <= 5 * sigma).all()


# What once went wrong.


@pytest.mark.parametrize("rule", ["traversal", "traversal_loop"])
def test_a_tiny_chance_is_no_fault(rule):
  t = tree_lib.from_parents([-1, 0, 1, 1, 1, 1])
  p, q = np.full((2, 6, 8), 1 / 8, np.float32)
  p[0], q[0] = [2e-38, 1, 0, 0, 0, 0, 0, 0], np.eye(8)[0]
  tokens = np.array([0, 0, 1, 2, 3, 4], np.int32)
  decide = jax.jit(VERIFIERS[rule].decide, static_argnums=(0, 1))
  decision = decide(t, PROPOSALS[WOR], tokens, q, p, jnp.zeros(6))
  assert not decision.fault
  assert abs(float(decision.residual.sum()) - 1) < 1e-5
