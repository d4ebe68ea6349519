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
from tv_jax.verifiers import NOT_OFFERED, VERIFIERS, Draft

TOKENS = "abc"
P, Q = np.array([0.3, 0.4, 0.3]), np.array([0.6, 0.3, 0.1])
FIGURE_1 = tree_lib.from_parents([-1, 0, 0, 1, 1, 2])
DRAWN = "acbca"  # X1 .. X5
FIGURE_1_TOKENS = [TOKENS.index(token) for token in DRAWN]
# The paper's table: rows are output tokens, columns are drawn tokens.
TABLE_1 = np.array([[0.3, 0, 0], [0.1, 0.3, 0], [0.2, 0, 0.1]])
ONE_UNDER = np.nextafter(np.float32(1), np.float32(0))


def single_token() -> np.ndarray:
  """Enumerates [out, drawn]: one token drafted and verified."""
  tree, joint = tree_lib.chain(1), np.zeros((3, 3))
  for token in range(3):
    refused = decision("token_level", tree, [token], ONE_UNDER)
    accept = refused.threshold[1]
    joint[token, token] += Q[token] * accept
    joint[:, token] += Q[token] * (1 - accept) * np.asarray(refused.residual)
  return joint


def second_sibling() -> dict[str, float]:
  """Returns the chance of the second of two siblings, the first being a."""
  tree = tree_lib.kary(2, 1)
  return {
    TOKENS[token]: float(
      decision("token_level", tree, [0, token], ONE_UNDER).threshold[2]
    )
    for token in (1, 2)
  }


def chances(rule: str) -> dict[str, float]:
  """Returns the chance of each node of Figure 1, as the rule offers them."""
  threshold = decision(rule, FIGURE_1, FIGURE_1_TOKENS, ONE_UNDER).threshold
  order = [int(n) for n in FIGURE_1.postorder if n != tree_lib.ROOT]
  return {
    f"X{n}": float(threshold[n]) for n in order if threshold[n] != NOT_OFFERED
  }


def reached(rule: str) -> float:
  """Returns the chance that X1 and X3 are both entered, from the root down."""
  threshold = decision(rule, FIGURE_1, FIGURE_1_TOKENS, 0.0).threshold
  return float(threshold[1] * threshold[3])


def decision(name, tree, tokens, coin):
  """Returns a rule's decision when all coins are alike."""
  nodes = len(tree)
  q, p = (jnp.asarray(np.tile(law, (nodes, 1)), jnp.float32) for law in (Q, P))
  eta = jnp.full(nodes, coin, jnp.float32)
  drafted = jnp.asarray([0, *tokens], jnp.int32)
  draft = Draft(tree, WITHOUT_REPLACEMENT, drafted, q, p)
  return jax.jit(VERIFIERS[name].decide)(draft, eta)


def test_the_papers_table_of_one_token():
  assert single_token() == pytest.approx(TABLE_1, abs=1e-6)


def test_the_papers_traversal_of_figure_1():
  """X4's chance is 7/11; the paper's 0.637 is 7 times its rounded 0.091."""
  walk = chances("traversal")
  assert [*walk] == ["X3", "X4", "X1", "X5", "X2"]
  exact = [2 / 3, 7 / 11, 0, 1 / 2, 1]
  assert [*walk.values()] == pytest.approx(exact, abs=1e-6)
  assert reached("token_level") == pytest.approx(0.5, abs=1e-6)


def test_the_papers_second_sibling():
  assert second_sibling() == pytest.approx({"b": 4 / 9, "c": 1})
