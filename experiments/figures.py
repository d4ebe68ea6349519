"""Draws lines of a few panels as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from tv_jax.runs.report.figures import MUTED, colors, svg

MARKERS = "osD^vP"
_WIDTH = 7.2  # inches
_COLUMNS = 3
_LETTERS = 120  # that fit into a row of the legend


def lines(
  panels: Mapping[str, pd.DataFrame],
  *,
  x: str,
  y: str,
  height: float = 2.1,
  zero: bool = False,
) -> str:
  """Draws lines as SVG; bars are standard errors, where they are known.

  Args:
    panels: The means and errors of each panel, by line and by position on the
      horizontal axis. A line's colour is given by its name, up to a comma.
      Three panels are in a row.
    x: The name of the horizontal axis; an axis of nodes is logarithmic.
    y: The name of the vertical axis.
    height: A panel's height in inches, with its share of the legend.
    zero: Whether to draw a line at 0.
  """
  names = [
    *dict.fromkeys(name for part in panels.values() for name, _ in part.index)
  ]
  by_kind = colors(name.partition(",")[0] for name in names)
  by_kind |= {"the paper": MUTED}
  columns = min(_COLUMNS, len(panels))
  rows = math.ceil(len(panels) / columns)

  def draw(figure):
    legend = {}
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for (title, panel), axes in zip(panels.items(), grid, strict=False):
      for key, line in panel.groupby(level=0, sort=False):
        name = str(key)
        legend[name] = axes.errorbar(
          line.index.get_level_values(1),
          line["mean"],
          yerr=line["error"].fillna(0),
          color=by_kind[name.partition(",")[0]],
          marker=MARKERS[names.index(name) % len(MARKERS)],
          markersize=4,
          linewidth=1.4,
          linestyle="--" if "the paper" in name else "-",
        )
      ticks = sorted({position for _, position in panel.index})
      if "nodes" in x:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
        pairs = zip(ticks, [0, *ticks], strict=False)
        ticks = [tick for tick, before in pairs if tick > 1.2 * before]
      axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
      axes.grid(axis="y")
      if zero:
        axes.axhline(0, color=MUTED, linewidth=0.8)
      axes.set_title(title, loc="left")
      axes.tick_params(length=0)
    for spare in grid[len(panels) :]:
      spare.set_axis_off()
    if legend:
      figure.legend(
        legend.values(),
        legend,
        loc="outside upper left",
        ncols=min(len(legend), _LETTERS // max(map(len, legend))),
      )
    figure.supxlabel(x, fontsize=8, color=MUTED)
    figure.supylabel(y, fontsize=8, color=MUTED)

  return svg(draw, _WIDTH, rows * height + 0.35, layout="constrained")
