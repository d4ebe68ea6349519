"""What any lossless rule can gain, exactly."""

import numpy as np
import pytest
import scipy.optimize

from tests import quick
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import bound, cases, drafts, exact
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.verifiers import VERIFIERS

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


def test_the_certificate_says_what_is_possible_if_asked(x64):
  own = certify.Settings(cases=3, bound=True)
  check = certify.check("traversal", DRAWN[0], "chain:2", own)
  table = certify.table([("a", "b", "c", check)])
  assert "of what is possible" in table
  assert check.possible == pytest.approx(check.expected, abs=1e-9)
