"""The paper's Table 1 and its example of section 3.2, by the package's rules.

Three tokens, p = (.3, .4, .3), q = (.6, .3, .1), and the tree of the paper's
Figure 1 with tokens a c b c a.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tv_jax import tree as tree_lib
from tv_jax.proposals import WITHOUT_REPLACEMENT
from tv_jax.verifiers import VERIFIERS, Draft

P, Q = np.array([0.3, 0.4, 0.3]), np.array([0.6, 0.3, 0.1])
FIGURE_1 = tree_lib.from_parents([-1, 0, 0, 1, 1, 2])
X1_TO_X5 = [0, 2, 1, 2, 0]  # a c b c a
# Rows are output tokens, columns are drawn tokens.
TABLE_1 = np.array([[0.3, 0, 0], [0.1, 0.3, 0], [0.2, 0, 0.1]])
ONE_UNDER = np.nextafter(np.float32(1), np.float32(0))


def decide(name, tree, tokens, coin=ONE_UNDER):
  """Returns a rule's decision when all coins are alike."""
  nodes = len(tree)
  q, p = (jnp.asarray(np.tile(law, (nodes, 1)), jnp.float32) for law in (Q, P))
  drafted = jnp.asarray([0, *tokens], jnp.int32)
  draft = Draft(tree, WITHOUT_REPLACEMENT, drafted, q, p)
  eta = jnp.full(nodes, coin, jnp.float32)
  return jax.jit(VERIFIERS[name].decide)(draft, eta)


def test_the_papers_table_of_one_token():
  joint = np.zeros((3, 3))
  for token in range(3):
    rejected = decide("token_level", tree_lib.chain(1), [token])
    accept = rejected.threshold[1]
    joint[token, token] += Q[token] * accept
    joint[:, token] += Q[token] * (1 - accept) * np.asarray(rejected.residual)
  assert joint == pytest.approx(TABLE_1, abs=1e-6)


def test_the_papers_traversal_of_figure_1():
  """X4's chance is 7/11; the paper's 0.637 is 7 times its rounded 0.091."""
  threshold = decide("traversal", FIGURE_1, X1_TO_X5).threshold
  order = FIGURE_1.postorder[:-1]
  assert order.tolist() == [3, 4, 1, 5, 2]
  exact = [2 / 3, 7 / 11, 0, 1 / 2, 1]
  assert threshold[order] == pytest.approx(exact, abs=1e-6)
  threshold = decide("token_level", FIGURE_1, X1_TO_X5, 0.0).threshold
  assert threshold[1] * threshold[3] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(("token", "chance"), [(1, 4 / 9), (2, 1)])
def test_the_papers_second_sibling(token, chance):
  found = decide("token_level", tree_lib.kary(2, 1), [0, token])
  assert found.threshold[2] == pytest.approx(chance)
