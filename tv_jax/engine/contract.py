"""Traces users' rules, proposals and policies before a run, to check shapes.

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
  rule: Verifier, proposal: Proposal, tree: Tree | Adaptive, V: int, dtype="f4"
) -> None:
  """Traces functions that are not built in, and checks their results.

  Raises:
    ValueError: A result has a wrong shape or type, or the function raised.
  """
  own = {}
  if isinstance(tree, Adaptive) and tree.policy:
    policy = names.of(tree.policy) or tree.policy
    own[f"policy {policy!r}"] = lambda: _trace_policy(tree, dtype, V)
  if proposal not in PROPOSALS.values():
    own[f"proposal {proposal.name!r}"] = lambda: [
      fault for k in tree.family_sizes for fault in drawn(proposal, k, dtype, V)
    ]
  if own or rule not in VERIFIERS.values():
    own[f"verifier {rule.name!r}"] = lambda: faults(
      rule, proposal, tree, dtype, V
    )
  for name, find in own.items():
    try:
      message = "; ".join(find())
    except Exception as error:  # a user's function may raise anything
      message = names.raised(error)
    if message:
      raise ValueError(f"{name} on {tree!r}: {message}")


def faults(
  rule: Verifier, proposal: Proposal, tree: Tree | Adaptive, dtype, V: int
) -> list[str]:
  """Describes wrong shapes and dtypes in the results of a rule."""
  N, topology = len(tree), None
  array = jax.ShapeDtypeStruct
  tokens, laws, eta = (
    array((N,), "i4"),
    array((N, V), dtype),
    array((N,), dtype),
  )
  if isinstance(tree, Adaptive):
    topology = jax.eval_shape(
      functools.partial(adaptive.topology, tree), tokens
    )

  def judge(topology, tokens, q, p, eta):
    draft = cast(Shape, topology or tree), proposal, tokens, q, p
    stop = rule.stop_law(*draft) if rule.offers else eta
    return rule.decide(*draft, eta), stop

  decision, stop = jax.eval_shape(judge, topology, tokens, laws, laws, eta)
  if not isinstance(decision, Decision):
    return [
      f"decide returned {_form(decision)}: return a tv_jax.verifiers"
      " Decision(node=, residual=, accept=, fault=)"
    ]
  return [
    *_differs("Decision.node", decision.node, array((), "i4")),
    *_differs("Decision.residual", decision.residual, array((V,), dtype)),
    *_differs("Decision.accept", decision.accept, eta),
    *_differs("Decision.fault", decision.fault, array((), bool)),
    *_differs("stop_law", stop, eta),
  ]


def drawn(proposal: Proposal, k: int, dtype, V: int) -> list[str]:
  """Describes a wrong shape or dtype of `draw`'s result for k siblings."""
  law, key = jax.ShapeDtypeStruct((V,), dtype), jax.random.key(0)
  tokens = jax.eval_shape(lambda key, q: proposal.draw(key, q, k), key, law)
  name = f"draw(key, q, {k}) for a {np.dtype(dtype).name} q"
  return _differs(name, tokens, jax.ShapeDtypeStruct((k,), "i4"))


def _trace_policy(tree: Adaptive, dtype, V: int) -> list[str]:
  """Traces a policy at each level; `adaptive.choose` raises the errors."""
  for depth, above in enumerate(tree.levels[:-1], 1):
    scores = jax.ShapeDtypeStruct((len(above),), "f4")
    laws = jax.ShapeDtypeStruct((len(above), V), dtype)
    jax.eval_shape(
      functools.partial(adaptive.choose, tree, depth), laws, scores
    )
  return []


def _form(value) -> str:
  """Describes a result of `eval_shape`, for example float32[5]."""
  if isinstance(value, jax.ShapeDtypeStruct):
    return f"{value.dtype.name}{[*value.shape]}"
  return "None" if value is None else type(value).__name__


def _differs(name, found, wanted) -> list[str]:
  found, wanted = _form(found), _form(wanted)
  return [] if found == wanted else [f"{name} is {found}, not {wanted}"]
