"""What the command is to certify."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tv_jax import proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Verifier

# Trees, and tokens in the vocabulary, that rules are certified on.
USUAL = {
  "chain:3": 3,
  "kary:2x2": 3,
  "branching:3": 5,  # a third sibling, with a choice
  "chain:1": 64,  # and all that is cut to the likeliest tokens
  "eagle": 6,
}


class Row(NamedTuple):
  """A rule, a proposal and a tree."""

  names: tuple[str, str, str]
  rule: Verifier
  proposal: Proposal
  tree: Tree | Adaptive
  vocabulary: int | None = None


class Plan(NamedTuple):
  """All rows, and what is certified before them."""

  rows: list[Row]
  to_certify: list[Proposal]  # for themselves
  widths: tuple[int, ...]  # how many siblings there are in the trees


def make(
  rules: Sequence[str] | None,
  drawn: Sequence[str] | None,
  trees: Sequence[str] | None,
) -> Plan:
  """Finds everything by its name.

  Args:
    rules: Of the user's; None: the usual ones, `verifiers.DEFAULT`.
    drawn: Proposals; None: the built-in ones, and those that rules say they
      are for.
    trees: As `tree.parse` reads them; None: those of `USUAL`.

  Returns:
    A row for each combination for which the rule is defined. A proposal that
    is built in is certified only if no rule is named.
  """
  found = {x: verifiers.resolve(x) for x in rules or verifiers.DEFAULT}
  declared = itertools.chain(*(rule.proposals for rule in found.values()))
  drawn = [*dict.fromkeys([*PROPOSALS, *declared])] if drawn is None else drawn
  ways = {text: proposals.resolve(text) for text in drawn}
  known = USUAL if trees is None else {}
  shapes = {text: tree_lib.parse(text) for text in trees or known}
  rows, reasons = [], {}
  for names in itertools.product(found, ways, shapes):
    name, way, shape = names
    row = Row(names, found[name], ways[way], shapes[shape], known.get(shape))
    if reason := verifiers.misfit(row.rule, row.tree, row.proposal):
      reasons[name] = reason
    else:
      rows.append(row)
  idle = {*reasons} - {row.names[0] for row in rows}
  if idle and (rules or not rows):
    raise ValueError(f"nothing to certify: {reasons[idle.pop()]}")
  foreign = [one for one in ways.values() if one not in PROPOSALS.values()]
  widths = {k for tree in shapes.values() for k in tree.family_sizes}
  return Plan(
    rows=rows,
    to_certify=foreign if rules else [*ways.values()],
    widths=tuple(sorted(widths)),
  )
