"""Verification rules against exact arithmetic, the paper's claims, each other.

One table of all rules, proposals and trees (tests/battery.py), and one battery
of properties; then what the paper claims, and the entry `verify`. That each
rule is lossless, and that its coins and stop law agree, is certified by
enumeration in tests/test_certify.py.
"""

import functools
import itertools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import battery, oracle, quick
from tests.battery import (
  CHAIN,
  FIGURE_1,
  HIGH,
  IID,
  NAMES,
  RULES,
  TREE_RULES,
  TREES,
  WIDTH,
  WITH_OFFERS,
  WOR,
  Results,
  V,
  all_drafts,
  as_lanes,
  assert_oracle_agrees,
  assert_same,
  hardened,
  poisoned,
  random_draft,
  random_drafts,
  random_lanes,
  random_law,
  random_pair,
  random_tokens,
  run,
)
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, NEVER, PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  check_draft,
  misfit,
  verify,
)

LARGE = "eagle", "binary", "branching"  # compiled for long
loops = pytest.mark.parametrize(
  "rule", [name for name, case in RULES.items() if case.traced]
)


# The battery.


@pytest.mark.parametrize(
  ("rule", "name"),
  [
    pytest.param(rule, name, marks=[pytest.mark.long] * (name in LARGE))
    for rule, case in RULES.items()
    for name in case.trees
  ],
)
def test_oracle_agreement(x64, rule, name):
  t = RULES[rule].trees[name]
  drafts = random_drafts(rule, t, 8 if len(t) > 20 else 32, seed=len(t))
  if t is FIGURE_1:
    drafts.append(EXAMPLE)
  assert_oracle_agrees(rule, t, drafts)


@pytest.mark.parametrize("proposal", [WOR, IID])
@pytest.mark.parametrize("rule", quick.shorter(["traversal", "token_level"]))
def test_oracle_agreement_by_rest_from(x64, rule, proposal):
  """As users run it: the chosen proposal elsewhere always asks for `rest`."""
  assert PROPOSALS[proposal].rest_from == (1 if proposal == WOR else NEVER)
  rng = random.Random(proposal)
  drafts = [random_draft(rng, FIGURE_1, proposal) for _ in range(32)]
  assert_oracle_agrees(rule, FIGURE_1, drafts, proposal)


@loops
def test_oracle_agreement_on_random_trees(x64, rule):
  rng = random.Random(5)
  for _ in range(25):
    paths: list[tuple[int, ...]] = [()]
    while len(paths) < rng.randint(2, 10):
      parent = rng.choice(paths)
      rank = sum(path[:-1] == parent for path in paths if path)
      if rank < WIDTH:
        paths.append((*parent, rank))
    t = tree_lib.from_paths([*paths, (0,)])
    drafts = [random_draft(rng, t, proposal) for proposal in NAMES]
    assert_oracle_agrees(rule, t, drafts)


@pytest.mark.parametrize("rule", quick.shorter(WITH_OFFERS))
def test_float32_keeps_to_the_bounds(rule):
  t, rng = RULES[rule].tree, np.random.default_rng(27)
  lanes = hardened(rng, random_lanes(rng, t, 512, RULES[rule].proposals))
  # Tokens were drawn from the milder laws: one may have no chance any more.
  results = run(rule, t, lanes, rng.random((512, len(t))) ** 3)
  assert not results.fault.any()
  offered = results.accept != NOT_OFFERED
  assert ((results.accept >= 0) & (results.accept <= 1))[offered].all()
  assert (results.residual >= 0).all()
  np.testing.assert_allclose(results.residual.sum(axis=1), 1, atol=1e-5)
  np.testing.assert_allclose(results.stop.sum(axis=1), 1, atol=1e-5)
  row = np.take_along_axis(lanes.p, results.node[:, None, None], axis=1)[:, 0]
  assert not results.residual[row == 0].any()


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
  for i, (name, row, column) in enumerate(places):
    own = slice(i * count, (i + 1) * count)
    found = Results(*(array[own] for array in results))
    told = str((name, row, column))
    assert not any(np.isnan(array).any() for array in found), told
    laws = [found.residual] + [found.stop] * (rule in WITH_OFFERS)
    for law in laws:
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
      np.testing.assert_array_equal(own, other, told)
    if name == "q" and t.num_children[row] == 0:
      assert sound.all()  # rows of leaves are never read
    if name == "p":  # the accepted row is
      assert fault[clean.node == row].all()


@pytest.mark.optimised
@pytest.mark.parametrize(
  "rule", quick.shorter(["traversal", "token_level", "block", "k_seq"])
)
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


@pytest.mark.parametrize(
  ("rule", "other", "name"),
  [
    *(
      pytest.param(
        rule, f"{rule}, {form}", t, marks=[pytest.mark.long] * (t in LARGE)
      )
      for rule in ("traversal", "token_level")
      for form in ("traced", "reference")
      for t in ("lopsided", "eagle")
    ),
    ("traversal", "block", "chain"),
    ("traversal, traced", "block", "chain"),
    ("k_seq", "token_level", "chain"),
  ],
)
def test_rules_that_are_one_take_the_same_decisions(x64, rule, other, name):
  """A rule's forms, the paper's own, what it is on a chain: coin for coin."""
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


# The oracle: the paper's example, and Theorem 1.

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


SMALL_TREES = [(-1, 0, 1), (-1, 0, 0, 1, 1), (-1, 0, 0, 0), (-1, 0, 0, 1, 2)]


@pytest.mark.parametrize(
  ("method", "proposals", "trees"),
  [
    ("traversal", NAMES, SMALL_TREES),
    ("token_level", NAMES, SMALL_TREES),
    ("block", NAMES, SMALL_TREES[:1]),
    ("k_seq", [IID], [(-1, 0, 0, 1)]),
  ],
)
def test_the_oracle_is_lossless(method, proposals, trees):
  """Theorem 1, to the last digit: the oracle may judge."""
  for proposal, parents, seed in itertools.product(proposals, trees, range(2)):
    language = oracle.random_language(random.Random(seed), 3)
    own = oracle.output_law(parents, proposal, language, method)
    target = oracle.target_output_law(parents, language)
    words = {*own, *target}
    error = max(abs(own.get(w, 0) - target.get(w, 0)) for w in words)
    # K-SEQ's rho is a root of a polynomial, and had by halving.
    assert error <= (Fraction(1, 10**15) if method == "k_seq" else 0)


# What the paper proves.


@pytest.mark.parametrize("rule", ["traversal", "traversal, traced"])
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


def test_one_step_is_rrsw_on_one_token_more():
  """Appendix: target (g, 1 - sum g), draft (q, 0) on V + 1 tokens.

  A node entered with chance a has g = a p; its children are offered with the
  thresholds of siblings verified token by token on V + 1 tokens, its own is
  what the residual leaves on the V tokens, and the bonus token's law the rest.
  """
  rng, cases = random.Random(3), 0
  below, above = tree_lib.branching([1, 3]), tree_lib.kary(3, 1)
  while cases < 50:
    q, p = (random_law(rng, kind)[:-1] for kind in ("plain", "ties"))
    q, p = ((*oracle.norm(law), Fraction(0)) for law in (q, p))
    top_q, top_p = random_pair(rng)
    siblings = random_tokens(rng, above.parents, (q,) * 4, WOR)
    first = rng.choices(range(V), [float(x) for x in top_q])[0]
    a = top_p[first] / top_q[first]
    if not 0 < a < 1:
      continue
    cases += 1
    g = (*oracle.times(a, p[:-1]), 1 - a)
    star = oracle.Draft(above.parents, siblings, (q,) * 4, (g,) * 4, WOR)
    tokens = INVALID, first, *siblings[1:]
    laws = (top_q, *(q,) * 4), (top_p, *(p,) * 4)
    inner = oracle.Draft(below.parents, tokens, *laws, WOR)
    *found, own, _ = oracle.traversal_offers(inner)
    *wanted, rest = oracle.token_level_offers(star, ROOT)
    assert [(o.node - 1, o.threshold) for o in found] == [
      (o.node, o.threshold) for o in wanted
    ]
    assert own.threshold == sum(rest.residual[:-1])
    if own.threshold:
      assert own.residual[:-1] == oracle.norm(rest.residual[:-1])


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
  for rule in ("traversal", "token_level"):
    coins = np.zeros((len(drafts), 4))
    stop = run(f"{rule}, traced", t, as_lanes(drafts), coins).stop
    lengths[rule] = chances @ stop @ (t.depth + 1)
    exact = oracle.expected_length(t.parents, WOR, language, rule)
    assert lengths[rule] == pytest.approx(float(exact), abs=1e-12)
  assert round(lengths["traversal"], 5) == 2.61397
  assert lengths["token_level"] == pytest.approx(2.615, abs=1e-12)


# K-SEQ.


@pytest.mark.parametrize("k", quick.shorter([2, 3]))
def test_k_seq_takes_its_share_of_the_best_single_step(x64, k):
  """1 - (1 - 1/k)^k of it at least (SpecTr, Theorem 2), and no more than it."""
  t, iid, ahead = tree_lib.kary(k, 1), PROPOSALS[IID], 0
  k_seq, token_level = (
    certify.exact.make_runner(VERIFIERS[rule], iid, t, np.float64, 3)
    for rule in ("k_seq", "token_level")
  )
  subsets = np.array([*itertools.product([False, True], repeat=3)])
  for case in certify.cases.generate(3, 27, 3, certify.num_contexts(3, 1)):
    p, q = case.p[0], case.q[0]  # the best fills what all k can miss
    best = 1 + min(p[held].sum() - q[held].sum() ** k for held in subsets)
    taken, other = (run(case).length - 1 for run in (k_seq, token_level))
    assert max(taken, other) <= best + 1e-12
    assert taken >= (1 - (1 - 1 / k) ** k) * best - 1e-12
    ahead += taken > other + 1e-9
  assert ahead > 0


def test_other_proposals_are_refused():
  for name, proposal in PROPOSALS.items():
    reason = misfit(VERIFIERS["k_seq"], CHAIN, proposal)
    assert (reason is None) == (name == IID)
    assert reason is None or f"is defined for {IID} only" in reason


# The entry `verify`.


def spoiled(array, index, value):
  array = array.copy()
  array[index] = value
  return array


def a_draft():
  q, p = np.random.default_rng(0).dirichlet(np.ones(V), (2, 6)).astype("f4")
  return np.arange(6, dtype=np.int32), q, p


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda t, q, p: (t, q, spoiled(p, (1, 3), np.nan)), r"p\[1\] sums to nan"),
    (lambda t, q, p: (t, q, spoiled(p, 2, 0.2)), r"p\[2\] sums to 1.6 and"),
    (lambda t, q, p: (t, spoiled(q, (1, 3), np.nan), p), r"q\[1\] sums to nan"),
    (lambda t, q, p: (spoiled(t, 4, V), q, p), f"node 4 has token {V}"),
    (
      lambda t, q, p: (spoiled(t, 1, INVALID), q, p),
      "node 3 has token 3",
    ),
    (lambda t, q, p: (t, q[:, :-1], p), r"q \[6, 7\]"),
  ],
)
def test_verify_refuses_a_malformed_draft(change, message):
  draft = change(*a_draft())
  with pytest.raises(ValueError, match=message):
    verify(jax.random.key(0), "traversal", FIGURE_1, "top_k", *draft)


def test_verify_takes_what_is_nearly_a_law_and_what_is_never_read():
  tokens, q, p = a_draft()
  tokens[2] = tokens[5] = INVALID
  q = spoiled(q * np.float32(1.0005), [3, 4, 2, 5], np.nan)
  p = spoiled(p * np.float32(0.9995), [2, 5], np.nan)
  check_draft(FIGURE_1, tokens, q, p)
  with pytest.raises(ValueError, match=r"q\[0\] sums to 1.002"):
    check_draft(FIGURE_1, tokens, q * np.float32(1.0015), p)


# What once went wrong.


@pytest.mark.parametrize("traced", [False, True])
def test_a_tiny_chance_is_no_fault(traced):
  t = tree_lib.from_parents([-1, 0, 1, 1, 1, 1])
  p, q = np.full((2, 6, 8), 1 / 8, np.float32)
  p[0], q[0] = [2e-38, 1, 0, 0, 0, 0, 0, 0], np.eye(8)[0]
  tokens = np.array([0, 0, 1, 2, 3, 4], np.int32)
  decide = jax.jit(VERIFIERS["traversal"].decide, static_argnums=1)
  shape = battery.traced(t, 6, 4) if traced else t
  decision = decide(shape, PROPOSALS[WOR], tokens, q, p, jnp.zeros(6))
  assert not decision.fault
  assert abs(float(decision.residual.sum()) - 1) < 1e-5


def test_rejections_of_a_wide_family_are_kept_apart():
  """Without a barrier XLA compiled such a program for minutes."""
  t, N = tree_lib.kary(12, 1), 13
  laws = jax.ShapeDtypeStruct((N, 64), jnp.float32)
  tokens = jax.ShapeDtypeStruct((N,), jnp.int32)
  coins = jax.ShapeDtypeStruct((N,), jnp.float32)
  decide = functools.partial(VERIFIERS["traversal"].decide, t, PROPOSALS[WOR])
  lowered = jax.jit(decide).lower(tokens, laws, laws, coins)
  assert lowered.as_text().count("optimization_barrier") >= 10
