"""Verification rules against exact arithmetic, the paper's claims, each other.

One table of all rules, proposals and trees (tests/battery.py), and one battery
of properties; then what single rules promise.
"""

import dataclasses
import functools
import itertools
import random
import time
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from tests import oracle, quick
from tests.battery import (
  CHAIN,
  FIGURE_1,
  HIGH,
  IID,
  LOOPS,
  LOW,
  NAMES,
  NODES,
  RULES,
  TREE_RULES,
  TREES,
  WIDTH,
  WOR,
  Lanes,
  Results,
  V,
  aims,
  all_drafts,
  as_lanes,
  assert_oracle_agrees,
  assert_same,
  coins_near,
  hardened,
  judge,
  padded,
  poisoned,
  random_draft,
  random_drafts,
  random_lanes,
  random_law,
  random_pair,
  random_tokens,
  run,
  sibling_laws,
)
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  chains_only,
  check_draft,
  toss_and_draw,
  verify,
)

every_rule = pytest.mark.parametrize("rule", RULES)
every_tree_rule = pytest.mark.parametrize("rule", TREE_RULES)
every_tree = pytest.mark.parametrize(
  "t", quick.shorter([*TREES.values()], keep=4), ids=TREES
)
every_rule_on_every_tree = pytest.mark.parametrize(
  ("rule", "name"),
  [
    pytest.param(
      rule, name, marks=[pytest.mark.long] * (name in ("binary", "branching"))
    )
    for rule, case in RULES.items()
    for name in case.trees
  ],
)


# The battery.


@every_rule_on_every_tree
def test_oracle_agreement(x64, rule, name):
  t = RULES[rule].trees[name]
  drafts = random_drafts(rule, t, 8 if len(t) > 20 else 32, seed=len(t))
  assert_oracle_agrees(rule, t, drafts)


@every_rule
def test_a_coin_hits_below_its_threshold_and_not_at_it(x64, rule):
  t, rng = RULES[rule].tree, np.random.default_rng(3)
  lanes = random_lanes(rng, t, 200, RULES[rule].proposals)
  coins = rng.random((200, len(t)))
  first = run(rule, t, lanes, coins)
  hit = np.flatnonzero(first.node != ROOT)
  lanes, coins, node = lanes[hit], coins[hit], first.node[hit]
  threshold = first.accept[hit, node]
  assert (coins[np.arange(len(hit)), node] < threshold).all()
  assert len(hit) > 50

  coins[np.arange(len(hit)), node] = np.nextafter(threshold, 0)
  np.testing.assert_array_equal(run(rule, t, lanes, coins).node, node)
  coins[np.arange(len(hit)), node] = threshold
  assert (run(rule, t, lanes, coins).node != node).all()


@every_rule
def test_a_coin_of_zero_misses_what_has_no_chance(x64, rule):
  """Disjoint laws: nothing can be accepted, not even by a coin of 0."""
  t, rng = RULES[rule].tree, np.random.default_rng(4)
  lanes = random_lanes(rng, t, 64, RULES[rule].proposals)
  half = np.arange(V) < V // 2
  q = np.where(half, lanes.q + 0.1, 0)
  p = np.where(half, 0, lanes.p + 0.1)
  q, p = (law / law.sum(axis=2, keepdims=True) for law in (q, p))
  tokens = lanes.tokens.copy()
  for node in range(len(t)):
    for child, law in sibling_laws(t, node, lanes.which, q[:, node], tokens):
      tokens[:, child] = np.argmax(law, axis=1)
  lanes = Lanes(tokens, q, p, lanes.which)
  results = run(rule, t, lanes, np.zeros((64, len(t))))
  assert (results.node == ROOT).all()
  assert np.isin(results.accept, [0, NOT_OFFERED]).all()
  np.testing.assert_allclose(results.residual, p[:, 0], atol=1e-15)
  np.testing.assert_array_equal(results.stop, [np.arange(len(t)) == ROOT] * 64)


@every_rule
def test_the_stop_law_is_the_law_of_the_coins(x64, rule):
  t, rng = RULES[rule].tree, np.random.default_rng(6)
  count, N = 16, len(t)
  lanes = random_lanes(rng, t, count, RULES[rule].proposals)
  # One coin is low or high for each drafted node; the root has none.
  patterns = np.array(
    [
      (0.0, *coins)
      for coins in itertools.product([0, 1 - 2**-53], repeat=N - 1)
    ]
  )
  results = run(
    rule, t, lanes.repeat(len(patterns)), np.tile(patterns, (count, 1))
  )
  low = np.tile(patterns, (count, 1)) == 0
  offered = results.accept != NOT_OFFERED
  weight = np.where(low, results.accept, 1 - results.accept)
  weight = np.where(offered, weight, 0.5)[:, 1:].prod(axis=1)
  weight = weight.reshape(count, -1)
  node = results.node.reshape(count, -1)
  law = (weight[:, :, None] * (node[:, :, None] == np.arange(N))).sum(axis=1)
  stop = results.stop.reshape(count, -1, N)
  np.testing.assert_allclose(law, stop[:, 0], atol=1e-12)
  np.testing.assert_allclose(stop[:, 0].sum(axis=1), 1, atol=1e-12)
  np.testing.assert_array_equal(stop, stop[:, :1].repeat(len(patterns), axis=1))


@pytest.mark.parametrize("rule", quick.shorter([*RULES], keep=3))
def test_float32_keeps_to_the_bounds(rule):
  t, rng = RULES[rule].tree, np.random.default_rng(27)
  lanes = hardened(rng, random_lanes(rng, t, 2048, RULES[rule].proposals))
  # Tokens were drawn from the milder laws: one may have no chance any more.
  eta = rng.random((2048, len(t))) ** 3
  results = run(rule, t, lanes, eta)
  assert not results.fault.any()
  offered = results.accept != NOT_OFFERED
  assert ((results.accept >= 0) & (results.accept <= 1))[offered].all()
  assert (results.residual >= 0).all()
  np.testing.assert_allclose(results.residual.sum(axis=1), 1, atol=1e-5)
  np.testing.assert_allclose(results.stop.sum(axis=1), 1, atol=1e-5)
  row = np.take_along_axis(lanes.p, results.node[:, None, None], axis=1)[:, 0]
  assert not results.residual[row == 0].any()


@pytest.mark.parametrize("rule", quick.shorter([*RULES][::-1]))
def test_eager_is_the_same_as_compiled(x64, rule):
  # Eager code compiles operation by operation: the smallest trees.
  t = tree_lib.kary(2, 1) if rule == "token_level" else tree_lib.chain(1)
  rng, proposals = np.random.default_rng(10), RULES[rule].proposals[:1]
  lanes = random_lanes(rng, t, 1, proposals)
  eta = rng.random((1, len(t)))
  compiled = run(rule, t, lanes, eta)
  eager = RULES[rule].rule.decide(
    t,
    PROPOSALS[proposals[0]],
    *(jnp.asarray(x[0]) for x in (lanes.tokens, lanes.q, lanes.p, eta)),
  )
  for field in ("node", "residual", "accept", "fault"):
    np.testing.assert_allclose(
      getattr(eager, field),
      getattr(compiled, field)[0],
      atol=1e-15,
      err_msg=field,
    )


@every_rule
def test_a_batch_is_a_loop(x64, rule):
  """A lane decides alike whatever trees of tokens are beside it."""
  t, rng = RULES[rule].tree, np.random.default_rng(13)
  proposals = RULES[rule].proposals[:1]
  lanes = random_lanes(rng, t, 16, proposals)
  eta = rng.random((16, len(t)))
  together = run(rule, t, lanes, eta)
  single = jax.jit(
    functools.partial(judge, RULES[rule].rule, t, PROPOSALS[proposals[0]]),
  )
  for lane in range(16):
    alone = single(lanes.tokens[lane], lanes.q[lane], lanes.p[lane], eta[lane])
    for field in dataclasses.fields(Results):
      np.testing.assert_allclose(
        getattr(alone, field.name),
        getattr(together, field.name)[lane],
        atol=1e-15,
        err_msg=field.name,
      )


# What is not a number.


def tied(rule):
  """How near decisions with and without a NaN behind them are."""
  return 1e-12 if RULES[rule].method == "ot_traversal" else 0


@functools.cache
def poisoned_results(rule, t):
  """Every place of a NaN: (clean lanes, their results, results by place)."""
  count, rng = 24, np.random.default_rng(14)
  lanes = random_lanes(rng, t, count, RULES[rule].proposals)
  eta = rng.random((count, len(t))) ** 2
  places = [*itertools.product("qp", range(len(t)), [None, *range(V)])]
  spoiled = [poisoned(lanes, *place) for place in places]
  whole = Lanes(
    *(
      np.concatenate([getattr(part, field.name) for part in spoiled])
      for field in dataclasses.fields(Lanes)
    )
  )
  results = run(rule, t, whole, np.tile(eta, (len(places), 1)))
  clean = run(rule, t, lanes, eta)
  by_place = {
    place: jax.tree.map(
      lambda array, i=i: array[i * count : (i + 1) * count], results
    )
    for i, place in enumerate(places)
  }
  return lanes, clean, by_place


# On a chain every rejection of the root is its last.
every_rule_and_shape = pytest.mark.parametrize(
  ("rule", "t"),
  [(rule, case.tree) for rule, case in RULES.items()]
  + [(rule, CHAIN) for rule in TREE_RULES],
)


@every_rule_and_shape
def test_a_nan_is_a_fault_and_a_plain_step_or_was_not_read(x64, rule, t):
  lanes, clean, by_place = poisoned_results(rule, t)
  assert not clean.fault.any()
  assert set(clean.node.tolist()) > {ROOT}
  for place, found in by_place.items():
    name, row, column = place
    for field in dataclasses.fields(Results):
      assert not np.isnan(getattr(found, field.name)).any(), (place, field.name)
    for law in (found.stop, found.residual):
      assert (law >= 0).all()
      np.testing.assert_allclose(
        law.sum(axis=1), 1, atol=1e-12, err_msg=str(place)
      )
    fault, sound = found.fault, ~found.fault
    assert (found.node[fault] == ROOT).all()
    assert (found.accept[fault] == NOT_OFFERED).all()
    # The bonus token then comes from what is finite in the root's law.
    p = np.nan_to_num(poisoned(lanes, name, row, column).p[:, ROOT])
    total = p.sum(axis=1, keepdims=True)
    plain = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / V)
    np.testing.assert_allclose(
      found.residual[fault], plain[fault], atol=1e-12, err_msg=str(place)
    )
    # No fault: the decision is that of the clean laws, NaN or not.
    np.testing.assert_array_equal(found.node[sound], clean.node[sound])
    for field in ("residual", "accept"):
      own, other = (getattr(one, field)[sound] for one in (found, clean))
      np.testing.assert_allclose(
        own, other, rtol=0, atol=tied(rule), err_msg=f"{field} {place}"
      )
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
  tokens = np.int32([INVALID, 5, 9])
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
      laws = {"q": q, "p": p}
      laws[name] = spoiled(laws[name], (row, 777), np.nan)
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


@every_tree
@pytest.mark.parametrize("rule", ["traversal", "token_level", "ot_traversal"])
def test_loops_take_the_same_decisions(x64, rule, t):
  """10,240 drafts over five trees and all proposals; figure 1 on top."""
  rng = np.random.default_rng([len(t), len(rule)])
  traced = f"{rule}_loop" if f"{rule}_loop" in RULES else f"{rule}, traced"
  lanes = random_lanes(rng, t, 2048, RULES[rule].proposals)
  # Coins as small as what they must beat, or every walk would end at once.
  eta = rng.random((2048, len(t))) ** rng.choice([0.1, 1, 3], (2048, 1))
  all_at_once = run(rule, t, lanes, eta)
  assert not all_at_once.fault.any()
  assert_same(all_at_once, run(traced, t, lanes, eta), lanes)
  np.testing.assert_allclose(all_at_once.residual.sum(axis=1), 1, atol=1e-12)
  assert set(all_at_once.node.tolist()) == set(range(len(t)))


@pytest.mark.parametrize(
  ("rule", "other"),
  [
    ("traversal", "block"),
    ("traversal_loop", "block"),
    ("layer_walk", "block"),
    ("ot_traversal", "block"),
    ("ot_traversal, traced", "block"),
    ("gbv", "block"),
    ("k_seq", "token_level"),
  ],
)
def test_on_chains_rules_are_one(x64, rule, other):
  """Coin for coin."""
  rng, size = np.random.default_rng(0), (1024, len(CHAIN))
  lanes = random_lanes(rng, CHAIN, 1024, RULES[rule].proposals)
  first = run(rule, CHAIN, lanes, np.full(size, HIGH))
  assert_same(first, run(other, CHAIN, lanes, np.full(size, HIGH)), lanes)
  # Coins a hair above and below some node's threshold, random before it.
  eta, near = rng.random(size), coins_near(first, rng)
  aimed = rng.integers(1, len(CHAIN), 1024)[:, None] == np.arange(len(CHAIN))
  above = np.maximum(near, np.clip(first.accept, 0, HIGH) * (1 + 1e-9))
  for coins in (eta, near, np.where(aimed, near, eta), above):
    coins = np.clip(coins, 0, HIGH)
    own, theirs = (run(name, CHAIN, lanes, coins) for name in (rule, other))
    assert_same(own, theirs, lanes)
    assert len(set(own.node.tolist())) > 1 or coins is above


@every_tree_rule
def test_a_node_without_a_token_is_as_good_as_none(x64, rule):
  """INVALID changes nothing: a smaller tree within decides alike."""
  small, large = FIGURE_1, tree_lib.EAGLE_SPARSE
  place = np.array([0, 1, 3, 5, 7, 11])  # with gaps among the siblings
  np.testing.assert_array_equal(
    large.parent[place[1:]], place[small.parent[1:]]
  )
  rng = random.Random(2)
  names = "with_replacement", "without_replacement"
  drafts = [random_draft(rng, small, names[case % 2]) for case in range(60)]
  lanes = as_lanes(drafts)
  coins = np.array([[rng.random() for _ in place] for _ in drafts])
  size = len(drafts), len(large)
  tokens, eta = np.full(size, INVALID, np.int32), np.zeros(size)
  q, p = np.full((2, *size, V), 1 / V)
  tokens[:, place], eta[:, place] = lanes.tokens, coins
  q[:, place], p[:, place] = lanes.q, lanes.p
  one = run(rule, small, lanes, coins)
  other = run(rule, large, Lanes(tokens, q, p, lanes.which), eta)
  np.testing.assert_array_equal(place[one.node], other.node)
  np.testing.assert_allclose(one.residual, other.residual, atol=1e-12)
  np.testing.assert_allclose(one.accept, other.accept[:, place], atol=1e-12)
  absent = np.setdiff1d(np.arange(len(large)), place)
  assert (other.accept[:, absent] == NOT_OFFERED).all()


@pytest.mark.parametrize("rule", LOOPS)
def test_a_new_tree_does_not_recompile_a_loop(x64, rule):
  traces = []

  @jax.jit
  def decide(topology, tokens, q, p, eta):
    traces.append(topology)
    proposal = PROPOSALS["without_replacement"]
    return VERIFIERS[rule].decide(topology, proposal, tokens, q, p, eta)

  rng = np.random.default_rng(8)
  for t in TREES.values():
    lanes = random_lanes(rng, t, 1, [WOR])
    eta = rng.random((1, len(t)))
    expected = run(rule, t, lanes, eta)
    decision = decide(
      t.topology(nodes=NODES, width=WIDTH),
      padded(lanes.tokens[0], NODES, INVALID),
      padded(lanes.q[0], NODES, 1 / V),
      padded(lanes.p[0], NODES, 1 / V),
      padded(eta[0], NODES),
    )
    assert decision.node == expected.node[0]
    np.testing.assert_allclose(
      decision.accept[: len(t)], expected.accept[0], atol=1e-15
    )
    assert (decision.accept[len(t) :] == NOT_OFFERED).all()
    np.testing.assert_allclose(
      decision.residual, expected.residual[0], atol=1e-15
    )
  assert len(traces) == 1


@pytest.mark.parametrize("rule", quick.shorter(TREE_RULES))
@pytest.mark.parametrize(
  "proposal", quick.shorter(["without_replacement", "with_replacement"])
)
def test_oracle_agreement_by_rest_from(x64, rule, proposal):
  """The chosen proposal of all other tests asks for `rest` from the start."""
  assert PROPOSALS[proposal].rest_from > 0
  rng = random.Random(proposal)
  drafts = [random_draft(rng, FIGURE_1, proposal) for _ in range(32)]
  assert_oracle_agrees(rule, FIGURE_1, drafts, proposal)


@pytest.mark.parametrize("rule", LOOPS)
def test_oracle_agreement_on_random_trees(x64, rule):
  rng = random.Random(5)
  for _ in range(25):
    t = random_tree(rng, nodes=rng.randint(2, 10))
    drafts = [random_draft(rng, t, proposal) for proposal in NAMES]
    assert_oracle_agrees(rule, t, drafts)


def random_tree(rng, nodes):
  """Nodes hung anywhere, then put in level order; at most WIDTH children."""
  paths = [()]
  while len(paths) < nodes:
    parent = rng.choice(paths)
    rank = sum(path[:-1] == parent for path in paths if path)
    if rank < WIDTH:
      paths.append((*parent, rank))
  return tree_lib.from_paths(paths)


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_oracle_agreement_of_block(x64, depth):
  rng = random.Random(depth)
  t = tree_lib.chain(depth)
  drafts = [
    random_draft(rng, t, NAMES[case % len(NAMES)]) for case in range(60)
  ]
  assert_oracle_agrees("block", t, drafts)


# The paper's examples.

A, B, C = range(3)
TARGET = oracle.norm([Fraction(w) for w in (3, 4, 3)])
SOURCE = oracle.norm([Fraction(w) for w in (6, 3, 1)])
EXAMPLE = oracle.Draft(
  FIGURE_1.parents,
  (INVALID, A, C, B, C, A),
  (SOURCE,) * 6,
  (TARGET,) * 6,
  "without_replacement",
)
EXAMPLE_OFFERS = [
  (3, Fraction(2, 3)),
  (4, Fraction(7, 11)),
  (1, Fraction(0)),
  (5, Fraction(1, 2)),
  (2, Fraction(1)),
]


def test_the_oracle_gives_the_papers_example():
  offers = oracle.traversal_offers(EXAMPLE)
  assert [(o.node, o.threshold) for o in offers[:-1]] == EXAMPLE_OFFERS
  # p'(X1) = 1/11 once X3 is gone: the rate that X4's own is taken from.
  state = oracle._Tree(EXAMPLE)
  state.delete(3)
  assert state.rate[1] == Fraction(1, 11)
  # Section 2.2: after a, the target is [0, 1/3, 2/3].
  assert oracle.token_level_offers(
    dataclasses.replace(EXAMPLE, tokens=(INVALID, A, INVALID, *[INVALID] * 3)),
    ROOT,
  )[-1].residual == (0, Fraction(1, 3), Fraction(2, 3))
  after_a = dataclasses.replace(EXAMPLE, tokens=(INVALID, A, B, *[INVALID] * 3))
  assert oracle.token_level_offers(after_a, ROOT)[1].threshold == Fraction(4, 9)


@pytest.mark.parametrize("rule", ["traversal", "traversal_loop"])
def test_the_papers_example(x64, rule):
  order = [node for node, _ in EXAMPLE_OFFERS]
  lanes = as_lanes([EXAMPLE]).repeat(5)
  coins = np.full((5, 6), HIGH)
  coins[np.arange(5), order] = 0
  results = run(rule, FIGURE_1, lanes, coins)
  everything = dict(EXAMPLE_OFFERS)
  for aim, node in enumerate(order):
    # X1's chance is exactly 0 by then: a coin of 0 rejects it, X5 comes next
    # and misses, and X2 is certain.
    stop, last = (2, 5) if node == 1 else (node, aim + 1)
    assert results.node[aim] == stop
    expected = np.full(6, NOT_OFFERED)
    for seen in order[:last]:
      expected[seen] = everything[seen]
    np.testing.assert_allclose(results.accept[aim], expected, atol=1e-15)
  assert results.accept[4, 1] == 0


@pytest.mark.parametrize("rule", [*TREE_RULES, "block"])
def test_table_1(x64, rule):
  t = tree_lib.chain(1)
  laws = {"q": (SOURCE, SOURCE), "p": (TARGET, TARGET)}
  drafts = [
    oracle.Draft(t.parents, (INVALID, x), **laws, proposal="with_replacement")
    for x in (A, B, C)
  ]
  lanes = as_lanes(drafts).repeat(2)
  results = run(rule, t, lanes, np.tile([[0.0, 0.0], [0.0, HIGH]], (3, 1)))
  joint = np.zeros((3, 3))
  for x in (A, B, C):
    entered, missed = results.accept[2 * x, 1], 2 * x + 1
    assert results.node[2 * x] == 1
    joint[x, x] += float(SOURCE[x]) * entered
    if entered < 1:
      joint[x] += (
        float(SOURCE[x]) * (1 - entered) * results.residual[missed, :3]
      )
  np.testing.assert_allclose(
    joint.T, [[0.3, 0, 0], [0.1, 0.3, 0], [0.2, 0, 0.1]], atol=1e-15
  )


# The oracle.


@pytest.mark.parametrize("proposal", NAMES)
@pytest.mark.parametrize(
  "method", ["traversal", "token_level", "block", "layer_walk"]
)
def test_the_oracle_is_lossless(method, proposal):
  """Theorem 1, to the last digit: the oracle may judge."""
  chains = [(-1, 0), (-1, 0, 1)]
  trees = [(-1, 0, 0, 1, 1), (-1, 0, 0, 0), (-1, 0, 1, 1), (-1, 0, 0, 1, 2)]
  for parents in chains if method == "block" else chains + trees:
    for seed in range(2):
      language = oracle.random_language(random.Random(seed), 3)
      assert oracle.output_law(
        parents, proposal, language, method
      ) == oracle.target_output_law(parents, language)


@pytest.mark.parametrize("proposal", NAMES)
def test_the_oracles_block_is_its_traversal_on_chains(proposal):
  rng = random.Random(0)
  for _ in range(60):
    draft = random_draft(rng, CHAIN, proposal)
    certain = False
    for block, traversal in zip(
      oracle.block_offers(draft), oracle.traversal_offers(draft), strict=True
    ):
      if not certain:
        assert block == traversal
      certain |= block.threshold == 1


# What the paper proves.


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


@every_tree_rule
@pytest.mark.parametrize("proposal", NAMES)
def test_lossless(x64, rule, proposal):
  """Theorem 1 for the rules as they are, averaged over all drafts."""
  t, N = FIGURE_1, len(FIGURE_1)
  language = oracle.random_language(random.Random(11), 3)
  chances, drafts = all_drafts(t, proposal, language)
  results = run(
    rule, t, as_lanes(drafts).repeat(N), np.tile(aims(t), (len(drafts), 1))
  )
  law = np.zeros((3, 3, 3))
  continuations = functools.cache(
    lambda start: oracle.continuation_law(language[1], start, 3 - len(start))
  )
  for case, draft in enumerate(drafts):
    for node in range(N):
      lane = case * N + node
      weight = chances[case] * results.stop[lane, node]
      if weight < 1e-13:
        continue
      assert results.node[lane] == node
      path = oracle.path_tokens(draft, node)
      for token in range(3):
        start = (*path, token)
        for rest, after in continuations(start).items():
          law[(*start, *rest)] += (
            weight * results.residual[lane, token] * float(after)
          )
  target = oracle.target_output_law(t.parents, language)
  for tokens in itertools.product(range(3), repeat=3):
    assert law[tokens] == pytest.approx(float(target.get(tokens, 0)), abs=1e-12)


@pytest.mark.parametrize(
  ("subtree", "star"),
  [("traversal", "token_level"), ("traversal_loop", "token_level_loop")],
)
def test_one_step_is_rrsw_on_one_token_more(x64, subtree, star):
  """Appendix: target (g, 1 - sum g), draft (q, 0) on V + 1 tokens.

  A node entered with chance a has g = a p; its children are offered with the
  thresholds of siblings verified token by token on V + 1 tokens, its own is
  what the residual leaves on the V tokens, and the bonus token's law the rest.
  """
  rng, K, cases = random.Random(3), 3, 100
  below, above = tree_lib.branching([1, K]), tree_lib.kary(K, 1)
  inner, outer, chances = [], [], []
  while len(inner) < cases:
    q, p = (
      random_law(rng, "plain"),
      random_law(rng, rng.choice(["few", "plain"])),
    )
    q, p = ((*oracle.norm(law[:-1]), Fraction(0)) for law in (q, p))
    top_q, top_p = random_pair(rng)
    draft = random_tokens(rng, above.parents, (q,) * 4, "without_replacement")
    first = rng.choices(range(V), [float(x) for x in top_q])[0]
    a = min(1, top_p[first] / top_q[first])
    if 0 < a < 1:
      inner.append(
        oracle.Draft(
          below.parents,
          (INVALID, first, *draft[1:]),
          (top_q, q, q, q, q),
          (top_p, p, p, p, p),
          "without_replacement",
        )
      )
      g = (*oracle.times(a, p[:-1]), 1 - a)
      outer.append(
        oracle.Draft(
          above.parents, draft, (q,) * 4, (g,) * 4, "without_replacement"
        )
      )
      chances.append(float(a))
  missed = run(subtree, below, as_lanes(inner), np.full((cases, 5), HIGH))
  stay = np.full((cases, 5), HIGH)
  stay[:, 1] = LOW
  stayed = run(subtree, below, as_lanes(inner), stay)
  star_missed = run(star, above, as_lanes(outer), np.full((cases, 4), HIGH))
  assert (star_missed.node == ROOT).sum() > cases / 2
  np.testing.assert_allclose(
    np.maximum(missed.accept[:, 2:], 0),
    np.maximum(star_missed.accept[:, 1:], 0),
    atol=1e-12,
  )
  for case in np.flatnonzero(star_missed.node == ROOT):
    law = star_missed.residual[case]
    mass = law[: V - 1].sum()
    assert missed.accept[case, 1] == pytest.approx(mass, abs=1e-12)
    if mass > LOW:
      assert stayed.node[case] == 1
      np.testing.assert_allclose(
        stayed.residual[case, :-1], law[:-1] / mass, atol=1e-12
      )


def chain_drafts(depth, vocabulary, proposal, seed):
  """Every draft of a chain, as lanes of the long chain, and their chances."""
  language = oracle.random_language(random.Random(seed), vocabulary, zeros=0.1)
  short = tree_lib.chain(depth)
  chances, drafts = all_drafts(short, proposal, language)
  uniform = oracle.norm([Fraction(1)] * vocabulary)
  spare = len(CHAIN) - len(short)
  longer = [
    dataclasses.replace(
      draft,
      parents=CHAIN.parents,
      tokens=draft.tokens + (INVALID,) * spare,
      q=draft.q + (uniform,) * spare,
      p=draft.p + (uniform,) * spare,
    )
    for draft in drafts
  ]
  return language, chances, longer


def expected_lengths(t, stop):
  return stop @ (t.depth + 1)


def optimal_length(language, depth, vocabulary, proposal):
  """The largest expected length of a valid chain rule, by linear program.

  Unknown is, for each drafted chain X, the chance of accepting tau < depth of
  its tokens with y as the bonus, and of accepting all. What must hold is
  Lemma 1: Z = (X^tau, y, then the target) follows the target law. Rules may
  use everything, even laws in contexts that were not drafted.
  """
  target = language[1]
  columns, gains, chances = [], [], []
  words = list(itertools.product(range(vocabulary), repeat=depth))
  place = {word: i for i, word in enumerate(words)}
  pairs = list(oracle.drafts(tuple(range(-1, depth)), proposal, language))
  owners = []
  for draft_id, (chance, draft) in enumerate(pairs):
    chain = draft.tokens[1:]
    reached = next(
      (i for i, token in enumerate(chain) if token == INVALID), depth
    )
    for tau in range(reached + 1):
      for y in range(vocabulary) if tau < depth else (None,):
        start = chain[:tau] if y is None else (*chain[:tau], y)
        column = np.zeros(len(words))
        rest = oracle.continuation_law(target, start, depth - len(start))
        for tokens, after in rest.items():
          column[place[(*start, *tokens)]] += float(chance * after)
        columns.append(column)
        gains.append(float(chance) * (tau + 1))
        owners.append(draft_id)
    chances.append(float(chance))
  law = oracle.continuation_law(target, (), depth)
  whole = np.array([float(law.get(word, 0)) for word in words])
  owned = np.equal.outer(np.arange(len(pairs)), owners).astype(float)
  solution = scipy.optimize.linprog(
    -np.array(gains),
    A_eq=np.concatenate([np.stack(columns, axis=1), owned]),
    b_eq=np.concatenate([whole, np.ones(len(pairs))]),
  )
  assert solution.success, solution.message
  return -solution.fun


@pytest.mark.parametrize("proposal", ["without_replacement", "top_k"])
@pytest.mark.parametrize(
  ("vocabulary", "depth"), [(2, 2), (3, 2), (2, 3)], ids=str
)
def test_theorem_2(x64, vocabulary, depth, proposal):
  """No valid chain rule gains more, and one gains as much."""
  for seed in range(5):
    language, chances, drafts = chain_drafts(depth, vocabulary, proposal, seed)
    best = optimal_length(language, depth, vocabulary, proposal)
    for rule in ("traversal", "traversal_loop", "block"):
      coins = np.zeros((len(drafts), len(CHAIN)))
      stop = run(rule, CHAIN, as_lanes(drafts), coins).stop
      own = chances @ expected_lengths(CHAIN, stop)
      assert own == pytest.approx(best, abs=1e-8)  # the program's accuracy


@pytest.mark.parametrize("proposal", NAMES)
def test_traversal_is_never_shorter_on_chains(x64, proposal):
  gains = []
  for seed in range(12):
    _, chances, drafts = chain_drafts(3, 3, proposal, seed)
    coins = np.zeros((len(drafts), len(CHAIN)))
    one, other = (
      chances
      @ expected_lengths(CHAIN, run(rule, CHAIN, as_lanes(drafts), coins).stop)
      for rule in ("traversal", "token_level")
    )
    gains.append(one - other)
  assert min(gains) >= -1e-12
  if proposal != "top_k":
    assert max(gains) > 1e-3


@every_tree
def test_a_deterministic_draft_leaves_nothing_to_gain(x64, t):
  """With top_k, P(node is accepted or above) is its path's target mass."""
  lanes = random_lanes(np.random.default_rng(1), t, 60, ["top_k"])
  drawn = lanes.tokens[:, 1:] != INVALID
  at = np.maximum(lanes.tokens[:, 1:], 0)
  step = np.take_along_axis(lanes.p[:, t.parent[1:]], at[:, :, None], axis=2)[
    :, :, 0
  ]
  step = np.concatenate([np.ones((60, 1)), np.where(drawn, step, 0)], axis=1)
  paths = np.where(t.ancestors[None], step[:, None, :], 1).prod(axis=2)
  rules = TREE_RULES + (["block"] if t.is_chain else [])
  for rule in rules:
    stop = run(rule, t, lanes, np.zeros((60, len(t)))).stop
    np.testing.assert_allclose(
      expected_lengths(t, stop), paths.sum(axis=1), atol=1e-12
    )


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
  chances, drafts = all_drafts(t, "without_replacement", language)
  lengths = {}
  for rule in TREE_RULES:
    stop = run(rule, t, as_lanes(drafts), np.zeros((len(drafts), 4))).stop
    lengths[rule] = chances @ expected_lengths(t, stop)
    exact = oracle.expected_length(
      t.parents, "without_replacement", language, RULES[rule].method
    )
    assert lengths[rule] == pytest.approx(float(exact), abs=1e-12)
  assert round(lengths["traversal"], 5) == 2.61397
  assert lengths["token_level"] == pytest.approx(2.615, abs=1e-12)


# The eager entry.


def a_draft(t=FIGURE_1, seed=0):
  lanes = random_lanes(np.random.default_rng(seed), t, 1, [IID])
  return lanes.tokens[0], lanes.q[0].astype("f4"), lanes.p[0].astype("f4")


def checked(tokens, q, p, rule="traversal", t=FIGURE_1, proposal="top_k"):
  return verify(jax.random.key(0), rule, t, proposal, tokens, q, p)


def spoiled(array, index, value):
  array = array.copy()
  array[index] = value
  return array


@pytest.mark.parametrize("name", ["q", "p"])
@pytest.mark.parametrize(
  ("index", "value", "message"),
  [
    ((1, 3), np.nan, r"\[1\] holds a NaN"),
    ((0, 0), np.inf, r"\[0\] holds a NaN or an infinity"),
    ((1, 2), -0.25, r"\[1\] holds -0.25"),
    ((2, slice(None)), 0.2, r"\[2\] sums to 1.6, not to 1"),
    ((2, slice(None)), 0.0, r"\[2\] sums to 0, not to 1"),
  ],
)
def test_verify_refuses_what_is_no_law(name, index, value, message):
  tokens, q, p = a_draft()
  laws = {"q": q, "p": p}
  laws[name] = spoiled(laws[name], index, value)
  with pytest.raises(ValueError, match=name + message):
    checked(tokens, **laws)


def test_verify_takes_what_is_nearly_a_law_and_what_is_never_read():
  tokens, q, p = a_draft()
  tokens[2] = tokens[5] = INVALID
  q = spoiled(q * np.float32(1.0005), [3, 4, 2, 5], np.nan)
  p = spoiled(p * np.float32(0.9995), [2, 5], np.nan)
  check_draft(FIGURE_1, tokens, q, p)
  with pytest.raises(ValueError, match=r"q\[0\] sums to 1.002"):
    check_draft(FIGURE_1, tokens, q * np.float32(1.0015), p)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda t, q, p: (spoiled(t, 4, V), q, p), f"node 4 has token {V}"),
    (lambda t, q, p: (spoiled(t, 3, -2), q, p), "node 3 has token -2"),
    (
      lambda t, q, p: (spoiled(t, 1, INVALID), q, p),
      "node 3 has token . below node 1",
    ),
    (lambda t, q, p: (t[:-1], q, p), r"tokens are int32\[5\]"),
    (lambda t, q, p: (t.astype("f4"), q, p), r"tokens are float32\[6\]"),
    (lambda t, q, p: (t, q[:, :-1], p), r"q float32\[6, 7\]"),
    (lambda t, q, p: (t, q, p[:-1]), r"p float32\[5, 8\]"),
    (lambda t, q, p: (t, q[0], p[0]), r"q float32\[8\]"),
    (lambda t, q, p: (t, q.astype("f8"), p), r"q float64"),
  ],
)
def test_verify_refuses_a_malformed_draft(change, message):
  with pytest.raises(ValueError, match=message):
    checked(*change(*a_draft()))


def test_verify_lists_the_names_it_knows():
  draft = a_draft()
  with pytest.raises(
    ValueError, match=r"verifier 'greedy': not one of .*token_level"
  ):
    checked(*draft, rule="greedy")
  with pytest.raises(ValueError, match="proposal 'beam': not one of without_"):
    checked(*draft, proposal="beam")
  with pytest.raises(ValueError, match="verifier 3: give a name"):
    checked(*draft, rule=3)


def test_block_is_refused_off_chains():
  assert VERIFIERS["block"].defined_on is chains_only
  with pytest.raises(ValueError, match=r"for chains only, .* Tree\(6"):
    checked(*a_draft(), rule="block")
  verdict = checked(*a_draft(CHAIN), rule="block", t=CHAIN)
  assert 1 <= verdict.length <= len(CHAIN)


def test_verify_takes_names_records_and_bare_rules():
  draft = a_draft()
  verdicts = [
    checked(*draft, rule=rule, proposal=proposal)
    for rule, proposal in [
      ("traversal", "with_replacement"),
      (VERIFIERS["traversal"], PROPOSALS["with_replacement"]),
      (VERIFIERS["traversal"].decide, "with_replacement"),
    ]
  ]
  assert len({str(verdict) for verdict in verdicts}) == 1
  verdict = verdicts[0]
  assert verdict.length == FIGURE_1.depth[verdict.node] + 1
  assert 0 <= verdict.token < V
  assert not verdict.fault


def test_verify_under_jit_checks_nothing_and_reports():
  tokens, q, p = a_draft()
  p = spoiled(p, ROOT, np.nan)
  verdict = jax.jit(checked)(tokens, q, p)
  assert verdict.fault
  assert verdict.node == ROOT
  assert verdict.length == 1


@pytest.mark.parametrize(
  ("rule", "proposal"),
  quick.shorter(
    [
      ("traversal", "without_replacement"),
      ("traversal_loop", "sample_then_top"),
      ("token_level", "with_replacement"),
      ("token_level_loop", "top_k"),
    ]
  ),
)
def test_the_first_token_follows_the_target(rule, proposal):
  """20,000 cycles: drafts by `draw`, coins and bonus by `toss_and_draw`."""
  t, n = FIGURE_1, 20_000
  own = PROPOSALS[proposal]
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
    verdict = toss_and_draw(key, VERIFIERS[rule].decide, t, own, tokens, *laws)
    above = jnp.asarray(t.ancestors)[verdict.node]
    first = jnp.where(above[1], tokens[1], tokens[2])
    return jnp.where(verdict.length > 1, first, verdict.token)

  cycles = jax.jit(jax.vmap(cycle))
  tokens = cycles(jax.random.split(jax.random.key(0), n))
  counts = np.bincount(tokens, minlength=5)
  sigma = np.sqrt(n * p[5] * (1 - p[5]))
  assert (np.abs(counts - n * p[5]) <= 5 * sigma).all()


@pytest.mark.parametrize("rule", ["traversal_loop", "token_level_loop"])
def test_a_law_that_needs_the_whole_mass_keeps_the_loops_exact(rule, x64):
  """A proposal may read `rest` for any child from `rest_from` on."""
  base = PROPOSALS["without_replacement"]

  def laws(q_at, rest, exists):
    scale, at = base.laws(q_at, rest, exists)
    whole = jnp.abs(rest + jnp.sum(jnp.where(exists, q_at, 0)) - 1) < 1e-9
    known = whole | (jnp.arange(len(q_at)) == 0)
    return jnp.where(known, scale, 0), jnp.where(known[:, None], at, 0)

  demanding = dataclasses.replace(base, laws=laws)
  shape = tree_lib.kary(3, 1)
  p = jnp.array([[0.1, 0.2, 0.3, 0.4]] * 4)
  q = jnp.array([[0.4, 0.3, 0.2, 0.1]] * 4)
  tokens = jnp.array([0, 0, 1, 2], jnp.int32)
  eta = jnp.full(4, 1 - 1e-9)
  level = VERIFIERS[rule.removesuffix("_loop")]
  ours, theirs = (
    jax.jit(own.decide, static_argnums=(0, 1))(
      shape, demanding, tokens, q, p, eta
    )
    for own in (VERIFIERS[rule], level)
  )
  assert ours.node == theirs.node
  np.testing.assert_allclose(ours.residual, theirs.residual, atol=1e-12)
  np.testing.assert_allclose(ours.accept, theirs.accept, atol=1e-12)


@pytest.mark.parametrize("rule", ["traversal", "traversal_loop"])
def test_a_tiny_chance_is_no_fault(rule):
  shape = tree_lib.from_parents([-1, 0, 1, 1, 1, 1])
  p = (
    jnp.full((6, 8), 1 / 8).at[0].set(0).at[0, :2].set(jnp.array([2e-38, 1.0]))
  )
  q = jnp.full((6, 8), 1 / 8).at[0].set(0).at[0, 0].set(1)
  tokens = jnp.array([0, 0, 1, 2, 3, 4], jnp.int32)
  eta = jnp.zeros(6)
  proposal = PROPOSALS["without_replacement"]
  decide = jax.jit(VERIFIERS[rule].decide, static_argnums=(0, 1))
  decision = decide(shape, proposal, tokens, q, p, eta)
  assert not decision.fault
  assert abs(float(decision.residual.sum()) - 1) < 1e-5


@pytest.mark.long
@pytest.mark.optimised
@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_a_wide_family_compiles_in_reason(rule):
  shape = tree_lib.kary(32, 1)
  proposal = PROPOSALS["without_replacement"]
  laws = jax.ShapeDtypeStruct((33, 64), jnp.float32)
  started = time.process_time()
  jax.jit(VERIFIERS[rule].decide, static_argnums=(0, 1)).lower(
    shape,
    proposal,
    jax.ShapeDtypeStruct((33,), jnp.int32),
    laws,
    laws,
    jax.ShapeDtypeStruct((33,), jnp.float32),
  ).compile(compiler_options=quick.AS_USERS)
  assert (
    time.process_time() - started < 40
  )  # a minute and more without a barrier
