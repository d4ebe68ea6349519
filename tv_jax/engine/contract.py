"""Traces users' rules and proposals before a run, to check shapes.

Axes: N nodes, V vocabulary.
"""

import functools

import jax
import numpy as np

from tv_jax.drafting import adaptive
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import VERIFIERS, Decision, Verifier


@functools.lru_cache(maxsize=256)
def check(
  rule: Verifier, proposal: Proposal, tree: Tree | Adaptive, V: int, dtype="f4"
) -> None:
  """Traces a user's rule and proposal; raises ValueError for a wrong result."""
  found = {}
  if proposal not in PROPOSALS.values():
    sizes = sorted(tree.family_sizes)
    wrong = [x for k in sizes for x in drawn(proposal, k, dtype, V)]
    found[f"proposal {proposal.name!r}"] = wrong
  if rule not in VERIFIERS.values():
    found[f"verifier {rule.name!r}"] = faults(rule, proposal, tree, dtype, V)
  for name, wrong in found.items():
    if wrong:
      raise ValueError(f"{name} on {tree!r}: {'; '.join(wrong)}")


def faults(
  rule: Verifier, proposal: Proposal, tree: Tree | Adaptive, dtype, V: int
) -> list[str]:
  """Describes wrong shapes and dtypes in the results of a rule."""
  array, N = jax.ShapeDtypeStruct, len(tree)

  def judge(tokens, q, p, eta):
    shape, stop = tree, eta
    if isinstance(shape, Adaptive):
      shape = adaptive.topology(shape, tokens)
    if rule.offers:
      stop = rule.stop_law(shape, proposal, tokens, q, p)
    return rule.decide(shape, proposal, tokens, q, p, eta), stop

  tokens, laws, eta = (
    array((N,), "i4"),
    array((N, V), dtype),
    array((N,), dtype),
  )
  decision, stop = jax.eval_shape(judge, tokens, laws, laws, eta)
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


def _form(value) -> str:
  """Describes a result of `eval_shape`, for example float32[5]."""
  if isinstance(value, jax.ShapeDtypeStruct):
    return f"{value.dtype.name}{[*value.shape]}"
  return "None" if value is None else type(value).__name__


def _differs(name, found, wanted) -> list[str]:
  found, wanted = _form(found), _form(wanted)
  return [] if found == wanted else [f"{name} is {found}, not {wanted}"]
