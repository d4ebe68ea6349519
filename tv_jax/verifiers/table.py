"""The rules by name."""

from __future__ import annotations

import dataclasses
import typing

from tv_jax.edge import names
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import (
  block,
  coupled,
  gbv,
  k_seq,
  layer_walk,
  ot_traversal,
  token_level,
  traversal,
)
from tv_jax.verifiers.verifier import Decide, Verifier

VERIFIERS = {
  rule.name: rule
  for rule in (
    token_level.RULE,
    token_level.LOOP,
    traversal.RULE,
    traversal.LOOP,
    block.RULE,
    layer_walk.RULE,
    ot_traversal.RULE,
    gbv.RULE,
    k_seq.RULE,
    coupled.RULE,
  )
}

# What commands take where no rule is named: the paper's methods, in each form.
# Others are taken by their names, so that a new one changes no old run.
DEFAULT = (
  "token_level",
  "token_level_loop",
  "traversal",
  "traversal_loop",
  "block",
)


def resolve(verifier: Verifier | Decide | str) -> Verifier:
  """Finds the rule that is meant, and gives it a name.

  Args:
    verifier: A name of `VERIFIERS`; "package.module:name" of a `Verifier` or a
      `decide`, imported with the current directory in sight; or one of these
      themselves.

  Returns:
    The rule. It is called as it was asked for by text; else "module:name",
    where a module holds it; else by its own `name`.

  Raises:
    ValueError: Nothing is meant by it.
  """
  if isinstance(verifier, str):
    found = names.find(VERIFIERS, verifier, "verifier")
    return _named(_rule(found, verifier), verifier)
  rule = _rule(verifier, verifier)
  if VERIFIERS.get(rule.name) == rule:
    return rule
  name = (
    names.of(verifier) or rule.name or names.of(rule.offers or rule.decision)
  )
  if not name:
    raise ValueError(
      f"verifier {verifier!r} has no name: give it one, as in"
      ' Verifier(name="mine", decision=...)'
    )
  return _named(rule, name)


def _rule(thing, told) -> Verifier:
  """A `Verifier`, or a `decide` as one."""
  if isinstance(thing, Verifier):
    return thing
  if not callable(thing) or isinstance(thing, type):
    raise ValueError(
      f"verifier {told!r}: give a name, module:name, a Verifier or a decide"
      " function"
    )
  return Verifier(decision=typing.cast(Decide, thing))


def _named(rule, name):
  return rule if rule.name == name else dataclasses.replace(rule, name=name)


def misfit(
  rule: Verifier, tree: Tree | Adaptive, proposal: Proposal
) -> str | None:
  """Says why a rule is not defined for a tree and a proposal; None: it is."""
  if reason := undefined(rule, tree):
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


def undefined(rule: Verifier, tree: Tree | Adaptive) -> str | None:
  """Asks a rule's `defined_on` about a tree, whoever wrote it."""
  told = f"verifier {rule.name!r}: defined_on(tree)"
  try:
    reason = rule.defined_on(tree) if rule.defined_on else None
  except Exception as error:
    raise ValueError(f"{told}: {names.raised(error)}") from error
  if not isinstance(reason, str | None):
    raise ValueError(f"{told} is {reason!r}: give None, or why it is not")
  return reason
