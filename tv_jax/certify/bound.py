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
F(c) over all c but the root: a linear programme without bonus tokens. The dual
has a price L(c) >= 0 for each c but the root, and for ANY such prices

    length <= 1 + N(root) + E_T[ max over v in T of sum of w(u) over u to v ]
    N(c) = sum over y of L(c y) p(y | c),   w(c) = 1 - L(c) + N(c)          (3)

What is returned is (3) at the solver's prices: a bound however accurately they
were found, and the optimum as far as they are optimal.

SciPy, which JAX needs as well, brings the solver (HiGHS).
"""

import numpy as np

from tv_jax.certify.drafts import Drafts
from tv_jax.tree import ROOT

# The finest that the solver knows.
_ACCURACY = 1e-10


def on_drafts(p: np.ndarray, drafts: Drafts) -> float:
  """Returns the largest expected length of a lossless rule.

  Args:
    p: [contexts, V] the target's laws.
    drafts: All drafts, as `enumerate_drafts` gives them.
  """
  p = p.astype(float)
  sets, chance = _sets(drafts)
  if not sets.any():
    return 1.0
  return _dual(p, sets, chance, _prices(p, sets, chance))


def _sets(drafts):
  """Sets of contexts [S, N], the root in unused places, and chances [S]."""
  context = np.sort(drafts.context, axis=1)
  twin = context[:, 1:] == context[:, :-1]
  context[:, 1:] = np.where(twin, ROOT, context[:, 1:])
  context.sort(axis=1)
  sets, which = np.unique(context, axis=0, return_inverse=True)
  return sets, np.bincount(which.ravel(), weights=drafts.chance)


def _prices(p, sets, chance):
  """[contexts] L, by the programme; 0 for what is never drafted.

  Unknown is f_T(c) times the chance of T, for each c but the root in each T.
  """
  # Nothing but a bound needs the solver, and it takes long to import.
  from scipy import optimize, sparse

  contexts, V = p.shape
  which, place = np.nonzero(sets != ROOT)
  context = sets[which, place]
  n = len(context)
  above, token = np.divmod(context - 1, V)

  def matrix(row, column, shape):
    return sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=shape)

  # (1): one row for each T and each context in it that has children there.
  key = which * contexts + context
  order = np.argsort(key)
  families, family = np.unique(which * contexts + above, return_inverse=True)
  root = families % contexts == ROOT
  own = order[np.searchsorted(key, families[~root], sorter=order)]
  one = matrix(family, np.arange(n), (len(families), n))
  one -= matrix(np.flatnonzero(~root), own, one.shape)
  at_most = np.where(root, chance[families // contexts], 0)
  # (2): one row for each context that can be drafted.
  total = matrix(context, np.arange(n), (contexts, n))
  drafted, first = np.unique(context, return_index=True)
  above, p_at = above[first], p[above[first], token[first]]
  other = total[drafted] - sparse.diags(p_at) @ total[above]
  solution = optimize.linprog(
    -np.ones(n),
    A_ub=sparse.vstack([one, other]).tocsr(),
    b_ub=np.concatenate([at_most, np.where(above == ROOT, p_at, 0)]),
    method="highs",
    options={
      "primal_feasibility_tolerance": _ACCURACY,
      "dual_feasibility_tolerance": _ACCURACY,
    },
  )
  if solution.status:
    raise RuntimeError(f"the linear programme failed: {solution.message}")
  prices = np.zeros(contexts)
  prices[drafted] = np.maximum(-solution.ineqlin.marginals[len(families) :], 0)
  return prices


def _dual(p, sets, chance, prices):
  """(3)."""
  contexts, V = p.shape
  inner = (contexts - 1) // V
  after = np.zeros(contexts)
  after[:inner] = (prices[1:].reshape(inner, V) * p[:inner]).sum(axis=1)
  worth = 1 - prices + after
  worth[ROOT] = 0
  for context in range(1, contexts):  # in level order
    worth[context] += worth[(context - 1) // V]
  return float(1 + after[ROOT] + chance @ worth[sets].max(axis=1))
