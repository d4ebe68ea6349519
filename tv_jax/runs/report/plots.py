"""Plots a run's answers as SVG, with a panel for each tree.

Plain decoding and failed answers are left out; the order of answers does not
matter. A question's turns and seeds are pooled.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tv_jax.edge import tables
from tv_jax.engine.estimates import Estimate
from tv_jax.runs.records import Answer
from tv_jax.runs.report import canvas

_MARKERS = "osD^vP"


def acceptance_by_task(answers: Iterable[Answer], trees: Sequence[str]) -> str:
  """Plots acceptance lengths by task and verifier.

  The points are means over questions, the bars their standard errors.
  """
  lengths = _lengths(answers)
  tasks = sorted({key.task for key in lengths})
  styles = _styles(lengths)
  pitch = min(0.24, 0.7 / len(styles))

  def draw(tree, axes):
    # Rows run downwards; verifiers stand next to each other in a row.
    for i, (rule, style) in enumerate(styles.items()):
      for row, task in enumerate(tasks):
        means = [
          values.mean()
          for key, values in lengths.items()
          if key[:3] == (tree, rule, task)
        ]
        estimate = Estimate.of(means)
        place = row + (i - (len(styles) - 1) / 2) * pitch
        axes.errorbar(estimate.mean, place, xerr=estimate.error, **style)
    axes.set_yticks(range(len(tasks)), [*map(tables.plain, tasks)])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.margins(x=0.08)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)

  height, x = 0.6 + 0.3 * len(tasks), "tokens gained in a cycle"
  return canvas.panels(_in(trees, lengths), draw, height=height, x=x)


def acceptance_by_depth(answers: Iterable[Answer], trees: Sequence[str]) -> str:
  """Plots the share of cycles that accepted d drafted tokens or more, by d."""
  lengths = _lengths(answers)
  styles = _styles(lengths)

  def draw(tree, axes):
    pooled = {
      rule: [
        value
        for key, values in lengths.items()
        if key[:2] == (tree, rule)
        for value in values
      ]
      for rule in styles
    }
    depths = np.arange(1, max([2, *map(max, filter(None, pooled.values()))]))
    for rule, values in pooled.items():
      if values:
        share = (np.array(values)[:, None] > depths).mean(axis=0)
        axes.plot(depths, share, clip_on=False, **styles[rule])
    axes.set_xticks(depths)
    axes.set_ylim(0, 1)
    axes.grid(axis="y")

  x, y = "accepted at least d drafted tokens, by d", "share of cycles"
  return canvas.panels(_in(trees, lengths), draw, height=1.9, x=x, y=y)


class _Key(NamedTuple):
  tree: str
  verifier: str
  task: str
  question: int | str


def _lengths(answers) -> dict[_Key, np.ndarray]:
  """Returns the tokens gained in each cycle, in order."""
  lengths = collections.defaultdict(list)
  for one in answers:
    if one.error is None and not one.method.plain and one.accepted:
      key = one.method.tree, one.method.verifier, one.task, one.question
      lengths[_Key(*key)] += one.accepted
  return {key: np.array(lengths[key]) for key in sorted(lengths)}


def _styles(lengths) -> dict[str, dict]:
  """Returns how each verifier is drawn, in the order of legends."""
  colors = canvas.colors(key.verifier for key in lengths)
  return {
    rule: {
      "color": color,
      "label": tables.plain(rule),
      "marker": _MARKERS[i % len(_MARKERS)],
      "markersize": 4,
      "linewidth": 1.3,
    }
    for i, (rule, color) in enumerate(colors.items())
  }


def _in(trees: Sequence[str], lengths) -> list[str]:
  there = {key.tree for key in lengths}
  return [tree for tree in trees if tree in there]
