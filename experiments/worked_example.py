"""The paper's Table 1 and its example of section 3.2, by the package's rules.

Three tokens, p = (.3, .4, .3), q = (.6, .3, .1), and the tree of the paper's
Figure 1 with tokens a c b c a. The paper's printed numbers are shown as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.experiment import Artefact, Experiment, Group
from tv_jax import tree as tree_lib
from tv_jax.io.tables import NOTHING, Table
from tv_jax.proposals import WITHOUT_REPLACEMENT
from tv_jax.verifiers import NOT_OFFERED, VERIFIERS, Draft

TOKENS = "abc"
P, Q = np.array([0.3, 0.4, 0.3]), np.array([0.6, 0.3, 0.1])
FIGURE_1 = tree_lib.from_parents([-1, 0, 0, 1, 1, 2])
DRAWN = "acbca"  # X1 .. X5
FIGURE_1_TOKENS = [TOKENS.index(token) for token in DRAWN]
# The paper's table: rows are output tokens, columns are drawn tokens.
TABLE_1 = np.array([[0.3, 0, 0], [0.1, 0.3, 0], [0.2, 0, 0.1]])
# Chances in the order of the offers; X5 and X2 are not printed.
SECTION_3_2 = {
  **{"X3": "0.667", "X4": "0.637", "X1": "0.000"},
  **dict.fromkeys(("X5", "X2"), NOTHING),
}
ONE_UNDER = np.nextafter(np.float32(1), np.float32(0))


def render(groups: Sequence[Group]) -> Artefact:
  """Makes the table and the example."""
  del groups
  joint = single_token()
  rows = [
    [f"{token} ({p:g})", *map(_short, computed), *map(_short, printed)]
    for token, p, computed, printed in zip(
      TOKENS, P, joint, TABLE_1, strict=True
    )
  ]
  drawn = [f"{token} ({q:g})" for token, q in zip(TOKENS, Q, strict=True)]
  spans = [("", 1), ("this package", 3), ("the paper", 3)]
  first = Table("Table 1", spans, ["comes out", *drawn, *drawn], rows)
  walk, after = chances("traversal"), second_sibling()
  rows = [
    [node, DRAWN[int(node[1]) - 1], _short(chance), SECTION_3_2[node]]
    for node, chance in walk.items()
  ]
  sides = ["this package", "the paper"]
  title = "Section 3.2: the traversal, in its order"
  second = Table(title, [], ["node", "token", *sides], rows)
  title = "Recursive rejection, a drawn first and rejected"
  rows = [["b", _short(after["b"]), "4/9"], ["c", _short(after["c"]), "1"]]
  third = Table(title, [], ["second token", *sides], rows)
  reading = [
    f"The package gives Table 1 to within {abs(joint - TABLE_1).max():.0e};"
    f" its rows sum to {', '.join(_short(x) for x in joint.sum(axis=1))}, the"
    " target's law.",
    f"The traversal keeps the chain X1 X3 with probability {walk['X3']:.3f},"
    f" token-level verification with {reached('token_level'):.3f}; the paper"
    " has 0.667 and 0.5.",
  ]
  note = "X4's chance is 7/11; the paper's 0.637 is 7 times its rounded 0.091."
  return Artefact(reading, [first, second, third], {}, [note])


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


def _short(value) -> str:
  """Returns four digits, without zeros at the end."""
  return f"{float(value):.4f}".rstrip("0").rstrip(".")


WORKED_EXAMPLE = Experiment(
  name="worked_example",
  title="The paper's Table 1 and its worked example",
  sweep=lambda config, smoke: iter(()),
  render=render,
  configs=(),
)
