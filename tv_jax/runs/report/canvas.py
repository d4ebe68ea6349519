"""Draws figures of a few panels as SVG, the same to the byte anywhere."""

import io
import math
import re
from collections.abc import Callable, Sequence

from tv_jax.runs.report import fragments
from tv_jax.runs.report.palette import INK, MUTED, RULE

WIDTH = 7.2  # inches
COLUMNS = 3
_LETTERS = 120  # that fit into a row of the legend

# Text is measured in matplotlib's own font, and shown in the reader's.
_FONTS = "system-ui, 'Helvetica Neue', 'DejaVu Sans', sans-serif"

_STYLE = {
  "svg.hashsalt": "tv_jax",
  "svg.fonttype": "none",
  "font.size": 8,
  "axes.titlesize": 8.5,
  "axes.labelsize": 8,
  "axes.titlepad": 7,
  "axes.edgecolor": RULE.light,
  "axes.labelcolor": MUTED.light,
  "axes.titlecolor": INK.light,
  "axes.linewidth": 0.8,
  "axes.spines.top": False,
  "axes.spines.right": False,
  "axes.axisbelow": True,
  "axes.facecolor": "none",
  "figure.facecolor": "none",
  "grid.color": RULE.light,
  "grid.linewidth": 0.6,
  "legend.frameon": False,
  "legend.labelcolor": INK.light,
  "text.color": INK.light,
  "text.parse_math": False,
  "xtick.color": RULE.light,
  "ytick.color": RULE.light,
  "xtick.labelcolor": MUTED.light,
  "ytick.labelcolor": MUTED.light,
  "xtick.labelsize": 7.5,
  "ytick.labelsize": 7.5,
}


def panels(
  titles: Sequence[str],
  draw: Callable[[str, object], None],
  *,
  height: float,
  x: str,
  y: str = "",
  alike: bool = True,
) -> str:
  """Draws one panel for each title, in rows of three.

  Args:
    titles: The panels' titles.
    draw: `(title, axes)`: fills a panel; what it labels is in the legend.
    height: A panel's height in inches.
    x: The name of the horizontal axis.
    y: The name of the vertical axis.
    alike: Whether all panels have one vertical scale.

  Returns:
    SVG with a clear background, whose text is text.
  """
  from matplotlib import style
  from matplotlib.backends.backend_svg import FigureCanvasSVG
  from matplotlib.figure import Figure

  columns = min(COLUMNS, max(len(titles), 1))
  rows = max(math.ceil(len(titles) / columns), 1)
  with style.context(["default", _STYLE]):
    figure = Figure((WIDTH, rows * height + 0.35), layout="constrained")
    canvas = FigureCanvasSVG(figure)
    if titles:
      axes = figure.subplots(rows, columns, sharey=alike, squeeze=False).ravel()
      for title, own in zip(titles, axes, strict=False):
        draw(title, own)
        own.set_title(fragments.plain(title), loc="left")
        own.tick_params(length=0)
      for spare in axes[len(titles) :]:
        spare.set_axis_off()
      _share_a_legend(figure, axes[: len(titles)])
      figure.supxlabel(x, fontsize=8, color=MUTED.light)
      figure.supylabel(y, fontsize=8, color=MUTED.light)
    else:
      figure.text(0.5, 0.5, "nothing to show yet", ha="center", va="center")
    buffer = io.StringIO()
    canvas.print_svg(
      buffer,
      metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")),
    )
  return re.sub(r"'DejaVu Sans',[^;\"]*", _FONTS, buffer.getvalue())


def _share_a_legend(figure, axes):
  found = {}
  for own in axes:
    for handle, label in zip(*own.get_legend_handles_labels(), strict=True):
      found.setdefault(label, handle)
  if found:
    figure.legend(
      found.values(),
      found,
      loc="outside upper left",
      ncols=min(len(found), _LETTERS // max(map(len, found))),
    )
