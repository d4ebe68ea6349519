"""Figures as SVG, byte for byte reproducible, on light and dark pages."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tv_jax.runs.tables import texts

INK, MUTED, RULE = "#1c1e21", "#5c6068", "#d9d6ce"
# Colour-blind readers can tell these apart; their lightness differs, too.
_COLORS = {"token_level": "#ad4d06", "traversal": "#0a64a4", "block": "#12785a"}
_OTHER_COLORS = "#8b4789", "#80690a", "#55606e"
# The same colours on dark pages.
_DARK = {
  **{INK: "#e6e4df", MUTED: "#a3a7ae", RULE: "#3b3e43"},
  **{"#ad4d06": "#d29d76", "#0a64a4": "#78aacd", "#12785a": "#7db5a4"},
  **{"#8b4789": "#bf9abe", "#80690a": "#b9ac78", "#55606e": "#a2a8af"},
}
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
  "text.color": INK,
  "text.parse_math": False,
  "xtick.color": RULE,
  "ytick.color": RULE,
  "xtick.labelcolor": MUTED,
  "ytick.labelcolor": MUTED,
}
# The forest plot, in inches: as wide as a phone, 72 units an inch.
_WIDTH, _LEFT, _RIGHT, _PITCH = 5.0, 1.64, 3.64, 0.25
_LETTERS = 19  # of a name, left of the plot
_ERRORS = 2  # standard errors to each side


def colors(rules: Iterable[str]) -> dict[str, str]:
  """Returns a colour for each rule, in the order of legends."""
  rules = {*rules}
  known = {rule: color for rule, color in _COLORS.items() if rule in rules}
  return known | {
    rule: _OTHER_COLORS[i % len(_OTHER_COLORS)]
    for i, rule in enumerate(sorted(rules - _COLORS.keys()))
  }


def svg(
  draw: Callable[[Any], None], width: float, height: float, **options
) -> str:
  """Draws a figure as SVG.

  Args:
    draw: Draws on a figure of matplotlib.
    width: The width in inches.
    height: The height in inches.
    **options: Further options of the figure.

  Returns:
    SVG with a transparent background, and its text as text elements.
  """
  from matplotlib import style
  from matplotlib.backends.backend_svg import FigureCanvasSVG
  from matplotlib.figure import Figure

  with style.context(["default", _STYLE]):
    figure, buffer = Figure((width, height), **options), io.StringIO()
    canvas = FigureCanvasSVG(figure)
    draw(figure)
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    canvas.print_svg(buffer, metadata=nothing)
  written = re.sub(r"'DejaVu Sans',[^;\"]*", _FONTS, buffer.getvalue())
  dark = "".join(
    f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
    for light, dark in _DARK.items()
    for kind in ("fill", "stroke")
  )
  # In a page, matplotlib's own rule is for this figure only.
  return written.replace(
    '<style type="text/css">*',
    f"<style>@media (prefers-color-scheme: dark){{{dark}}}#figure_1 *",
  )


def forest(gains: Mapping[str, pd.DataFrame], baseline: str) -> str:
  """Draws gains with their errors as SVG, one panel below the other.

  Args:
    gains: The gains in percent of each condition, by tree and rule. All panels
      have the same scale.
    baseline: The rule to which they are compared.
  """
  from matplotlib.ticker import MaxNLocator

  rules = {rule for part in gains.values() for _, rule in part.index}
  color = colors([*rules, baseline])
  titles = len(gains) > 1
  heights = [_PITCH * (len(part) + 1 + titles) for part in gains.values()]

  def draw(figure):
    top, first = sum(heights), None
    for (title, part), height in zip(gains.items(), heights, strict=True):
      top -= height
      rows = len(part)
      place = np.array([_LEFT, top + _PITCH, _RIGHT - _LEFT, _PITCH * rows])
      size = np.array([_WIDTH, sum(heights)] * 2)
      axes = figure.add_axes(
        place / size, sharex=first, ylim=(rows - 0.5, -0.5), yticks=[]
      )
      first = first or axes
      axes.grid(axis="x")
      axes.axvline(0, color=INK, linewidth=0.8)
      axes.spines[:].set_visible(False)
      axes.tick_params(length=0, labelsize=11)
      axes.margins(x=0.02)
      axes.xaxis.set_major_locator(MaxNLocator(6))
      axes.xaxis.set_major_formatter(lambda x, _: f"{x:+g}" if x else "0")
      if titles:
        left = -_LEFT / (_RIGHT - _LEFT)
        axes.set_title(title, loc="left", x=left, fontsize=11)
      numbers = texts(part, "+.1f", " %")
      bars = _ERRORS * part["error"].fillna(0)
      for row, (tree, rule) in enumerate(part.index):
        axes.errorbar(
          part["mean"].iloc[row],
          row,
          xerr=bars.iloc[row],
          fmt="o",
          color=color[rule],
          elinewidth=2.5,
        )
        name = f"{tree}, {rule}" if len(rules) > 1 else tree
        name = name if len(name) <= _LETTERS else f"…{name[1 - _LETTERS :]}"
        ends = (0, name, "left"), (_WIDTH, numbers.iloc[row], "right")
        for x, words, side in ends:
          axes.text(
            (x - _LEFT) / (_RIGHT - _LEFT),
            row,
            words,
            ha=side,
            va="center_baseline",
            transform=axes.get_yaxis_transform(),
            weight="bold",
            fontsize=11,
          )

  return svg(draw, _WIDTH, sum(heights))


def caption(gains: Mapping[str, pd.DataFrame], baseline: str) -> str:
  """Describes the figure of gains."""
  (title, *others) = gains or [""]
  fixed = f": {title}" if title and not others else ""
  return (
    f"Gain over {baseline} on the same drafts, in percent of its expected"
    f" length{fixed}. Bars: {_ERRORS} standard errors to each side."
  )
