"""Checks rules, proposals and policies by shapes and dtypes, before any run.

Axes: N nodes, V vocabulary.
"""

import functools
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
  """Refuses what no program can be made of; what is built in is not checked.

  Raises:
    ValueError: In one line, what is wrong with whose function.
  """
  looks = {}
  if isinstance(tree, Adaptive) and tree.policy:
    name = names.of(tree.policy) or tree.policy
    looks[f"policy {name!r}"] = lambda: _try_policy(tree, dtype, V)
  if proposal not in PROPOSALS.values():
    looks[f"proposal {proposal.name!r}"] = lambda: [
      fault for k in tree.family_sizes for fault in drawn(proposal, k, dtype, V)
    ]
  if proposal not in PROPOSALS.values() or rule not in VERIFIERS.values():
    looks[f"verifier {rule.name!r}"] = lambda: faults(
      rule, proposal, tree, dtype, V
    )
  for name, look in looks.items():
    try:
      message = "; ".join(look())
    except Exception as error:  # whatever a stranger's function raises
      message = names.raised(error)
    if message:
      raise ValueError(f"{name} on {tree!r}: {message}")


def faults(
  verifier: Verifier, proposal: Proposal, tree: Tree | Adaptive, dtype, V: int
) -> list[str]:
  """Says what is wrong with what `decide` and `stop_law` return."""
  N = len(tree)
  laws = jax.ShapeDtypeStruct((N, V), dtype)
  tokens = jax.ShapeDtypeStruct((N,), np.int32)
  eta = jax.ShapeDtypeStruct((N,), dtype)
  topology = None
  if isinstance(tree, Adaptive):
    grow = functools.partial(adaptive.topology, tree)
    topology = jax.eval_shape(grow, tokens)

  def judge(topology, tokens, q, p, eta):
    draft = cast(Shape, topology or tree), proposal, tokens, q, p
    stop = verifier.stop_law(*draft) if verifier.offers else None
    return verifier.decide(*draft, eta), stop

  decision, stop = jax.eval_shape(judge, topology, tokens, laws, laws, eta)
  if not isinstance(decision, Decision):
    return [
      f"decide returned {_kind(decision)}: return a tv_jax.verifiers"
      " Decision(node=, residual=, accept=, fault=)"
    ]
  return [
    *_differs("Decision.node", decision.node, (), np.int32),
    *_differs("Decision.residual", decision.residual, (V,), dtype),
    *_differs("Decision.accept", decision.accept, (N,), dtype),
    *_differs("Decision.fault", decision.fault, (), bool),
    *(_differs("stop_law", stop, (N,), dtype) if verifier.offers else ()),
  ]


def drawn(proposal: Proposal, k: int, dtype, V: int) -> list[str]:
  """Says what is wrong with what `draw` returns for k siblings."""
  law, key = jax.ShapeDtypeStruct((V,), dtype), jax.random.key(0)
  tokens = jax.eval_shape(lambda key, q: proposal.draw(key, q, k), key, law)
  name = f"draw(key, q, {k}) for a {np.dtype(dtype).name} q"
  return _differs(name, tokens, (k,), np.int32)


def _try_policy(tree, dtype, V) -> list[str]:
  """Runs a policy level by level: `adaptive.choose` says what is wrong."""
  for depth, above in enumerate(tree.levels[:-1], 1):
    worth = jax.ShapeDtypeStruct((len(above),), np.float32)
    laws = jax.ShapeDtypeStruct((len(above), V), dtype)
    choose = functools.partial(adaptive.choose, tree, depth)
    jax.eval_shape(choose, laws, worth)
  return []


def _kind(value) -> str:
  """Describes what `eval_shape` returned, as in float32[5]."""
  if isinstance(value, jax.ShapeDtypeStruct):
    return f"{value.dtype.name}{[*value.shape]}"
  return "None" if value is None else type(value).__name__


def _differs(name, value, shape, dtype) -> list[str]:
  expected = f"{np.dtype(dtype).name}{[*shape]}"
  kind = _kind(value)
  return [] if kind == expected else [f"{name} is {kind}, not {expected}"]
