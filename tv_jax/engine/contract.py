"""What can be seen of a rule before it is run: shapes and dtypes.

The same is asked wherever a rule comes in, of the proposal and the policy that
come with it as well: each may be anybody's.
"""

import functools
from collections.abc import Iterator
from typing import cast

import jax
import numpy as np

from tv_jax.drafting import adaptive
from tv_jax.edge import names
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import VERIFIERS, Decision, Shape, Verifier


@functools.lru_cache(maxsize=256)
def check(
  rule: Verifier,
  proposal: Proposal,
  tree: Tree | Adaptive,
  V: int,
  dtype=np.float32,
) -> None:
  """Refuses what no program can be made of; what is built in is believed.

  Raises:
    ValueError: In one line, what is wrong with whose function.
  """
  own = proposal not in PROPOSALS.values()
  parts = {}
  if isinstance(tree, Adaptive) and tree.policy:
    parts[f"policy {names.of(tree.policy) or tree.policy!r}"] = _of_policy(
      tree, dtype, V
    )
  if own:
    parts[f"proposal {proposal.name!r}"] = _of_draw(proposal, tree, dtype, V)
  if own or rule not in VERIFIERS.values():
    parts[f"verifier {rule.name!r}"] = faults(rule, proposal, tree, dtype, V)
  for whose, found in parts.items():
    try:
      told = "; ".join(found)
    except Exception as error:  # whatever a stranger's function raises
      told = names.raised(error)
    if told:
      raise ValueError(f"{whose} on {tree!r}: {told}")


def faults(
  verifier: Verifier, proposal: Proposal, tree: Tree | Adaptive, dtype, V: int
) -> Iterator[str]:
  """What is wrong with what `decide` and `stop_law` give."""
  N = len(tree)
  law = jax.ShapeDtypeStruct((N, V), dtype)
  tokens = jax.ShapeDtypeStruct((N,), np.int32)
  topology = None
  if isinstance(tree, Adaptive):
    grown = functools.partial(adaptive.topology, tree)
    topology = jax.eval_shape(grown, tokens)
  draft = topology, tokens, law, law
  given = _made(
    lambda known, *args: verifier.decide(
      cast(Shape, known or tree), proposal, *args
    ),
    *draft,
    jax.ShapeDtypeStruct((N,), dtype),
  )
  if not isinstance(given, Decision):
    yield (
      f"decide returned {_kind(given)}: return a tv_jax.verifiers"
      " Decision(node=, residual=, accept=, fault=)"
    )
    return
  for name, shape, kind in (
    ("node", (), np.int32),
    ("residual", (V,), dtype),
    ("accept", (N,), dtype),
    ("fault", (), bool),
  ):
    yield from _differs(f"Decision.{name}", getattr(given, name), shape, kind)
  if verifier.offers:
    given = _made(
      lambda known, *args: verifier.stop_law(
        cast(Shape, known or tree), proposal, *args
      ),
      *draft,
    )
    yield from _differs("stop_law", given, (N,), dtype)


def drawn(proposal: Proposal, k: int, dtype, V: int) -> Iterator[str]:
  """What is wrong with what `draw` gives for k siblings."""
  given = _made(
    lambda key, q: proposal.draw(key, q, k),
    jax.random.key(0),
    jax.ShapeDtypeStruct((V,), dtype),
  )
  name = f"draw(key, q, {k}) for a {np.dtype(dtype).name} q"
  yield from _differs(name, given, (k,), np.int32)


def _of_draw(proposal, tree, dtype, V):
  for k in tree.family_sizes:
    yield from drawn(proposal, k, dtype, V)


def _of_policy(tree, dtype, V):
  """`adaptive.choose` says what is wrong with it, level by level."""
  for depth, above in enumerate(tree.levels[:-1], 1):
    worth = jax.ShapeDtypeStruct((len(above),), np.float32)
    laws = jax.ShapeDtypeStruct((len(above), V), dtype)
    for confidence in (None, worth):  # drafts of both kinds
      choose = functools.partial(adaptive.choose, tree, depth)
      jax.eval_shape(choose, laws, worth, confidence)
  yield from ()


def _made(function, *arguments):
  """What a function gives, its arrays as shapes; what has none, as it is."""
  found = []

  def arrays(*arguments):
    found.append(function(*arguments))
    leaves = jax.tree.leaves(found)
    return [leaf if _shaped(leaf) else None for leaf in leaves]

  shapes = iter(jax.eval_shape(arrays, *arguments))
  return jax.tree.map(
    lambda leaf: leaf if (shape := next(shapes)) is None else shape, found[0]
  )


def _shaped(value) -> bool:
  number = int | float | complex
  return isinstance(value, jax.Array | np.ndarray | np.generic | number)


def _kind(value) -> str:
  """A value's, in words."""
  if isinstance(value, jax.ShapeDtypeStruct):
    return f"{np.dtype(value.dtype).name}{list(value.shape)}"
  return "None" if value is None else type(value).__name__


def _differs(name, found, shape, dtype):
  own, wanted = _kind(found), _kind(jax.ShapeDtypeStruct(shape, dtype))
  if own != wanted:
    yield f"{name} is {own}, not {wanted}"
