"""What can be seen of a rule before it is run: shapes and dtypes."""

import functools
from collections.abc import Iterator

import jax
import numpy as np

from tv_jax.drafting import adaptive
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Decision, Verifier


def faults(
  verifier: Verifier, proposal: Proposal, tree: Tree | Adaptive, dtype, V: int
) -> Iterator[str]:
  """What is wrong with what `decide`, `stop_law` and `coins` give."""
  N = len(tree)
  if verifier.coins:
    more = verifier.coins(tree)
    if not isinstance(more, int | np.integer) or more < 0:
      yield f"coins(tree) is {more!r}: it should be 0 or a positive integer"
      return
  M = verifier.num_coins(tree)
  law = jax.ShapeDtypeStruct((N, V), dtype)
  tokens = jax.ShapeDtypeStruct((N,), np.int32)
  topology = None
  if isinstance(tree, Adaptive):
    grown = functools.partial(adaptive.topology, tree)
    topology = jax.eval_shape(grown, tokens)
  draft = topology, tokens, law, law
  given = jax.eval_shape(
    lambda known, *args: verifier.decide(known or tree, proposal, *args),
    *draft,
    jax.ShapeDtypeStruct((M,), dtype),
  )
  if not isinstance(given, Decision):
    yield (
      f"decide returned {type(given).__name__}: return a tv_jax.verifiers"
      " Decision(node=, residual=, accept=, fault=)"
    )
    return
  for name, shape, kind in (
    ("node", (), np.int32),
    ("residual", (V,), dtype),
    ("accept", (M,), dtype),
    ("fault", (), bool),
  ):
    yield from _differs(f"Decision.{name}", getattr(given, name), shape, kind)
  if verifier.stop_law:
    given = jax.eval_shape(
      lambda known, *args: verifier.stop_law(known or tree, proposal, *args),
      *draft,
    )
    yield from _differs("stop_law", given, (N,), dtype)


def _differs(name, found, shape, dtype):
  own, wanted = (
    f"{np.dtype(kind).name}{list(size)}"
    for size, kind in ((found.shape, found.dtype), (shape, dtype))
  )
  if own != wanted:
    yield f"{name} is {own}, not {wanted}"
