"""The two contracts of a program that can be certified, and its laws.

A program in either contract is run as a cycle, a function from the target's and
the draft's laws to tokens.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import cases
from tv_jax.certify.dice import jax_tracing
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree

# Kept here because numpy.random has stand-ins while a program runs.
_GENERATOR, _BITS = np.random.Generator, np.random.PCG64
CONTEXT = (1, 0)
CYCLE = "cycle(p, q, context, rng) -> tokens"
FLOAT32 = 1e-6  # the largest distance that single precision explains
VERIFY = "verify(tree, tokens, q, p, rng) -> (path, next token)"


class Settings(NamedTuple):
  """How much to try.

  Attributes:
    vocabulary: Number of tokens. None: as many as the tree needs, or without a
      tree 3, 5 and 64 in turn.
    cases: Number of random laws of 3 tokens; `cases.KINDS` take turns. Larger
      vocabularies have fewer cases.
    tree: The tree that a verifier gets. None: several trees, to depth 5 and to
      4 siblings. "chain": several chains.
    proposal: How the siblings that a verifier gets are drawn.
    arrays: Array type of a program's laws: "numpy", "torch" or "jax". With
      "jax", `rng` is a `jax.random.key`.
    tolerance: Largest total variation that counts as rounding. None: 1e-9, or
      `FLOAT32` for laws in JAX's float32.
    strict: Whether a coin that is compared with `<=` is a failure.
    budget: Maximum number of runs in a case.
    seconds: Processor time after which no further case begins. None: 40, or
      200 in JAX, where each operation takes longer.
    seed: Seed of the laws.
  """

  vocabulary: int | None = None
  cases: int = 24
  tree: Tree | tree_lib.Adaptive | str | None = None
  proposal: Proposal | str = "without_replacement"
  arrays: str = "numpy"
  tolerance: float | None = None
  strict: bool = False
  budget: int = 100_000
  seconds: float | None = None
  seed: int = 0

  @property
  def allowed(self) -> float:
    """The tolerance, or its default for the arrays."""
    if self.tolerance is not None:
      return self.tolerance
    in_jax = self.arrays == "jax"
    in_float32 = in_jax and jnp.asarray(0.0).dtype == np.float32
    return FLOAT32 if in_float32 else 1e-9

  @property
  def limit(self) -> float:
    """The seconds, or their default for the arrays."""
    if self.seconds is not None:
      return self.seconds
    return 200.0 if self.arrays == "jax" else 40.0


class Laws:
  """The target's or the draft's law after any prefix, made on demand."""

  def __init__(
    self,
    kind: str,
    V: int,
    seed: Sequence[int],
    which: int,
    least: int = 1,
    most: Sequence[int] = (),
  ):
    """Prepares random laws.

    Args:
      kind: A key of `cases.KINDS`.
      V: Number of tokens.
      seed: Seed of the target's and the draft's laws together.
      which: 0 for the target's laws, 1 for the draft's.
      least: Minimum number of tokens with a positive probability.
      most: Maximum number of tokens with a positive probability, at depth 0, 1,
        ..; the last entry holds for all greater depths.
    """
    self.kind, self.V, self._seed, self._which = kind, V, [*seed], which
    self._least, self._most = least, most or (V,)
    self.known: dict[tuple, np.ndarray] = {}

  def __call__(self, prefix: Sequence[int]) -> np.ndarray:
    """Returns the law [V] of the token after a prefix."""
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
      depth = min(len(prefix) - len(CONTEXT), len(self._most) - 1)
      most = self._most[depth]
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
  """Returns a program as a function from p, q, context and rng to tokens."""
  arrays = np.asarray
  if settings.arrays == "torch":
    import torch  # before the program runs, so that its draws are followed

    arrays = torch.tensor
  if settings.arrays == "jax":
    arrays = jnp.asarray
  if is_cycle(program):
    makes = {"jax": _in_jax, "torch": functools.partial(_with_laws, arrays)}
    return makes.get(settings.arrays, lambda cycle: cycle)(program)
  if settings.arrays == "jax":
    program = _with_key(program)
  tree, proposal = fixed_tree(settings), proposals.resolve(settings.proposal)
  return functools.partial(_verify, program, tree, proposal, arrays)


def _with_key(program: Callable) -> Callable:
  """Returns a program that gets a key in place of a generator."""
  return lambda *given: program(*given[:-1], jax_tracing.given_key())


def _in_jax(program: Callable) -> Callable:
  """Returns a cycle that gets JAX arrays, made once for all runs, as laws."""

  @functools.cache
  def law_of(law: Laws):
    return jax_tracing.with_arrays(law)

  drawn = _with_key(program)
  return lambda p, q, context, rng: drawn(law_of(p), law_of(q), context, rng)


def _with_laws(arrays: Callable, program: Callable) -> Callable:
  """Returns a cycle that gets its laws as arrays made by `arrays`."""
  return lambda p, q, context, rng: program(
    lambda prefix: arrays(p(prefix)),
    lambda prefix: arrays(q(prefix)),
    context,
    rng,
  )


def fixed_tree(settings: Settings) -> Tree:
  """Returns the tree that a verifier gets."""
  tree = tree_lib.resolve(settings.tree or "kary:2x2")
  if not isinstance(tree, Tree):
    raise ValueError(
      f"{settings.tree} takes its shape later: give a fixed tree"
    )
  return tree


class OnChainsError(TypeError):
  """A verifier returns the path 1, 2, .. on a tree without that path."""


def _verify(program, tree, proposal, arrays, p, q, context, rng):
  """Draws a tree's tokens and lets a verifier decide."""
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
  # A copy, because the program may change its list of tokens.
  path, token = _returned(program(tree, [*tokens], *laws, rng))
  for parent, node in zip([0, *path], path, strict=False):
    if not 0 < node < len(tree) or tree.parents[node] != parent:
      told = (
        f"it returns the path {path}: give accepted nodes from a child of the"
        " root down, each below the one before"
      )
      if path == [*range(1, len(path) + 1)]:
        raise OnChainsError(f"{told} (--trees=chain for a verifier of chains)")
      raise TypeError(told)
  return [*(tokens[node] for node in path), token]


def _returned(output) -> tuple[list[int], Any]:
  """Returns the path and the next token that a verifier returned."""
  try:
    path, token = output
    path = path.tolist() if hasattr(path, "tolist") else path
    return [*map(int, path)], token
  except (TypeError, ValueError):
    raise TypeError(
      f"it returns {output!r:.80} and not a pair (path, next token), as a"
      f" {VERIFY} does"
    ) from None
