"""The verification rules by name."""

from __future__ import annotations

import dataclasses
import typing

from tv_jax.edge import names
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import block, reference, token_level, traversal
from tv_jax.verifiers.verifier import Decide, Verifier

VERIFIERS = {
  rule.name: rule
  for rule in (
    token_level.RULE,
    traversal.RULE,
    block.RULE,
    reference.TOKEN_LEVEL,
    reference.TRAVERSAL,
  )
}

# The rules that commands use by default: the methods that the paper compares.
DEFAULT = ("token_level", "traversal", "block")


def resolve(verifier: Verifier | Decide | str) -> Verifier:
  """Finds a rule by name, and gives every rule a name.

  Args:
    verifier: A name of `VERIFIERS`, a `Verifier`, a `decide` function, or the
      name of a user's object, "package.module:name". The module may be in the
      current directory.

  Returns:
    The rule. Its name is the given text; or "module:name", if the object is a
    variable of a module; or the attribute `name`.

  Raises:
    ValueError: The rule is unknown or unnamed, or has the name of a built-in.
  """
  rule, name = verifier, ""
  if isinstance(verifier, str):
    rule = names.find(VERIFIERS, verifier, "verifier")
    name = verifier
  if not isinstance(rule, Verifier):
    if not callable(rule) or isinstance(rule, type):
      raise ValueError(
        f"verifier {verifier!r}: give a name, module:name, a Verifier or a"
        " decide function"
      )
    rule = Verifier(decision=typing.cast(Decide, rule))
  if not name and VERIFIERS.get(rule.name) == rule:
    return rule
  name = name or names.of(verifier) or rule.name
  name = name or names.of(rule.offers or rule.decision)
  if not name:
    raise ValueError(
      f"verifier {verifier!r} has no name: give it one, as in"
      ' Verifier(name="mine", offers=...)'
    )
  rule = dataclasses.replace(rule, name=name)
  if VERIFIERS.get(name, rule) != rule:
    raise ValueError(
      f"a rule of your own has the name {name!r} of a built-in: give it"
      ' another, as in Verifier(name="mine", offers=...)'
    )
  return rule


def misfit(
  rule: Verifier, tree: Tree | Adaptive, proposal: Proposal
) -> str | None:
  """Returns why a rule is not defined for a tree and proposal, else None."""
  if reason := rule.refuses(tree):
    return f"verifier {rule.name!r} {reason}"
  if isinstance(tree, Adaptive) and rule.static_only:
    return (
      f"verifier {rule.name!r} is defined for trees that are known beforehand"
      f" (static_only), and the tree is {tree!r}"
    )
  if rule.proposals and proposal.name not in rule.proposals:
    return (
      f"verifier {rule.name!r} is defined for {', '.join(rule.proposals)} only,"
      f" and the proposal is {proposal.name!r}"
    )
  return None
