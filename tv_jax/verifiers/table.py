"""The rules by name."""

from __future__ import annotations

import dataclasses
import typing

from tv_jax.edge import names
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import block, k_seq, reference, token_level, traversal
from tv_jax.verifiers.verifier import Decide, Verifier

VERIFIERS = {
  rule.name: rule
  for rule in (
    token_level.RULE,
    traversal.RULE,
    block.RULE,
    k_seq.RULE,
    reference.TOKEN_LEVEL,
    reference.TRAVERSAL,
  )
}

# What commands take where no rule is named: the paper's methods.
DEFAULT = ("token_level", "traversal", "block")


def resolve(verifier: Verifier | Decide | str) -> Verifier:
  """Returns the rule that is meant, with a name.

  Args:
    verifier: A name of `VERIFIERS`; "package.module:name" of a `Verifier` or a
      `decide`, imported with the current directory in sight; or one of these
      themselves.

  Returns:
    The rule. It is called as it was asked for by text; else "module:name",
    where a module holds it; else by its own `name`.
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
  return dataclasses.replace(rule, name=name)


def misfit(
  rule: Verifier, tree: Tree | Adaptive, proposal: Proposal
) -> str | None:
  """Says why a rule is not defined for a tree and a proposal; None: it is."""
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
