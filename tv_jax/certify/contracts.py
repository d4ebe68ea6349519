"""What a program that can be certified is called with.

Each is run as a cycle: drafts are drawn, something decides, tokens come out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import cases
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree

# Taken before a program runs, while which others stand in their place.
_GENERATOR, _BITS = np.random.Generator, np.random.PCG64
CONTEXT = (1, 0)
CYCLE = "cycle(p, q, context, rng) -> tokens"
VERIFY = "verify(tree, tokens, q, p, rng) -> (path, next token)"


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


def is_cycle(program: Callable) -> bool:
  """Tells a cycle from a verifier by the names of its parameters."""
  parameters = inspect.signature(program).parameters
  if not {"context", "tree"} & {*parameters}:
    raise ValueError(
      f"{program} is neither a {CYCLE} nor a {VERIFY}: name its parameters so"
    )
  return "context" in parameters


def as_cycle(program: Callable, settings: Settings) -> Callable:
  """Returns a program as a function of p, q, context and rng to tokens."""
  if is_cycle(program):
    return program
  tree, proposal = fixed_tree(settings), proposals.resolve(settings.proposal)
  arrays = np.asarray
  if settings.arrays == "torch":
    import torch  # before the program runs, or what it draws is not seen

    arrays = torch.tensor
  return functools.partial(_verify, program, tree, proposal, arrays)


def fixed_tree(settings: Settings) -> Tree:
  """Returns the tree of a verifier."""
  tree = tree_lib.resolve(settings.tree or "kary:2x2")
  if not isinstance(tree, Tree):
    raise ValueError(
      f"{settings.tree} takes its shape later: give a fixed tree"
    )
  return tree


def _verify(program, tree, proposal, arrays, p, q, context, rng):
  """Draws a tree's tokens, and has a verifier decide."""
  tokens: list = [None] * len(tree)
  prefixes: list[tuple] = [tuple(context)] * len(tree)
  for node in range(len(tree)):
    children = [i for i, parent in enumerate(tree.parents) if parent == node]
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
  laws = [arrays(np.array([*map(law, prefixes)])) for law in (q, p)]
  # A copy: it is the program's own to change.
  path, token = program(tree, [*tokens], *laws, rng)
  path = [*map(int, path.tolist() if hasattr(path, "tolist") else path)]
  for parent, node in zip([0, *path], path, strict=False):
    if not 0 < node < len(tree) or tree.parents[node] != parent:
      raise TypeError(
        f"it returns the path {path}: give accepted nodes from a child of the"
        " root down, each below the one before"
      )
  return [*(tokens[node] for node in path), token]
