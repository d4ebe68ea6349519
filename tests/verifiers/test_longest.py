"""No lossless rule is longer on a chain than block verification (Theorem 2)."""

import numpy as np
import pytest
import scipy.optimize

from tests.lib import quick
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import drafts, rules, worlds
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.verifiers import VERIFIERS

WITHOUT = "without_replacement"


@pytest.mark.parametrize(
  ("shape", "proposal", "optimal"),
  quick.shorter(
    [
      ("chain:2", WITHOUT, True),
      ("kary:2x2", "top_k", True),  # there is nothing to choose
      ("kary:2x2", WITHOUT, False),
    ]
  ),
)
def test_the_longest_lossless_rule(shape, proposal, optimal, x64):
  tree, drawn, missed = tree_lib.parse(shape), PROPOSALS[proposal], []
  names = ("block", "traversal") if tree.is_chain else ("traversal",)
  runs = [
    rules.compile_rule(VERIFIERS[rule], drawn, tree, certify.Settings())
    for rule in names
  ]
  contexts = worlds.num_contexts(3, tree.max_depth)
  for case in worlds.generate(0, 6, 3, contexts):
    p, q = case.rows(tree.max_depth)
    every = drafts.enumerate_drafts(tree, drawn, q)
    longest = longest_length(tree, every, p)
    missed += [longest - run(case).length for run in runs]
  assert min(missed) > -1e-7
  assert (max(missed) < 1e-7) == optimal


def longest_length(tree, every, p):
  """A rule that gives each draft's accepted node and its bonus token."""
  V, depth = p.shape[1], tree.max_depth
  first = worlds.num_contexts(V, depth - 1)  # of the contexts of full depth
  law = {c: np.eye(V**depth)[c - first] for c in range(first, len(p))}
  for c in reversed(range(first)):  # of the first `depth` tokens after c
    law[c] = sum(p[c, y] * law[c * V + y + 1] for y in range(V))
  columns, gains, owners = [], [], []
  for draft, node in np.ndindex(every.tokens.shape):
    if every.tokens[draft, node] == INVALID:
      continue
    c, inner = every.context[draft, node], tree.depth[node] < depth
    for after in range(c * V + 1, c * V + V + 1) if inner else [c]:
      columns.append(law[after])
      gains.append(tree.depth[node] + 1)
      owners.append(draft)
  owned = np.equal.outer(np.arange(len(every.chance)), owners)
  solution = scipy.optimize.linprog(
    -np.array(gains),
    # At most the target's law, and both sum to 1: so they are equal.
    A_ub=np.stack(columns, axis=1),
    b_ub=law[0],
    A_eq=owned.astype(float),
    b_eq=every.chance / every.chance.sum(),
  )
  assert solution.success, solution.message
  return -solution.fun
