"""The most that any lossless rule can gain in a small world, exactly.

Axes: S sets of contexts, V vocabulary.

Of a drafted tree only the set T of its contexts matters: twins are one, and the
order of siblings is of no account. Let f_T(c) be a rule's chance to accept, on
the draft T, a node that is c or below c, and F(c) its mean over drafts. Then

    f_T(root) = 1,   sum of f_T(c y) over the children of c in T <= f_T(c)  (1)
    F(c y) <= F(c) p(y | c)   for every context c                           (2)

is all that is asked of a lossless rule. (1) says that it accepts one node. As
to (2): an output begins with c y if c y was accepted, or c was and y is the
bonus token, or it had left the draft before c and the target went on:

    F(c y) + P(ends at c, bonus y) + (p(c) - F(c)) p(y | c) = p(c) p(y | c)

so that F(c) p(y | c) - F(c y) is the bonus token's share, which must not be
negative, and any such share will do. The expected length is 1 and the sum of
F(c) over all c but the root: a linear programme without bonus tokens.
"""

import numpy as np

from tv_jax.certify.drafts import Drafts
from tv_jax.tree import ROOT

_ACCURACY = 1e-10  # the finest that the solver knows


def on_drafts(p: np.ndarray, drafts: Drafts) -> float:
  """Returns the largest expected length of a lossless rule.

  Unknown is f_T(c) times the chance of T, for each c but the root in each T.

  Args:
    p: [contexts, V] the target's laws.
    drafts: All drafts, as `enumerate_drafts` gives them.
  """
  from scipy import optimize, sparse  # which take long to import

  p, (contexts, V) = p.astype(float), p.shape
  nodes = np.sort(drafts.context, axis=1)  # the root's in place of twins
  nodes[:, 1:] *= nodes[:, 1:] != nodes[:, :-1]
  sets, draws = np.unique(np.sort(nodes, axis=1), axis=0, return_inverse=True)
  chance = np.bincount(draws.ravel(), weights=drafts.chance)
  which, place = np.nonzero(sets != ROOT)
  context = sets[which, place]
  if not len(context):
    return 1.0
  above, token = np.divmod(context - 1, V)

  def matrix(row, column, shape):
    return sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=shape)

  # (1): one row for each T and each context in it that has children there.
  key, column = which * contexts + context, np.arange(len(context))
  families, family = np.unique(which * contexts + above, return_inverse=True)
  root = families % contexts == ROOT
  own = np.searchsorted(key, families[~root])
  one = matrix(family, column, (len(families), len(context)))
  one -= matrix(np.flatnonzero(~root), own, one.shape)
  # (2): one row for each context that can be drafted.
  total = matrix(context, column, (contexts, len(context)))
  drafted, first = np.unique(context, return_index=True)
  above, p_at = above[first], p[above[first], token[first]]
  other = total[drafted] - sparse.diags(p_at) @ total[above]
  accurate = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
  solution = optimize.linprog(
    -np.ones(len(context)),
    A_ub=sparse.vstack([one, other]).tocsr(),
    b_ub=np.concatenate(
      [
        np.where(root, chance[families // contexts], 0),
        np.where(above == ROOT, p_at, 0),
      ]
    ),
    method="highs",
    options=dict.fromkeys(accurate, _ACCURACY),
  )
  if solution.status:
    raise RuntimeError(f"the linear programme failed: {solution.message}")
  return 1 - float(solution.fun)
