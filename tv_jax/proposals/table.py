"""The proposals by name."""

from __future__ import annotations

import dataclasses

from tv_jax.edge import names
from tv_jax.proposals.proposal import Proposal
from tv_jax.proposals.standard import (
  SAMPLE_THEN_TOP,
  TOP_K,
  WITH_REPLACEMENT,
  WITHOUT_REPLACEMENT,
)

PROPOSALS = {
  proposal.name: proposal
  for proposal in (
    WITHOUT_REPLACEMENT,
    WITH_REPLACEMENT,
    TOP_K,
    SAMPLE_THEN_TOP,
  )
}


def resolve(proposal: Proposal | str) -> Proposal:
  """Finds a proposal by name, and gives every proposal a name.

  Args:
    proposal: A name of `PROPOSALS`, a `Proposal`, or the name of a user's
      object, "package.module:name". The module may be in the current directory.

  Returns:
    The proposal. Its name is the given text; or "module:name", if the object is
    a variable of a module; or the attribute `name`.

  Raises:
    ValueError: The proposal is unknown or unnamed, or has a built-in's name.
  """
  if isinstance(proposal, str):
    resolved, name = names.find(PROPOSALS, proposal, "proposal"), proposal
  else:
    resolved, name = proposal, ""
  if not isinstance(resolved, Proposal):
    raise ValueError(
      f"proposal {proposal!r}: give a name, module:name, or a Proposal"
    )
  if resolved in PROPOSALS.values():
    return resolved
  name = name or names.of(resolved) or resolved.name or names.of(resolved.draw)
  if not name:
    raise ValueError(
      f'proposal {proposal!r} has no name: give it one, Proposal(name="mine")'
    )
  # A rule that supports only the built-in would accept this proposal.
  if name in PROPOSALS and resolved.following is not PROPOSALS[name].following:
    raise ValueError(
      f"a proposal of your own has the name {name!r} of a built-in: give it"
      ' another, as in Proposal(name="mine", ..)'
    )
  return dataclasses.replace(resolved, name=name)
