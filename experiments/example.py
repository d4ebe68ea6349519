"""The paper's Table 1 and its example of section 3.2, by the package's rules.

Nothing is run on models: three tokens, p = (.3, .4, .3), q = (.6, .3, .1), and
the tree of the paper's Figure 1 with tokens a c b c a. Beside every number of
this package's stands the paper's, as printed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.experiment import Artefact, Group
from tv_jax import tree as tree_lib
from tv_jax.proposals import WITHOUT_REPLACEMENT
from tv_jax.runs.report.tables import NOTHING, Table
from tv_jax.verifiers import NOT_OFFERED, VERIFIERS

TOKENS = "abc"
P, Q = np.array([0.3, 0.4, 0.3]), np.array([0.6, 0.3, 0.1])
FIGURE_1 = tree_lib.from_parents([-1, 0, 0, 1, 1, 2])
DRAWN = "acbca"  # X1 .. X5
# As the paper prints them: rows are what comes out, columns what was drawn.
TABLE_1 = np.array([[0.3, 0, 0], [0.1, 0.3, 0], [0.2, 0, 0.1]])
# Chances in the order in which nodes are offered; X5 and X2 are not printed.
SECTION_3_2 = {"X3": 0.667, "X4": 0.637, "X1": 0.0, "X5": None, "X2": None}
ONE_UNDER = np.nextafter(np.float32(1), np.float32(0))


def render(groups: Sequence[Group]) -> Artefact:
  """The table and the example."""
  del groups
  joint = single_token()
  rows = [
    [f"{token} ({p:g})", *map(_short, own), *map(_short, printed)]
    for token, p, own, printed in zip(TOKENS, P, joint, TABLE_1, strict=True)
  ]
  drawn = [f"{token} ({q:g})" for token, q in zip(TOKENS, Q, strict=True)]
  spans = [("", 1), ("this package", 3), ("the paper", 3)]
  first = Table("Table 1", spans, ["comes out", *drawn, *drawn], rows)

  walk = offers("traversal")
  second = Table(
    "Section 3.2: the traversal, in its order",
    [],
    ["node", "token", "this package", "the paper"],
    [
      [
        node,
        DRAWN[int(node[1]) - 1],
        _short(chance),
        NOTHING if SECTION_3_2[node] is None else f"{SECTION_3_2[node]:.3f}",
      ]
      for node, chance in walk.items()
    ],
  )
  after = siblings()
  third = Table(
    "Recursive rejection, a drawn first and rejected",
    [],
    ["second token", "this package", "the paper"],
    [["b", _short(after["b"]), "4/9"], ["c", _short(after["c"]), "1"]],
  )
  down = reached("token_level")
  told = [
    f"Table 1 is the package's own to {abs(joint - TABLE_1).max():.0e}; its"
    f" rows sum to {', '.join(_short(x) for x in joint.sum(axis=1))}, which is"
    " the target's law.",
    f"The chain X1 X3 is kept with {walk['X3']:.3f} by the traversal, and"
    f" {down:.3f} by token-level verification: the paper has 0.667 and 0.5.",
  ]
  note = "X4's chance is 7/11; the paper's 0.637 is 7 times its rounded 0.091."
  return Artefact(told, [first, second, third], {}, [note])


def single_token() -> np.ndarray:
  """[out, drawn]: one token drafted and verified, by enumeration."""
  tree, joint = tree_lib.chain(1), np.zeros((3, 3))
  for token in range(3):
    accept = decide("token_level", tree, [token], 1).accept[1]
    refused = decide("token_level", tree, [token], 1)
    joint[token, token] += Q[token] * accept
    joint[:, token] += Q[token] * (1 - accept) * np.asarray(refused.residual)
  return joint


def siblings() -> dict[str, float]:
  """The chance of the second of two siblings, the first being a."""
  tree = tree_lib.kary(2, 1)
  return {
    TOKENS[token]: float(decide("token_level", tree, [0, token], 1).accept[2])
    for token in (1, 2)
  }


def offers(rule: str) -> dict[str, float]:
  """The chance of each node on the example's tree, as it is offered."""
  accept = decide(rule, FIGURE_1, _tokens(), 1).accept
  order = [int(n) for n in FIGURE_1.postorder if n != tree_lib.ROOT]
  return {f"X{n}": float(accept[n]) for n in order if accept[n] != NOT_OFFERED}


def reached(rule: str) -> float:
  """The chance that X1 and X3 are both entered, from the root down."""
  accept = decide(rule, FIGURE_1, _tokens(), 0).accept
  return float(accept[1] * accept[3])


def decide(name, tree, tokens, coin):
  """A decision in which all coins are 0, or just under 1."""
  nodes = len(tree)
  laws = [jnp.asarray(np.tile(law, (nodes, 1)), jnp.float32) for law in (Q, P)]
  eta = np.full(nodes, ONE_UNDER if coin else 0, np.float32)
  drafted = jnp.asarray([0, *tokens], jnp.int32)
  return _decide(name, tree, drafted, *laws, jnp.asarray(eta))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _decide(name, tree, tokens, q, p, eta):
  return VERIFIERS[name].decide(tree, WITHOUT_REPLACEMENT, tokens, q, p, eta)


def _tokens():
  return [TOKENS.index(token) for token in DRAWN]


def _short(value) -> str:
  """Four digits, without noughts at the end."""
  return f"{float(value):.4f}".rstrip("0").rstrip(".")
