"""What any lossless rule can gain: exactly, and from above on recordings."""

import numpy as np
import pytest
import scipy.optimize

from tests import quick
from tv_jax import certify, replay
from tv_jax import tree as tree_lib
from tv_jax.certify import bound, cases, drafts, exact
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import bound as recorded
from tv_jax.verifiers import VERIFIERS

RAGGED = tree_lib.from_parents([-1, 0, 0, 1, 1, 2, 3])
DRAWN = ["without_replacement", "with_replacement"]


def made(tree, V, count, seed=0):
  tree = tree_lib.resolve(tree)
  contexts = cases.num_contexts(V, tree.max_depth)
  return cases.generate(seed, count, V, contexts)


def alike(tree, V, count):
  """Laws as models have them: the draft is a blurred target."""
  tree = tree_lib.resolve(tree)
  contexts = cases.num_contexts(V, tree.max_depth)
  for seed in range(count):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(V, rng.choice([0.5, 1.0, 3.0])), contexts)
    q = p**0.6 * rng.gamma(0.6, size=p.shape) + 1e-6
    yield cases.Case("alike", p, q / q.sum(axis=1, keepdims=True))


def every(tree, proposal, case):
  tree = tree_lib.resolve(tree)
  return drafts.enumerate_drafts(tree, PROPOSALS[proposal], case.q)


def length(rule, tree, proposal, case):
  """Of a rule, exactly."""
  run = exact.make_lengths(
    VERIFIERS[rule], PROPOSALS[proposal], tree_lib.resolve(tree), np.float64
  )
  return run(case, every(tree, proposal, case))


def longest(tree, proposal, case):
  return bound.on_drafts(case.p, every(tree, proposal, case))


class TestLongest:
  """The linear programme."""

  @pytest.mark.parametrize("proposal", [DRAWN[0], "top_k"])
  def test_theorem_2(self, proposal, x64):
    """On chains no lossless rule gains more than these."""
    for case in made("chain:3", 3, 9):
      best = longest("chain:3", proposal, case)
      for rule in ("block", "traversal"):
        own = length(rule, "chain:3", proposal, case)
        assert own == pytest.approx(best, abs=1e-9)

  @pytest.mark.parametrize("proposal", quick.shorter([*PROPOSALS]))
  def test_is_reached_or_missed_and_never_passed(self, proposal, x64):
    missed = []
    for case in made("kary:2x2", 3, 9):
      best = longest("kary:2x2", proposal, case)
      for rule in ("traversal", "token_level"):
        missed.append(best - length(rule, "kary:2x2", proposal, case))
    assert min(missed) > -1e-9
    if proposal == "top_k":  # there is nothing to choose
      assert max(missed) < 1e-9
    if proposal in DRAWN:
      assert max(missed) > 1e-2

  @pytest.mark.parametrize("proposal", DRAWN)
  def test_is_that_of_all_rules_with_all_bonus_laws(self, proposal):
    """Written out: each draft's node and bonus token, and the output's law."""
    for tree in map(tree_lib.parse, ("chain:2", "kary:3x1", "kary:2x2")):
      for case in [*made(tree, 3, 2), *alike(tree, 3, 3)]:
        own = written_out(tree, proposal, case)
        assert own == pytest.approx(longest(tree, proposal, case), abs=1e-7)


def written_out(tree, proposal, case):
  """The longest lossless rule that says of each draft where to end, and how."""
  found = every(tree, proposal, case)
  V, depth = case.p.shape[1], tree.max_depth
  first = cases.num_contexts(V, depth - 1)  # of the contexts of full depth
  law = {c: np.eye(V**depth)[c - first] for c in range(first, len(case.p))}
  for c in reversed(range(first)):  # of the first `depth` tokens after c
    law[c] = sum(case.p[c, y] * law[c * V + y + 1] for y in range(V))
  columns, gains, owners = [], [], []
  for draft in range(len(found.chance)):
    for node in range(len(tree)):
      if found.tokens[draft, node] == INVALID:
        continue
      c, inner = found.context[draft, node], tree.depth[node] < depth
      for after in range(c * V + 1, c * V + V + 1) if inner else [c]:
        columns.append(law[after])
        gains.append(tree.depth[node] + 1)
        owners.append(draft)
  owned = np.equal.outer(np.arange(len(found.chance)), owners)
  solution = scipy.optimize.linprog(
    -np.array(gains),
    # At most the target's law, of which the sum is 1: so it is that law.
    A_ub=np.stack(columns, axis=1),
    b_ub=law[0],
    A_eq=owned.astype(float),
    b_eq=found.chance / found.chance.sum(),
  )
  assert solution.success, solution.message
  return -solution.fun


def as_cycles(tree, proposal, case):
  """All drafts of a case as if they were recorded, and their chances."""
  found = every(tree, proposal, case)
  rows = found.context[:, tree.inner]
  number = np.arange(len(rows))
  return found.chance, replay.Cycles(
    tree=tree,
    proposal=PROPOSALS[proposal],
    tokens=found.tokens,
    q=case.q[rows],
    p=case.p[rows],
    item=number,
    cycle=number,
  )


class TestRecorded:
  """Its mean over drafts, exactly, against the programme."""

  @pytest.mark.parametrize("proposal", DRAWN)
  @pytest.mark.parametrize(
    ("tree", "V", "loose"),
    [
      ("chain:3", 3, 1e-6),
      ("kary:2x2", 4, 0.01),
      ("branching:3,1", 3, 0.02),
      (RAGGED, 3, 0.1),
    ],
    ids=str,
  )
  def test_is_a_bound_whatever_the_scales(self, tree, V, loose, proposal):
    tree = tree_lib.resolve(tree)
    scales = [(1.0, 1.0), (1.2, 0.85), (0.3, 1.0), (3.0, 2.0)]
    found, best = [], []
    for case in [*alike(tree, V, 3), *made(tree, V, 9)]:
      chance, cycles = as_cycles(tree, proposal, case)
      families = recorded.Families(cycles)
      found.append([chance @ families.bounds(*scale) for scale in scales])
      best.append(longest(tree, proposal, case))
      assert min(found[-1]) >= best[-1] - 1e-9
      if tree.is_chain:  # up to noise; here all drafts come as they should
        own = chance @ recorded.upper_bounds(cycles)
        assert own == pytest.approx(found[-1][0], abs=1e-9)
    over = np.sum(found, axis=0) / np.sum(best) - 1
    assert over.min() < loose

  @pytest.mark.parametrize("fault", ["elders", "place"])
  def test_what_is_no_bound_is_seen(self, fault, monkeypatch):
    """Shares too small; sets that look at what was drafted."""
    tree = tree_lib.kary(2, 2)
    if fault == "elders":
      how = recorded.SIBLINGS[DRAWN[0]]._replace(elders=False)
      monkeypatch.setitem(recorded.SIBLINGS, DRAWN[0], how)
    gaps = []
    for case in [*alike(tree, 4, 6), *made(tree, 4, 9)]:
      chance, cycles = as_cycles(tree, DRAWN[0], case)
      families = recorded.Families(cycles)
      if fault == "place":
        families.place[:] = 0  # first by p / q, because it was drafted
      best = longest(tree, DRAWN[0], case)
      gaps.append(chance @ families.bounds(1.0, 1.0) - best)
    assert min(gaps) < -1e-3

  @pytest.mark.parametrize(
    ("changes", "message"),
    [
      ({"proposal": PROPOSALS["top_k"]}, "token_level"),
      ({"tree": tree_lib.parse("adaptive:2,2")}, "known beforehand"),
      ({"p": np.zeros((1, 1, 5000))}, "5000 tokens"),
    ],
    ids=["top_k", "adaptive", "large"],
  )
  def test_where_none_is_known_a_line_says_so(self, changes, message):
    tree = tree_lib.kary(2, 1)
    _, cycles = as_cycles(tree, DRAWN[0], *made(tree, 3, 1))
    with pytest.raises(ValueError, match=message):
      recorded.upper_bounds(replay.Cycles(**cycles.__dict__ | changes))


def test_the_certificate_says_what_is_possible_if_asked(x64):
  own = certify.Settings(cases=3, bound=True)
  check = certify.check("traversal", DRAWN[0], "chain:2", own)
  table = certify.text(certify.table([("a", "b", "c", check)]))
  assert "of what is possible" in table
  assert check.possible == pytest.approx(check.expected, abs=1e-9)
