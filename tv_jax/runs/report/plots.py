"""Plots a run's lengths as SVG, with a panel for each tree."""

from __future__ import annotations

from tv_jax.edge.tables import plain
from tv_jax.runs.records import ALL, Method
from tv_jax.runs.report import canvas, tables
from tv_jax.runs.report.tables import Cells


def acceptance(cells: Cells, condition: Method) -> str:
  """Plots lengths by item, as the main table has them, with their errors."""
  methods = tables.by_tree(cells, condition)
  colors = canvas.colors(rule for rules in methods.values() for rule in rules)
  tasks = [task for task in cells if task != ALL]
  pitch = min(0.24, 0.7 / len(colors))

  def draw(tree, axes):
    # Rows run downwards; verifiers stand next to each other in a row.
    for i, (rule, color) in enumerate(colors.items()):
      for row, task in enumerate(tasks):
        method = methods[tree].get(rule)
        cell = cells[task].get(method) if method else None
        if cell and cell.items:
          axes.errorbar(
            cell.by_item.mean,
            row + (i - (len(colors) - 1) / 2) * pitch,
            xerr=cell.by_item.error,
            color=color,
            label=plain(rule),
            marker=canvas.MARKERS[i % len(canvas.MARKERS)],
            markersize=4,
            linewidth=1.3,
          )
    axes.set_yticks(range(len(tasks)), [*map(plain, tasks)])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.margins(x=0.08)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)

  height, x = 0.6 + 0.3 * len(tasks), "tokens gained in a cycle"
  return canvas.draw_panels([*methods], draw, height=height, x=x)
