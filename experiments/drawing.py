"""Draws an experiment's figures: lines with their errors, in a few panels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tv_jax.engine.estimates import Estimate
from tv_jax.runs.report import canvas
from tv_jax.runs.report.palette import BLUE, GREEN, MUTED, ORANGE, PURPLE

_COLORS = {
  "Tok.V": ORANGE,
  "Tra.V": BLUE,
  "token_level": ORANGE,
  "traversal": BLUE,
  "this run": BLUE,
  "the paper": MUTED,
}
_FREE = (GREEN, PURPLE)
_MARKERS = "osD^vP"

# By panel and line, the estimate at each place of the horizontal axis.
Lines = Mapping[str, Mapping[str, Mapping[float, Estimate]]]


def lines(
  found: Lines,
  *,
  x: str,
  y: str,
  alike: bool = True,
  height: float = 2.1,
  doubling: bool = False,
) -> str:
  """Draws lines as SVG; bars are standard errors, where they are known.

  Args:
    found: The lines of each panel. What a name has before a comma gives the
      line its colour.
    x: The name of the horizontal axis.
    y: The name of the vertical axis.
    alike: Whether all panels have one vertical scale.
    height: A panel's height in inches, with its share of the legend.
    doubling: Whether the horizontal axis is logarithmic.
  """
  names = [*dict.fromkeys(name for own in found.values() for name in own)]
  kinds = [*dict.fromkeys(name.partition(",")[0] for name in names)]
  free = iter(_FREE)
  colors = {n: _COLORS[n] if n in _COLORS else next(free) for n in kinds}

  def draw(panel, axes):
    for i, name in enumerate(names):
      if not (own := found[panel].get(name)):
        continue
      axes.errorbar(
        [*own],
        [one.mean for one in own.values()],
        yerr=[
          0.0 if np.isnan(one.error) else one.error for one in own.values()
        ],
        color=colors[name.partition(",")[0]].light,
        marker=_MARKERS[i % len(_MARKERS)],
        markersize=4,
        linewidth=1.4,
        linestyle=_style(name),
        label=name,
      )
    places = sorted({place for own in found[panel].values() for place in own})
    if doubling:
      axes.set_xscale("log", base=2)
      axes.minorticks_off()
      places = _apart(places)
      axes.set_xticks(places, [f"{place:g}" for place in places])
    else:
      axes.set_xticks(places)
    axes.grid(axis="y")
    if "gain over" in y:
      axes.axhline(0, color=MUTED.light, linewidth=0.8)

  return canvas.panels([*found], draw, height=height, x=x, y=y, alike=alike)


def _style(name) -> str:
  """Returns a dashed line for a reference, a dotted one for a cooler draft."""
  if "the paper" in name or "full trees" in name:
    return "--"
  return ":" if "draft" in name else "-"


def _apart(places) -> list[float]:
  """Leaves out places whose numbers would cover those of a larger one."""
  kept = []
  for place in sorted(places, reverse=True):
    if not kept or 1.2 * place < kept[-1]:
      kept.append(place)
  return kept[::-1]
