"""Plots a run's cells as SVG, with a panel for each tree."""

from __future__ import annotations

from collections.abc import Iterable

from tv_jax.edge.tables import plain
from tv_jax.runs.records import ALL, Method
from tv_jax.runs.report import canvas, tables
from tv_jax.runs.report.tables import Cells


def acceptance_by_task(cells: Cells, condition: Method) -> str:
  """Plots lengths by item, as the main table has them, with their errors."""
  methods = tables.by_tree(cells, condition)
  styles = _styles(rule for rules in methods.values() for rule in rules)
  tasks = [task for task in cells if task != ALL]
  pitch = min(0.24, 0.7 / len(styles))

  def draw(tree, axes):
    # Rows run downwards; verifiers stand next to each other in a row.
    for i, (rule, style) in enumerate(styles.items()):
      for row, task in enumerate(tasks):
        method = methods[tree].get(rule)
        cell = cells[task].get(method) if method else None
        if cell and cell.items:
          place = row + (i - (len(styles) - 1) / 2) * pitch
          length = cell.by_item
          axes.errorbar(length.mean, place, xerr=length.error, **style)
    axes.set_yticks(range(len(tasks)), [*map(plain, tasks)])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.margins(x=0.08)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)

  height, x = 0.6 + 0.3 * len(tasks), "tokens gained in a cycle"
  return canvas.draw_panels([*methods], draw, height=height, x=x)


def acceptance_by_depth(cells: Cells, condition: Method) -> str:
  """Plots the share of cycles that accepted d drafted tokens or more, by d."""
  panels = {}
  for method, shares in tables.reached(cells, condition).items():
    lines = panels.setdefault(method.tree, {})
    if cells[ALL][method].cycles:
      lines[method.verifier] = dict(enumerate(shares, 1))
  x, y = "accepted at least d drafted tokens, by d", "share of cycles"
  return canvas.lines(panels, height=1.9, x=x, y=y)


def _styles(rules: Iterable[str]) -> dict[str, dict]:
  """Returns how each verifier is drawn, in the order of legends."""
  return {
    rule: {
      "color": color,
      "label": plain(rule),
      "marker": canvas.MARKERS[i % len(canvas.MARKERS)],
      "markersize": 4,
      "linewidth": 1.3,
    }
    for i, (rule, color) in enumerate(canvas.colors(rules).items())
  }
