"""The ways to draw siblings, by name."""

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
  """Returns the proposal that is meant, with a name.

  Args:
    proposal: A name of `PROPOSALS`; "package.module:name" of a `Proposal`,
      imported with the current directory in sight; or a `Proposal`.

  Returns:
    The proposal. It is called as it was asked for by text; else "module:name",
    where a module holds it; else by its own `name`.
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
  # Rules that are defined for that one would believe it.
  if name in PROPOSALS and resolved.following is not PROPOSALS[name].following:
    raise ValueError(
      f"a proposal of your own is called {name!r}, as a built-in is: give it"
      ' another name, Proposal(name="mine")'
    )
  return dataclasses.replace(resolved, name=name)
