"""Plots a run's answers as SVG.

Each function takes the answers of one table. It leaves out plain decoding and
failed answers; their order does not matter. `trees` is the order of the panels,
by default that of the names. A question's turns and seeds are pooled.
"""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax.engine.estimates import Estimate
from tv_jax.runs.records import Answer
from tv_jax.runs.report import canvas, fragments, palette

_MARKERS = "osD^vP"


def acceptance_by_task(
  answers: Iterable[Answer], trees: Sequence[str] | None = None
) -> str:
  """Plots acceptance lengths by task and verifier, with a panel for each tree.

  The points are means over questions, the bars their standard errors.
  """
  cells = _lengths(answers)
  tasks = _sorted({item.task for item in cells})
  rules = _rules(cells)

  def draw(tree, axes):
    # Rows run downwards; verifiers stand next to each other in a row.
    pitch = min(0.24, 0.7 / len(rules))
    for rule in rules:
      for row, task in enumerate(tasks):
        own = _of(cells, tree=tree, verifier=rule.name, task=task)
        found = Estimate.of([lengths.mean() for lengths in own])
        place = row + rule.place * pitch
        axes.errorbar(
          found.mean, place, xerr=found.error, linewidth=1.2, **rule.line
        )
    axes.set_yticks(range(len(tasks)), [*map(fragments.plain, tasks)])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.margins(x=0.08)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)

  return canvas.panels(
    _trees(cells, trees),
    draw,
    height=0.6 + 0.3 * len(tasks),
    x="tokens gained in a cycle",
  )


def length_histograms(
  answers: Iterable[Answer], trees: Sequence[str] | None = None
) -> str:
  """Plots the share of cycles by tokens gained, with a panel for each tree."""
  cells = _lengths(answers)
  rules = _rules(cells)

  def draw(tree, axes):
    longest = _longest(cells, tree)
    width = 0.8 / len(rules)
    for rule in rules:
      lengths = _pooled(cells, tree, rule)
      share = np.bincount(lengths, minlength=longest + 1) / max(len(lengths), 1)
      places = np.arange(1, longest + 1) + rule.place * width
      axes.bar(places, share[1:], 0.88 * width, **rule.looks)
    axes.set_xticks(range(1, longest + 1))
    axes.grid(axis="y")

  return canvas.panels(
    _trees(cells, trees),
    draw,
    height=1.9,
    x="tokens gained in a cycle",
    y="share of cycles",
  )


def acceptance_by_depth(
  answers: Iterable[Answer], trees: Sequence[str] | None = None
) -> str:
  """Plots the share of cycles that accepted d drafted tokens or more, by d."""
  cells = _lengths(answers)
  rules = _rules(cells)

  def draw(tree, axes):
    depths = np.arange(1, max(_longest(cells, tree), 2))
    for rule in rules:
      lengths = _pooled(cells, tree, rule)
      if len(lengths):
        share = (lengths[:, None] > depths).mean(axis=0)
        axes.plot(depths, share, linewidth=1.4, clip_on=False, **rule.line)
    axes.set_xticks(depths)
    axes.set_ylim(0, 1)
    axes.grid(axis="y")

  return canvas.panels(
    _trees(cells, trees),
    draw,
    height=1.9,
    x="accepted at least d drafted tokens, by d",
    y="share of cycles",
  )


class _Item(NamedTuple):
  tree: str
  verifier: str
  task: str
  question: int | str


def _lengths(answers) -> dict[_Item, np.ndarray]:
  """Returns the tokens gained in each cycle, by item, in order."""
  cells = collections.defaultdict(list)
  for answer in answers:
    method = answer.method
    if answer.error is None and not method.plain and answer.accepted:
      place = method.tree, method.verifier, answer.task, answer.question
      cells[_Item(*place)] += answer.accepted
  return {item: np.array(cells[item]) for item in sorted(cells)}


class _Rule(NamedTuple):
  """How a verifier is drawn."""

  name: str
  place: float  # from the middle of all verifiers
  looks: dict
  line: dict  # the same, with a marker


def _rules(cells) -> list[_Rule]:
  """Returns the verifiers, in the order of legends."""
  colors = palette.of_verifiers(item.verifier for item in cells)
  made = []
  for i, (name, color) in enumerate(colors.items()):
    looks = {"color": color.light, "label": fragments.plain(name)}
    marker = {"marker": _MARKERS[i % len(_MARKERS)], "markersize": 4}
    made.append(_Rule(name, i - (len(colors) - 1) / 2, looks, looks | marker))
  return made


def _of(cells, **names) -> list[np.ndarray]:
  """Returns the lengths of the items with these names."""
  return [
    lengths
    for item, lengths in cells.items()
    if names.items() <= item._asdict().items()
  ]


def _pooled(cells, tree, rule) -> np.ndarray:
  own = _of(cells, tree=tree, verifier=rule.name)
  return np.concatenate([np.zeros(0, int), *own])


def _longest(cells, tree) -> int:
  return max(int(lengths.max()) for lengths in _of(cells, tree=tree))


def _trees(cells, order) -> list[str]:
  there = {item.tree for item in cells}
  return [t for t in order if t in there] if order else _sorted(there)


def _sorted(names: Iterable[str]) -> list[str]:
  """Sorts by the alphabet, but 2 before 10."""

  def key(name):
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]

  return sorted(names, key=key)
