"""The exact distribution of a program's output: all its random choices.

A program is a Python function with one of two signatures. A cycle drafts,
decides and returns tokens. A verifier is given a drafted tree and decides; it
becomes a cycle by drawing the tree's tokens before it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np

from tv_jax.certify import drafts
from tv_jax.certify.compare import compare
from tv_jax.certify.dice import ExploreError, explore, jax_tracing
from tv_jax.certify.dice.generators import Dice
from tv_jax.certify.dice.paths import DIFFERENT
from tv_jax.certify.plan import WIDE
from tv_jax.certify.report import FLOAT32, Case, Settings
from tv_jax.certify.worlds import CONTEXT, World
from tv_jax.io.errors import UserError
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree

CYCLE = "cycle(p, q, context, rng) -> tokens"
VERIFY = "verify(tree, tokens, q, p, rng) -> (path, next token)"


# A failing case is run again this often, or until this many runs are made.
_AGAIN, _MOST_AGAIN = 8, 1000


def signature(program: Callable) -> str | None:
  """Tells a cycle from a verifier by the names of its parameters.

  Returns:
    `CYCLE` or `VERIFY`; None for a rule or another object.
  """
  try:
    parameters = {*inspect.signature(program).parameters}
  except (TypeError, ValueError):
    return None
  if "context" in parameters:
    return CYCLE
  return VERIFY if "tree" in parameters else None


def run(
  program: Callable,
  proposal: Proposal,
  settings: Settings,
  tree: Tree | None,
  world: World,
) -> Case:
  """Runs a program in a world.

  Args:
    program: The program.
    proposal: How the siblings that a verifier gets are drawn.
    settings: How much to try.
    tree: The tree that a verifier gets; None for a cycle.
    world: The distributions.

  Raises:
    ExploreError: The program cannot be explored; one line tells why and where.
  """
  cycle = _as_cycle(program, proposal, tree, world, settings.arrays)
  try:
    law = explore(
      lambda rng: _tokens(cycle(rng), world.vocabulary),
      budget=settings.most_runs // (10 if world.vocabulary == WIDE else 1),
      arrays=settings.arrays,
    )
  except ExploreError as error:
    if world.vocabulary == 3:
      raise
    raise ExploreError(
      f"with {world.vocabulary} tokens: {error}"
    ) from error.__cause__

  @functools.cache
  def target(path):
    row = [*map(Fraction, world.at(path)[0].tolist())]
    total = sum(row, Fraction(0))
    return [x / total for x in row]

  def forbidden(tokens):
    """Returns the first prefix of probability 0."""
    prefixes = (tokens[: i + 1] for i in range(len(tokens)))
    return next((x for x in prefixes if not target(x[:-1])[x[-1]]), ())

  # Paths that were not followed are wrong, unless the output fails without.
  missing = float(law.unexplored) / 2
  distance, prefix = compare(
    law.chances, target, settings.allowed + missing + float(law.blur)
  )
  distance += -missing if prefix else missing
  near = distance <= settings.allowed and law.blur <= FLOAT32
  return Case(
    tree=tree,
    world=world,
    runs=law.runs,
    length=float(sum(len(x) * chance for x, chance in law.chances.items())),
    distance=distance,
    wrong=True if prefix else False if near else None,
    prefix=prefix,
    at_zero=next(filter(None, map(forbidden, law.at_zero)), ()),
    unexplored=float(law.unexplored),
    blur=float(law.blur),
    failures=law.failures,
  )


def confirm(case: Case, run: Callable[[Tree | None, World], Case]) -> None:
  """Refuses a program whose failing case differs when it is run again.

  Draws that are not seen would pass for a fault: an exploration repeats only
  its first runs, and these once.

  Args:
    case: The failing case.
    run: Runs the program with a tree in a world.

  Raises:
    ExploreError: The case differs.
  """
  for _ in range(min(_AGAIN, _MOST_AGAIN // case.runs)):
    again = run(case.tree, case.world)
    if (again.distance, again.prefix) != (case.distance, case.prefix):
      raise ExploreError(f"two explorations differ: {DIFFERENT}")


def _tokens(output, V: int) -> tuple[int, ...]:
  """Returns the tokens that a cycle returned."""
  output = output.tolist() if hasattr(output, "tolist") else output
  if not isinstance(output, list | tuple) or not output:
    raise TypeError(
      f"it returns {output!r}: return a list of tokens, one or more"
    )
  tokens = [x.item() if hasattr(x, "item") else x for x in output]
  if not {*tokens} <= {*range(V)}:
    raise TypeError(f"it returns {tokens}: tokens are 0 to {V - 1}")
  return tuple(map(int, tokens))


def _as_cycle(
  program: Callable,
  proposal: Proposal,
  tree: Tree | None,
  world: World,
  arrays: str,
) -> Callable:
  """Returns a program as a function from rng to its output."""
  convert = jnp.asarray if arrays == "jax" else np.asarray
  if arrays == "torch":
    import torch  # before the program runs, so that its draws are followed

    convert = torch.tensor
  if tree is not None:
    return functools.partial(_verify, program, tree, proposal, convert, world)

  def law(which, prefix):
    prefix = tuple(map(int, prefix))
    if prefix[: len(CONTEXT)] != CONTEXT:
      raise UserError(
        f"asked for the law after {list(prefix)}: prefixes begin with the"
        f" context {list(CONTEXT)}"
      )
    return world.at(prefix[len(CONTEXT) :])[which].copy()

  def given(which):
    if arrays == "jax":  # once for all runs
      return jax_tracing.with_arrays(functools.partial(law, which))
    return lambda prefix: convert(law(which, prefix))

  p, q = map(given, (0, 1))
  return lambda rng: program(p, q, CONTEXT, rng)


def _verify(program, tree, proposal, convert, world, rng):
  """Draws a tree's tokens and lets a verifier decide."""
  tokens, paths = drafts.draw(
    Dice(), tree, proposal, lambda path: world.at(path)[1]
  )
  p, q = (
    convert(np.array([world.at(path)[i] for path in paths])) for i in (0, 1)
  )
  # A copy, because the program may change its list of tokens.
  path, token = _returned(program(tree, [*tokens], q, p, rng))
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
