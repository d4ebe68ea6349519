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
  names = [*dict.fromkeys(name for own in panels.values() for name in own)]
  free = itertools.cycle(_FREE)
  colors = dict(_COLORS)
  for kind in (name.partition(",")[0] for name in names):
    if kind not in colors:
      colors[kind] = next(free)

  def draw(panel, axes):
    for name, own in panels[panel].items():
      if not own:
        continue
      axes.errorbar(
        [*own],
        [one.mean for one in own.values()],
        yerr=[
          0 if math.isnan(one.error) else one.error for one in own.values()
        ],
        color=colors[name.partition(",")[0]],
        marker=_MARKERS[names.index(name) % len(_MARKERS)],
        markersize=4,
        linewidth=1.4,
        linestyle="--" if "the paper" in name else "-",
        label=name,
      )
    places = sorted({at for own in panels[panel].values() for at in own})
    if "nodes" in x:
      axes.set_xscale("log", base=2)
      axes.minorticks_off()
    axes.set_xticks(places, [f"{at:g}" for at in places])
    axes.grid(axis="y")
    if zero:
      axes.axhline(0, color=MUTED, linewidth=0.8)

  return canvas.panels([*panels], draw, height=height, x=x, y=y)
