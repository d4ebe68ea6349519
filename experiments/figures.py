"""Draws figures of a few panels as SVG, byte for byte reproducible."""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Mapping

from tv_jax.engine.results import Estimate
from tv_jax.io import tables
from tv_jax.runs.report.forest import colors

INK, MUTED, RULE = "#1c1e21", "#5c6068", "#d9d6ce"
MARKERS = "osD^vP"

# Estimates by panel, by line and by position on the horizontal axis.
Lines = Mapping[str, Mapping[str, Mapping[float, Estimate]]]

_WIDTH = 7.2  # inches
_COLUMNS = 3
_LETTERS = 120  # that fit into a row of the legend
# Text is measured in matplotlib's own font, and shown in the reader's.
_FONTS = "system-ui, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
_STYLE = {
  "svg.hashsalt": "tv_jax",
  "svg.fonttype": "none",
  "font.size": 8,
  "axes.titlesize": 8.5,
  "axes.titlepad": 7,
  "axes.edgecolor": RULE,
  "axes.labelcolor": MUTED,
  "axes.titlecolor": INK,
  "axes.spines.top": False,
  "axes.spines.right": False,
  "axes.axisbelow": True,
  "axes.facecolor": "none",
  "figure.facecolor": "none",
  "grid.color": RULE,
  "grid.linewidth": 0.6,
  "legend.frameon": False,
  "text.parse_math": False,
  "xtick.color": RULE,
  "ytick.color": RULE,
  "xtick.labelcolor": MUTED,
  "ytick.labelcolor": MUTED,
}


def lines(
  panels: Lines, *, x: str, y: str, height: float = 2.1, zero: bool = False
) -> str:
  """Draws lines as SVG; bars are standard errors, where they are known.

  Args:
    panels: The lines of each panel; three panels are in a row. A line's colour
      is given by its name, up to a comma.
    x: The name of the horizontal axis; an axis of nodes is logarithmic.
    y: The name of the vertical axis.
    height: A panel's height in inches, with its share of the legend.
    zero: Whether to draw a line at 0.

  Returns:
    SVG with a transparent background and its text as text elements.
  """
  from matplotlib import style
  from matplotlib.backends.backend_svg import FigureCanvasSVG
  from matplotlib.figure import Figure

  names = [*dict.fromkeys(itertools.chain.from_iterable(panels.values()))]
  by_kind = colors(name.partition(",")[0] for name in names)
  by_kind |= {"the paper": MUTED}
  columns = min(_COLUMNS, len(panels))
  rows = math.ceil(len(panels) / columns)
  with style.context(["default", _STYLE]):
    figure = Figure((_WIDTH, rows * height + 0.35), layout="constrained")
    canvas, legend = FigureCanvasSVG(figure), {}
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for (title, panel), axes in zip(panels.items(), grid, strict=False):
      for name, line in panel.items():
        if line:
          errors = [value.error for value in line.values()]
          legend[tables.plain(name)] = axes.errorbar(
            [*line],
            [value.mean for value in line.values()],
            yerr=[0 if math.isnan(error) else error for error in errors],
            color=by_kind[name.partition(",")[0]],
            marker=MARKERS[names.index(name) % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            linestyle="--" if "the paper" in name else "-",
          )
      ticks = sorted({*itertools.chain.from_iterable(panel.values())})
      if "nodes" in x:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
        pairs = zip(ticks, [0, *ticks], strict=False)
        ticks = [tick for tick, before in pairs if tick > 1.2 * before]
      axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
      axes.grid(axis="y")
      if zero:
        axes.axhline(0, color=MUTED, linewidth=0.8)
      axes.set_title(tables.plain(title), loc="left")
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
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    canvas.print_svg(buffer, metadata=nothing)
  return re.sub(r"'DejaVu Sans',[^;\"]*", _FONTS, buffer.getvalue())
