"""The two contracts of a program that can be certified.

A program in either contract is run as a cycle, a function from the target's and
the draft's laws to tokens.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify.dice import jax_tracing
from tv_jax.io.errors import UserError
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree

CONTEXT = (1, 0)
CYCLE = "cycle(p, q, context, rng) -> tokens"
FLOAT32 = 1e-6  # the largest distance that single precision explains
VERIFY = "verify(tree, tokens, q, p, rng) -> (path, next token)"


class Settings(NamedTuple):
  """How much to try.

  Attributes:
    vocabulary: Number of tokens. None: as many as the tree needs, or without a
      tree 3, 5 and 64 in turn.
    cases: Number of random laws of 3 tokens; `worlds.KINDS` take turns. Larger
      vocabularies have fewer cases.
    tree: The tree that a verifier gets. None: several trees, to depth 5 and to
      4 siblings. "chain": several chains.
    proposal: How the siblings that a verifier gets are drawn.
    arrays: Array type of a program's laws: "numpy", "torch" or "jax". With
      "jax", `rng` is a `jax.random.key`.
    tolerance: Largest total variation that counts as rounding. None: 1e-9, or
      `FLOAT32` for laws in JAX's float32.
    strict: Whether a coin that is compared with `<=` is a failure.
    budget: Maximum number of runs in a case, and number of runs in all cases
      after which no further case begins. None: 50,000, or 10,000 with tensors
      and JAX arrays, which take longer.
    seed: Seed of the laws.
  """

  vocabulary: int | None = None
  cases: int = 24
  tree: Tree | str | None = None
  proposal: Proposal | str = "without_replacement"
  arrays: str = "numpy"
  tolerance: float | None = None
  strict: bool = False
  budget: int | None = None
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
  def runs(self) -> int:
    """The budget, or its default for the arrays."""
    if self.budget is not None:
      return self.budget
    return 50_000 if self.arrays == "numpy" else 10_000


def is_cycle(program: Callable) -> bool:
  """Tells a cycle from a verifier by the names of its parameters."""
  parameters = inspect.signature(program).parameters
  if not {"context", "tree"} & {*parameters}:
    raise UserError(
      f"{program} is neither a {CYCLE} nor a {VERIFY}: name its parameters so"
    )
  return "context" in parameters


def as_cycle(program: Callable, settings: Settings) -> Callable:
  """Returns a program as a function from p, q, context and rng to tokens."""
  arrays, given = np.asarray, program
  if settings.arrays == "torch":
    import torch  # before the program runs, so that its draws are followed

    arrays = torch.tensor
  if settings.arrays == "jax":
    arrays = jnp.asarray

    def given(*arguments):
      return program(*arguments[:-1], jax_tracing.given_key())

  if not is_cycle(program):
    proposal = proposals.resolve(settings.proposal)
    tree = fixed_tree(settings.tree)
    return functools.partial(_verify, given, tree, proposal, arrays)
  if settings.arrays == "jax":
    convert = functools.cache(jax_tracing.with_arrays)  # once for all runs
  else:
    convert = functools.partial(_with_arrays, arrays)
  return lambda p, q, *rest: given(convert(p), convert(q), *rest)


def _with_arrays(arrays: Callable, law: Callable) -> Callable:
  """Returns a law that makes its rows by `arrays`."""
  return lambda prefix: arrays(law(prefix))


def fixed_tree(tree: Tree | str | None) -> Tree:
  """Returns the tree that a verifier gets."""
  return tree_lib.resolve(tree or "kary:2x2")


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
        raise UserError(
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
      chain = path == [*range(1, len(path) + 1)]
      remedy = " (--trees=chain for a verifier of chains)" if chain else ""
      raise TypeError(
        f"it returns the path {path}: give accepted nodes from a child of the"
        f" root down, each below the one before{remedy}"
      )
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
