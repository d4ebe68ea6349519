"""The paper's two rules beside each other: what several experiments show."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments import paper
from experiments.experiment import Group
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Cell
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, Table

# How the paper drew trees.
PROPOSAL = "without_replacement"
# The rule that gains are over.
BASELINE = paper.VERIFIERS[0]
HEADER = ("Tok.V", "Tra.V", "Delta", "same drafts", "check")
BESIDE = ("Tok.V", "Tra.V", "Delta")  # the paper's columns

DEFINITIONS = (
  "Tok.V and Tra.V: the acceptance length, in each question first with its"
  " seeds pooled, then over questions; ± is the standard error over questions"
  " (ddof 1). Delta: from separate runs. Same drafts: the traversal's expected"
  " length over token-level's on the drafts of the traversal's run, computed"
  " without sampling; the error is clustered by question. Check: the"
  " traversal's realised minus expected length, which must be 0 within its"
  " error.",
)


class Compared(NamedTuple):
  """Both rules on one tree; None where a run is missing."""

  token_level: Cell | None
  traversal: Cell | None

  @property
  def gain(self) -> Estimate | None:
    """The traversal's gain on its own drafts, in percent of token-level's."""
    return self.traversal and self.traversal.relative

  @property
  def row(self) -> list[str]:
    """The cells under HEADER."""
    base, best = self
    delta = NOTHING
    if base and base.items and best and best.items:
      delta = f"{100 * (best.by_item.mean / base.by_item.mean - 1):+.1f}%"
    return [
      *(tables.estimate(cell and cell.by_item) for cell in self),
      delta,
      percent(self.gain),
      tables.estimate(best and best.check, "+.3f"),
    ]


def compare(answers: Iterable[Answer], method: Method) -> Compared:
  """Compares both rules; a field of the method that is None stands for all."""
  answers = [*answers]
  found = (
    of(answers, dataclasses.replace(method, verifier=rule))
    for rule in paper.VERIFIERS
  )
  return Compared(
    *(metrics.cell(own, BASELINE) if own else None for own in found)
  )


def gains_by_tree(gains: Mapping[str, Estimate | None]) -> str:
  """Says how large each gain is and how sure; "" if none is known."""
  return ", ".join(
    f"{percent(gain)} on {tree} ({word(gain)})"
    for tree, gain in gains.items()
    if gain
  )


def of(answers: Iterable[Answer], method: Method) -> list[Answer]:
  """Returns a method's answers; a field that is None stands for all."""
  wanted = method.fields.items()
  return [one for one in answers if wanted <= one.method.fields.items()]


def on(method: Method, tree: str) -> Method:
  """Returns the method on a tree."""
  return dataclasses.replace(method, tree=tree)


def percent(value: Estimate | None) -> str:
  """Returns a cell's text, as +2.8 ± 0.3 %."""
  return tables.percent(value, "+.1f")


def printed(cells: paper.Comparison | None, digits: int = 2) -> list[str]:
  """Returns the paper's cells under BESIDE."""
  if cells is None:
    return [NOTHING] * len(BESIDE)
  both = cells.token_level, cells.traversal
  told = [f"{one.mean:.{digits}f} ± {one.error:.{digits}f}" for one in both]
  return [*told, f"{cells.delta:+.1f}%"]


def table(title: str, first: Sequence[str], rows: list[list[str]]) -> Table:
  """Makes a table: the columns `first`, a run's numbers, and the paper's."""
  groups = [("", len(first)), ("this run", len(HEADER))]
  groups.append(("the paper", len(BESIDE)))
  return Table(title, groups, [*first, *HEADER, *BESIDE], rows)


def growth(
  group: Group, kind: str, found: Mapping[float, Compared], at: str, step: str
) -> list[str]:
  """Says how the gain changes along an axis; nothing if there are few points.

  Args:
    group: Whose gains they are.
    kind: The trees that they are on.
    found: Both rules at each place on the axis.
    at: What a place is called, before its number.
    step: The axis's unit.
  """
  gains = {place: both.gain for place, both in found.items() if both.gain}
  line = slope(gains)
  if line is None:
    return []
  ends = [
    f"{percent(gains[place])} at {at}{place:g}"
    for place in (min(gains), max(gains))
  ]
  return [
    f"{group.models}, {kind}: the gain on the same drafts goes from"
    f" {' to '.join(ends)}: {percent(line)} per {step} ({word(line)})."
  ]


def notes(group: Group) -> list[str]:
  """Says what a group's numbers are, and what is missing."""
  asked = {(a.task, a.question) for a in group.answers}
  seeds = sorted(
    {seed for unit in group.units for seed in unit.config["seeds"]}
  )
  lines = [
    f"{group.name}: {group.models}; {len(asked)} questions, seeds"
    f" {', '.join(map(str, seeds))}."
  ]
  if failed := sum(answer.error is not None for answer in group.answers):
    lines.append(f"{group.name}: {failed} ANSWERS FAILED.")
  if group.missing:
    lines.append(f"{group.name}: NOT FINISHED: {', '.join(group.missing)}.")
  return lines


def slope(found: Mapping[float, Estimate]) -> Estimate | None:
  """Fits a weighted straight line through three points or more."""
  sound = {x: e for x, e in found.items() if e.error > 0}
  if len(sound) < 3:
    return None
  x = np.array([*sound], float)
  y = np.array([estimate.mean for estimate in sound.values()])
  weight = np.array([estimate.error**-2 for estimate in sound.values()])
  middle = np.average(x, weights=weight)
  spread = weight @ (x - middle) ** 2
  return Estimate(
    mean=float(weight @ ((x - middle) * y) / spread),
    error=float(spread**-0.5),
    n=len(sound),
  )


def word(value: Estimate) -> str:
  """Says how sure it is that a number is not 0."""
  if not value.error > 0:
    return "of an error that is not known"
  sigmas = value.mean / value.error
  if abs(sigmas) < 2:
    return f"0 within its error, {sigmas:+.1f} sigma"
  return f"{sigmas:+.1f} sigma"
