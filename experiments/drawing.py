"""Draws an experiment's figures: lines with their errors, in a few panels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from tv_jax.engine.estimates import Estimate
from tv_jax.runs.report import canvas
from tv_jax.runs.report.canvas import BLUE, GOLD, GREEN, MUTED, ORANGE, PURPLE

_COLORS = {"token_level": ORANGE, "traversal": BLUE, "the paper": MUTED}
_FREE = (GREEN, PURPLE, GOLD)
_MARKERS = "osD^vP"

# By panel and line, the estimate at each place of the horizontal axis.
Lines = Mapping[str, Mapping[str, Mapping[float, Estimate]]]


def lines(
  panels: Lines, *, x: str, y: str, height: float = 2.1, zero: bool = False
) -> str:
  """Draws lines as SVG; bars are standard errors, where they are known.

  Args:
    panels: The lines. What a name has before a comma gives it its colour.
    x: The name of the horizontal axis; one of nodes is logarithmic.
    y: The name of the vertical axis.
    height: A panel's height in inches, with its share of the legend.
    zero: Whether 0 is a line.
  """
  names = [*dict.fromkeys(itertools.chain.from_iterable(panels.values()))]
  free = itertools.cycle(_FREE)
  colors = dict(_COLORS)
  for kind in (name.partition(",")[0] for name in names):
    if kind not in colors:
      colors[kind] = next(free)

  def draw(panel, axes):
    for name, line in panels[panel].items():
      if not line:
        continue
      errors = [value.error for value in line.values()]
      axes.errorbar(
        [*line],
        [value.mean for value in line.values()],
        yerr=[0 if math.isnan(error) else error for error in errors],
        color=colors[name.partition(",")[0]],
        marker=_MARKERS[names.index(name) % len(_MARKERS)],
        markersize=4,
        linewidth=1.4,
        linestyle="--" if "the paper" in name else "-",
        label=name,
      )
    ticks = sorted({*itertools.chain.from_iterable(panels[panel].values())})
    if "nodes" in x:
      axes.set_xscale("log", base=2)
      axes.minorticks_off()
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.grid(axis="y")
    if zero:
      axes.axhline(0, color=MUTED, linewidth=0.8)

  return canvas.panels([*panels], draw, height=height, x=x, y=y)
