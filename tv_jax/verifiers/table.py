"""The verification rules by name."""

from __future__ import annotations

from tv_jax.io import names
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import block, reference, token_level, traversal
from tv_jax.verifiers.base import Decide, Verifier

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
  """Finds a rule by name, and gives every rule a name; see `names.resolve`."""
  return names.resolve(
    VERIFIERS, verifier, "verifier", lambda decide: Verifier(decision=decide)
  )


def unsupported_reason(
  rule: Verifier, tree: Tree, proposal: Proposal
) -> str | None:
  """Returns why a rule is not defined for a tree and proposal, else None."""
  if rule.refuses and (reason := rule.refuses(tree)):
    return f"verifier {rule.name!r} {reason}"
  if rule.proposals and proposal.name not in rule.proposals:
    return (
      f"verifier {rule.name!r} is defined for {', '.join(rule.proposals)} only,"
      f" and the proposal is {proposal.name!r}"
    )
  return None
