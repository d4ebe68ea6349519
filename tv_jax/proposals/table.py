"""The ways to draw siblings, by name."""

from __future__ import annotations

import dataclasses

from tv_jax.edge import names
from tv_jax.proposals import gate
from tv_jax.proposals.proposal import Proposal
from tv_jax.proposals.standard import (
  SAMPLE_THEN_TOP,
  TOP_K,
  WITH_REPLACEMENT,
  WITHOUT_REPLACEMENT,
)

PROPOSALS = {
  one.name: one
  for one in (WITHOUT_REPLACEMENT, WITH_REPLACEMENT, TOP_K, SAMPLE_THEN_TOP)
}


def built_in(name: str) -> Proposal | None:
  """Finds a name of `PROPOSALS`, or one with a number; None: neither."""
  return PROPOSALS.get(name) or gate.parse(name)


def resolve(proposal: Proposal | str) -> Proposal:
  """Finds the proposal that is meant, and gives it a name.

  Args:
    proposal: A name of `PROPOSALS`, or one with a number, "gated:0.7";
      "package.module:name" of a `Proposal`, imported with the current directory
      in sight; or a `Proposal`.

  Returns:
    The proposal. It is called as it was asked for by text; else "module:name",
    where a module holds it; else by its own `name`.

  Raises:
    ValueError: Nothing is meant by it.
  """
  found, name = proposal, None
  if isinstance(proposal, str):
    if own := built_in(proposal):
      return own
    there = [*PROPOSALS, gate.EXAMPLE]
    found = names.find(dict.fromkeys(there), proposal, "proposal")
    name = proposal
  if not isinstance(found, Proposal):
    raise ValueError(
      f"proposal {proposal!r}: give a name, module:name, or a Proposal"
    )
  if found in PROPOSALS.values():
    return found
  name = name or names.of(found) or found.name or names.of(found.draw)
  if not name:
    raise ValueError(
      f'proposal {proposal!r} has no name: give it one, Proposal(name="mine")'
    )
  # Rules that are defined for that one would believe it.
  if name in PROPOSALS and found.following is not PROPOSALS[name].following:
    raise ValueError(
      f"a proposal of your own is called {name!r}, as a built-in is: give it"
      ' another name, Proposal(name="mine")'
    )
  return dataclasses.replace(found, name=name)
