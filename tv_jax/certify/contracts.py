"""Programs that can be certified: contracts, and the laws that they are given.

All are run as cycles: drafts are drawn, something decides, tokens come out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import cases
from tv_jax.proposals import WITHOUT_REPLACEMENT, Proposal
from tv_jax.tree import Tree

# Taken before a program runs, while which others stand in their place.
_GENERATOR, _BITS = np.random.Generator, np.random.PCG64
CONTEXT = (1, 0)
ARRAYS = ("numpy", "torch")


class Laws:
  """The target's or the draft's law after any tokens; made when asked for."""

  def __init__(
    self,
    kind: str,
    V: int,
    seed: Sequence[int],
    which: int,
    least: int = 1,
    most: Sequence[int] = (),
  ):
    """Prepares laws of one kind of `cases.KINDS`.

    Args:
      kind: The kind.
      V: Tokens.
      seed: Of all laws.
      which: 0 for the target's, 1 for the draft's.
      least: Tokens that each law has, or more.
      most: Tokens that laws have at most: after the context, and elsewhere.
    """
    self.kind, self.V, self._seed, self._which = kind, V, [*seed], which
    self._least, self._most = least, most or (V, V)
    self.known: dict[tuple, np.ndarray] = {}

  def __call__(self, prefix: Sequence[int]) -> np.ndarray:
    """Returns the law [V] of the token after these."""
    prefix = tuple(map(int, prefix))
    if prefix[: len(CONTEXT)] != CONTEXT:
      raise ValueError(
        f"asked for the law after {list(prefix)}: prefixes begin with the"
        f" context {list(CONTEXT)}"
      )
    if prefix not in self.known:
      rng = _GENERATOR(_BITS([*self._seed, *prefix, len(prefix)]))
      law = cases.KINDS[self.kind](rng, self.V)[self._which]
      if np.count_nonzero(law) < self._least:
        law = (law + 0.25) / (1 + 0.25 * self.V)
      most = self._most[len(prefix) > len(CONTEXT)]
      law[np.argsort(law)[:-most]] = 0
      law /= law.sum() if most < self.V else 1
      self.known[prefix] = law
    return self.known[prefix].copy()


class Settings(NamedTuple):
  """How much to try.

  Attributes:
    vocabulary: Tokens; None: as the tree needs, or if there is none, 3, 5 and
      64 in turn.
    cases: Random laws of 3 tokens: of each kind of `cases.KINDS` in turn. Of
      more tokens there are fewer.
    tree: Of a verifier; None: kary:2x2 of 3 tokens, branching:3 of 5 and
      chain:1 of 64.
    proposal: How the siblings that a verifier is given were drawn.
    arrays: What a verifier's laws are: "numpy" or "torch".
    tolerance: Total variation that counts as rounding.
    budget: Runs of a case at most.
    seconds: After so many of the processor's no further case is begun.
    seed: Of the laws.
  """

  vocabulary: int | None = None
  cases: int = 24
  tree: Tree | tree_lib.Adaptive | str | None = None
  proposal: Proposal | str = "without_replacement"
  arrays: str = "numpy"
  tolerance: float = 1e-9
  budget: int = 100_000
  seconds: float = 40.0
  seed: int = 0


def _cycle(program, settings, p, q, context, rng):
  del settings
  return program(p, q, context, rng)


def _verify(program, settings, p, q, context, rng):
  """Draws a tree's tokens, and has a verifier decide."""
  tree = fixed_tree(settings)
  proposal = proposals.resolve(settings.proposal)
  tokens, prefixes = _drawn(tree.parents, q, context, rng, proposal)
  draft, target = (_array(map(law, prefixes), settings) for law in (q, p))
  # A copy: it is the program's own to change.
  path, token = program(tree, [*tokens], draft, target, rng)
  path, parent = _integers(path), 0
  for node in path:
    if not 0 < node < len(tokens) or tree.parents[node] != parent:
      raise TypeError(
        f"it returns the path {path}: give accepted nodes from a child of the"
        " root down, each below the one before"
      )
    parent = node
  return [*(tokens[node] for node in path), token]


def _prune(program, settings, p, q, context, rng):
  """Drafts a tree, drops what a policy drops, and verifies the rest."""
  parents = fixed_tree(settings).parents
  tokens, prefixes = _drawn(parents, q, context, rng)
  laws = _array(map(q, prefixes), settings)
  kept = {*_integers(program(tuple(parents), tuple(tokens), laws))}
  for node in kept:
    if not 0 < node < len(tokens) or parents[node] not in {0, *kept}:
      raise TypeError(
        f"it returns {sorted(kept)}: give the nodes that are verified, each"
        " with its parent"
      )
  # Token by token, siblings in turn: lossless for any shape.
  node, output = 0, []
  while True:
    left, draft = p(prefixes[node]), q(prefixes[node])
    for child in sorted(x for x in kept if parents[x] == node):
      token = tokens[child]
      if rng.random() * draft[token] < left[token] * draft.sum() / left.sum():
        node = child
        output.append(token)
        break
      left = np.maximum(left / left.sum() - draft / draft.sum(), 0)
      draft[token] = 0
    else:
      return [*output, int(rng.choice(len(left), p=left / left.sum()))]


def fixed_tree(settings: Settings) -> Tree:
  """Returns the tree of a verifier."""
  tree = tree_lib.resolve(settings.tree or "kary:2x2")
  if not isinstance(tree, Tree):
    raise ValueError(
      f"{settings.tree} takes its shape later: give a fixed tree"
    )
  return tree


def _drawn(parents, q, context, rng, proposal=WITHOUT_REPLACEMENT):
  """Draws a tree's tokens; returns each node's prefix as well."""
  tokens: list = [None] * len(parents)
  prefixes: list[tuple] = [tuple(context)] * len(parents)
  for node in range(len(parents)):
    children = [i for i, parent in enumerate(parents) if parent == node]
    law, drawn = q(prefixes[node]), []
    law /= law.sum()
    for child in children:
      step = proposal.following(law, tuple(drawn), len(children))
      if not step.any():
        raise ValueError(
          f"{proposal.name} draws no {len(children)} siblings from {law}"
        )
      drawn.append(int(rng.choice(len(law), p=step / step.sum())))
      tokens[child] = drawn[-1]
      prefixes[child] = (*prefixes[node], drawn[-1])
  return tokens, prefixes


def _integers(nodes) -> list[int]:
  nodes = nodes.tolist() if hasattr(nodes, "tolist") else nodes
  return [int(node) for node in nodes]


def _array(laws, settings):
  laws = np.array([*laws])
  if settings.arrays == "numpy":
    return laws
  import torch

  return torch.tensor(laws)


# What a program is called with, by kind.
KINDS: dict[str, Callable] = {
  "cycle": _cycle,
  "verify": _verify,
  "prune": _prune,
}
CONTRACTS = {
  "cycle": "cycle(p, q, context, rng) -> tokens",
  "verify": "verify(tree, tokens, q, p, rng) -> (path, next token)",
  "prune": "prune(parents, tokens, q) -> nodes that are verified",
}


def kind_of(program: Callable) -> str:
  """Tells a program's kind by its parameters."""
  parameters = inspect.signature(program).parameters
  telling = {"context": "cycle", "tree": "verify", "parents": "prune"}
  for name, kind in telling.items():
    if name in parameters:
      return kind
  raise ValueError(
    f"what kind of program {program} is cannot be told from its parameters:"
    f" give the kind; contracts are {'; '.join(CONTRACTS.values())}"
  )
