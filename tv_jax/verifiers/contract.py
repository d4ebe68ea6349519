"""Traces users' rules and proposals before a run, to check shapes.

Axes: N nodes, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.io.errors import UserError
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import VERIFIERS, Decision, Draft, Offers, Verifier


@functools.lru_cache(maxsize=256)
def check(
  rule: Verifier, proposal: Proposal, tree: Tree, V: int, dtype="f4"
) -> None:
  """Raises ValueError if a rule or `draw` of a user returns wrong shapes."""
  own_proposal = proposal not in PROPOSALS.values()
  for k in tree.family_sizes if own_proposal else ():
    if fault := draw_fault(proposal, k, dtype, V):
      raise UserError(f"proposal {proposal.name!r} on {tree!r}: {fault}")
  if rule in VERIFIERS.values():
    return
  if faults := rule_faults(rule, proposal, tree, dtype, V):
    found = "; ".join(faults)
    raise UserError(f"verifier {rule.name!r} on {tree!r}: {found}")


def rule_faults(
  rule: Verifier, proposal: Proposal, tree: Tree, dtype, V: int
) -> list[str]:
  """Describes wrong shapes and dtypes in the results of a rule."""

  def decide(eta, *arrays):
    return rule.decide(Draft(tree, proposal, *arrays), eta)

  def offers(*arrays):
    assert rule.offers
    found = rule.offers(Draft(tree, proposal, *arrays))
    if not (isinstance(found, Offers) and callable(found.residual)):
      return None
    return found._replace(residual=found.residual(jnp.int32(ROOT)))

  N, array = len(tree), jax.ShapeDtypeStruct
  laws, eta = array((N, V), dtype), array((N,), dtype)
  if rule.offers:
    found = jax.eval_shape(offers, array((N,), "i4"), laws, laws)
    if found is None:
      return [
        "offers should return a tv_jax.verifiers Offers(chance=, offered=,"
        " residual=), whose residual is a function of a node"
      ]
    wanted = eta, array((N,), bool), array((V,), dtype)
    names = (f"Offers.{name}" for name in Offers._fields)
    faults = map(_fault, names, found, wanted)
    return [*filter(None, faults)]
  decision = jax.eval_shape(decide, eta, array((N,), "i4"), laws, laws)
  if not isinstance(decision, Decision):
    return [
      f"decide returned {_form(decision)}: return a tv_jax.verifiers"
      " Decision(node=, residual=, threshold=, fault=)"
    ]
  law, node, fault = array((V,), dtype), array((), "i4"), array((), bool)
  wanted = {"node": node, "residual": law, "threshold": eta, "fault": fault}
  faults = (
    _fault(f"Decision.{name}", getattr(decision, name), form)
    for name, form in wanted.items()
  )
  return [*filter(None, faults)]


def draw_fault(proposal: Proposal, k: int, dtype, V: int) -> str:
  """Describes a wrong shape or dtype of `draw`'s result; "" for a right one."""
  law, key = jax.ShapeDtypeStruct((V,), dtype), jax.random.key(0)
  tokens = jax.eval_shape(lambda key, q: proposal.draw(key, q, k), key, law)
  name = f"draw(key, q, {k}) for a {np.dtype(dtype).name} q"
  return _fault(name, tokens, jax.ShapeDtypeStruct((k,), "i4"))


def _fault(name, found, wanted) -> str:
  found, wanted = _form(found), _form(wanted)
  return "" if found == wanted else f"{name} is {found}, not {wanted}"


def _form(value) -> str:
  """Describes a result of `eval_shape`, for example float32[5]."""
  if isinstance(value, jax.ShapeDtypeStruct):
    return f"{value.dtype.name}{[*value.shape]}"
  return "None" if value is None else type(value).__name__
