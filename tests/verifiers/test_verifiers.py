"""Verification rules against exact arithmetic, the paper's claims, each other.

One table of all rules, proposals and trees (tests/lib/battery.py), and one
battery of properties; then the paper's claims, and the entry `verify`.
tests/certify/test_certificate.py certifies by enumeration that each rule is
lossless and that its decisions and stopping distribution agree.
"""

import functools
import itertools
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import oracle, quick
from tests.lib.battery import (
  CHAIN,
  FIGURE_1,
  IID,
  NAMES,
  RULES,
  TREES,
  WOR,
  V,
  aims,
  all_drafts,
  as_lanes,
  assert_oracle_agrees,
  poisoned,
  random_draft,
  random_drafts,
  random_law,
  random_pair,
  random_tokens,
  run,
)
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  Draft,
  check_drafts,
  verify,
)

# The battery.


@pytest.mark.parametrize(
  ("rule", "name"),
  [
    pytest.param(rule, name, marks=[pytest.mark.long] * (name == "eagle"))
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


@pytest.mark.parametrize(
  ("rule", "count"),
  [
    ("traversal", 4),
    ("token_level", 4),
    *(
      pytest.param(rule, 25, marks=pytest.mark.long)
      for rule in RULES
      if RULES[rule].trees is TREES
    ),
  ],
)
def test_oracle_agreement_on_random_trees(x64, rule, count):
  rng, trees = random.Random(5), []
  for _ in range(count):
    paths: list[tuple[int, ...]] = [()]
    while len(paths) < rng.randint(2, 10):
      parent = rng.choice(paths)
      rank = sum(path[:-1] == parent for path in paths if path)
      if rank < 4:
        paths.append((*parent, rank))
    trees.append(tree_lib.from_paths([*paths, (0,)]))
  for t in trees:
    drafts = [random_draft(rng, t, proposal) for proposal in NAMES]
    assert_oracle_agrees(rule, t, drafts)


# On a chain every rejection of the root is its last.
@pytest.mark.parametrize(
  ("rule", "t"),
  [(rule, case.tree) for rule, case in RULES.items()]
  + [(rule, CHAIN) for rule in ("traversal", "token_level")],
)
def test_a_nan_is_a_fault_and_a_plain_step_or_was_not_read(x64, rule, t):
  count, rng = 24, np.random.default_rng(14)
  lanes = as_lanes(random_drafts(rule, t, count, seed=14))
  eta = rng.random((count, len(t))) ** 2
  clean, _ = run(rule, t, lanes, eta)
  assert not clean.fault.any()
  assert set(clean.node.tolist()) > {ROOT}
  places = [*itertools.product("qp", range(len(t)), [None, *range(V)])]
  poisoned_lanes = [poisoned(lanes, *place) for place in places]
  whole = jax.tree.map(lambda *arrays: np.concatenate(arrays), *poisoned_lanes)
  results = run(rule, t, whole, np.tile(eta, (len(places), 1)))
  for i, (name, row, column) in enumerate(places):
    place = str((name, row, column))
    rows = slice(i * count, (i + 1) * count)
    decided, stop = jax.tree.map(lambda array, rows=rows: array[rows], results)
    for array in jax.tree.leaves((decided, stop)):
      assert not np.isnan(array).any(), place
    laws = [decided.residual] + [stop] * bool(RULES[rule].rule.offers)
    for law in laws:
      assert (law >= 0).all()
      np.testing.assert_allclose(law.sum(axis=1), 1, atol=1e-12, err_msg=place)
    fault, sound = decided.fault, ~decided.fault
    assert (decided.node[fault] == ROOT).all()
    assert (decided.threshold[fault] == NOT_OFFERED).all()
    # The bonus token then comes from the finite part of the root's law.
    p = np.nan_to_num(poisoned_lanes[i].p[:, ROOT])
    total = p.sum(axis=1, keepdims=True)
    plain = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / V)
    np.testing.assert_allclose(
      decided.residual[fault], plain[fault], atol=1e-12, err_msg=place
    )
    # No fault: the decision equals the decision for the clean laws.
    for field in ("node", "residual", "threshold"):
      ours, theirs = (getattr(x, field)[sound] for x in (decided, clean))
      np.testing.assert_array_equal(ours, theirs, place)
    if name == "q" and t.num_children[row] == 0:
      assert sound.all()  # rows of leaves are never read
    if name == "p":  # the accepted row is
      assert fault[clean.node == row].all()


@pytest.mark.parametrize(
  "rule", quick.shorter(["traversal", "token_level", "block", "k_seq"])
)
def test_float32_takes_no_token_that_the_target_lacks(rule):
  t = next(iter(RULES[rule].trees.values()))
  lanes = as_lanes(random_drafts(rule, t, 256, seed=27))
  lanes = jax.tree.map(
    lambda x: x.astype("f4") if x.dtype == float else x, lanes
  )
  eta = np.random.default_rng(27).random((256, len(t))) ** 3
  decision, stop = run(rule, t, lanes, eta)
  assert decision.residual.dtype == np.float32
  assert not decision.fault.any()
  offered = decision.threshold != NOT_OFFERED
  assert ((decision.threshold >= 0) & (decision.threshold <= 1))[offered].all()
  assert (decision.residual >= 0).all()
  np.testing.assert_allclose(decision.residual.sum(axis=1), 1, atol=1e-5)
  np.testing.assert_allclose(stop.sum(axis=1), 1, atol=1e-5)
  law = np.take_along_axis(lanes.p, decision.node[:, None, None], axis=1)[:, 0]
  assert not decision.residual[law == 0].any()
  assert (law == 0).any()


@pytest.mark.optimised
@pytest.mark.parametrize(
  "rule", quick.shorter(["traversal", "token_level", "block", "k_seq"])
)
def test_a_nan_is_seen_in_a_vocabulary_of_real_size(rule):
  """XLA may sum long rows with another library than short rows.

  XLA gives some sums to YNNPACK on a CPU; its max(NaN, 0) is 0.
  """
  t, size = tree_lib.chain(2), 32_000
  rng = np.random.default_rng(16)
  q, p = rng.dirichlet(np.ones(size), (2, 3)).astype("f4")
  tokens = np.array([INVALID, 5, 9], np.int32)
  proposal = PROPOSALS[RULES[rule].proposals[0]]

  @functools.partial(jax.jit, compiler_options=quick.AS_USERS)
  def decide(tokens, q, p, eta):
    return RULES[rule].rule.decide(Draft(t, proposal, tokens, q, p), eta)

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
        for field in ("node", "residual", "threshold"):
          np.testing.assert_array_equal(
            getattr(decision, field), getattr(clean, field), str((name, row))
          )


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
    law = oracle.output_law(parents, proposal, language, method)
    target = oracle.target_output_law(parents, language)
    words = {*law, *target}
    error = max(abs(law.get(w, 0) - target.get(w, 0)) for w in words)
    # K-SEQ finds rho, a root of a polynomial, by bisection.
    assert error <= (Fraction(1, 10**15) if method == "k_seq" else 0)


@pytest.mark.parametrize(
  ("method", "other"), [("traversal", "block"), ("k_seq", "token_level")]
)
def test_methods_that_are_the_same_on_chains(method, other):
  """Coin for coin; each rule's forms are its method's, above."""
  rng = random.Random(0)
  for _ in range(60):
    draft = random_draft(rng, CHAIN, IID)
    for eta in aims(CHAIN):
      assert decide_exactly(draft, method, eta) == decide_exactly(
        draft, other, eta
      )


def decide_exactly(draft, method, eta):
  """Without offers of a node that cannot be entered."""
  node, residual, tossed = oracle.decide(draft, method, eta)
  return node, residual, {v: x for v, x in tossed.items() if x}


# What the paper proves.


@pytest.mark.parametrize("proposal", NAMES)
def test_lemma_2(x64, proposal):
  """P(accepted at or below the l-th node of the first chain) = p_ini(l).

  The chain down to that node is given. The mean is over the rest of the tree,
  including everything below the node.
  """
  language = oracle.random_language(random.Random(7), 3, zeros=0.1)
  chances, drafts = all_drafts(FIGURE_1, proposal, language)
  coins = np.zeros((len(drafts), 6))
  _, stop = run("traversal", FIGURE_1, as_lanes(drafts), coins)
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

  A node entered with chance a has g = a p. Its children have the thresholds of
  siblings that are verified token by token on V + 1 tokens. The node's own
  threshold is the residual's mass on the V tokens, and the bonus token has the
  normalised residual.
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
    *children, node, _ = oracle.traversal_offers(inner)
    *siblings, rest = oracle.token_level_offers(star, ROOT)
    assert [(o.node - 1, o.threshold) for o in children] == [
      (o.node, o.threshold) for o in siblings
    ]
    assert node.threshold == sum(rest.residual[:-1])
    if node.threshold:
      assert node.residual[:-1] == oracle.norm(rest.residual[:-1])


def test_traversal_is_not_always_longer_on_trees(x64):
  t = tree_lib.from_parents([-1, 0, 1, 1])
  laws = {
    "q": ((10, 0, 0, 0), (1, 6, 3, 0)),
    "p": ((95, 0, 0, 5), (2, 2, 3, 3)),
  }

  def law(name):
    rows = [oracle.norm([Fraction(w) for w in row]) for row in laws[name]]
    return lambda context: rows[min(len(context), 1)]

  chances, drafts = all_drafts(t, WOR, (law("q"), law("p")))
  lengths = {}
  for rule in ("traversal", "token_level"):
    coins = np.zeros((len(drafts), 4))
    _, stop = run(rule, t, as_lanes(drafts), coins)
    lengths[rule] = chances @ stop @ (t.depth + 1)
  assert round(lengths["traversal"], 5) == 2.61397
  assert lengths["token_level"] == pytest.approx(2.615, abs=1e-12)


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
    (lambda t, q, p: (t, q, spoiled(p, 2, 0.2)), r"p\[2\] sums to 1.6, and"),
    (lambda t, q, p: (t, spoiled(q, (1, 3), np.nan), p), r"q\[1\] sums to nan"),
    (lambda t, q, p: (spoiled(t, 4, V), q, p), f"node 4 has token {V}"),
    (  # 1 as int32
      lambda t, q, p: (spoiled(t.astype(np.int64), 4, 2**32 + 1), q, p),
      "node 4 has token 4294967297",
    ),
    (
      lambda t, q, p: (spoiled(t, 1, INVALID), q, p),
      "node 3 has token 3",
    ),
    (lambda t, q, p: (t, q[:, :-1], p), r"\(6, 7\), \(6, 8\)\]: the tree has"),
    (lambda t, q, p: (t, q[0], p[0]), r"\(8,\), \(8,\)\]: the tree has 6"),
  ],
)
def test_verify_refuses_a_malformed_draft(change, message):
  draft = change(*a_draft())
  with pytest.raises(ValueError, match=message):
    verify(jax.random.key(0), "traversal", Draft(FIGURE_1, "top_k", *draft))


def test_verify_accepts_rounding_and_rows_that_are_never_read():
  tokens, q, p = a_draft()
  tokens[2] = tokens[5] = INVALID
  q = spoiled(q * np.float32(1.0005), [3, 4, 2, 5], np.nan)
  p = spoiled(p * np.float32(0.9995), [2, 5], np.nan)
  check_drafts(FIGURE_1, tokens[None], q[None], p[None])
  with pytest.raises(ValueError, match=r"q\[0\] sums to 1.002"):
    check_drafts(FIGURE_1, tokens[None], q[None] * np.float32(1.0015), p[None])


def test_a_draft_is_a_batch_under_vmap_and_an_argument_of_jit():
  """Tree and proposal are static; the arrays have a batch axis."""
  tokens, q, p = a_draft()
  one = Draft(FIGURE_1, PROPOSALS[WOR], tokens, q, p)
  assert len(jax.tree.leaves(one)) == 3
  two = jax.tree.map(lambda x: jnp.stack([x, x[::-1]]), one)
  eta = jnp.full((2, 6), 0.3)
  decide = VERIFIERS["traversal"].decide
  both = jax.jit(jax.vmap(decide))(two, eta)
  alone = jax.jit(decide)(one, eta[0])
  assert both.node[0] == alone.node
  np.testing.assert_allclose(both.residual[0], alone.residual, atol=1e-6)
  keys = jax.random.split(jax.random.key(0), 2)
  verdicts = jax.vmap(functools.partial(verify, verifier="traversal"))
  found = verdicts(keys, draft=two)
  assert found.token[0] == verify(keys[0], "traversal", one).token


# What once went wrong.


def test_a_tiny_chance_is_no_fault():
  t = tree_lib.from_parents([-1, 0, 1, 1, 1, 1])
  p, q = np.full((2, 6, 8), 1 / 8, np.float32)
  p[0], q[0] = [2e-38, 1, 0, 0, 0, 0, 0, 0], np.eye(8)[0]
  tokens = np.array([0, 0, 1, 2, 3, 4], np.int32)
  decide = jax.jit(VERIFIERS["traversal"].decide)
  decision = decide(Draft(t, PROPOSALS[WOR], tokens, q, p), jnp.zeros(6))
  assert not decision.fault
  assert abs(float(decision.residual.sum()) - 1) < 1e-5


def test_rejections_of_a_wide_family_are_kept_apart():
  """Without a barrier XLA compiled such a program for minutes."""
  t, N = tree_lib.kary(12, 1), 13
  laws = jax.ShapeDtypeStruct((N, 64), jnp.float32)
  tokens = jax.ShapeDtypeStruct((N,), jnp.int32)
  coins = jax.ShapeDtypeStruct((N,), jnp.float32)
  draft = Draft(t, PROPOSALS[WOR], tokens, laws, laws)
  lowered = jax.jit(VERIFIERS["traversal"].decide).lower(draft, coins)
  assert lowered.as_text().count("optimization_barrier") >= 10
