"""Figures of experiments: lines with their errors, a panel for each kind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tv_jax.metrics import Estimate
from tv_jax.report import canvas
from tv_jax.report.palette import BLUE, GREEN, MUTED, ORANGE, PURPLE

_COLORS = {
  "Tok.V": ORANGE,
  "Tra.V": BLUE,
  "this run": BLUE,
  "the paper": MUTED,
}
_FREE = (GREEN, PURPLE)
_MARKERS = "osD^vP"

# By panel and line, what is at each place of the horizontal axis.
Lines = Mapping[str, Mapping[str, Mapping[float, Estimate]]]


def lines(found: Lines, *, x: str, y: str) -> str:
  """An SVG of the lines; bars are standard errors, where they are known."""
  names = [*dict.fromkeys(name for own in found.values() for name in own)]
  free = iter(_FREE)
  colors = {n: _COLORS[n] if n in _COLORS else next(free) for n in names}

  def draw(panel, axes):
    for i, name in enumerate(names):
      own = found[panel].get(name, {})
      if not own:
        continue
      errors = [0.0 if np.isnan(e.error) else e.error for e in own.values()]
      axes.errorbar(
        [*own],
        [estimate.mean for estimate in own.values()],
        yerr=errors,
        color=colors[name].light,
        marker=_MARKERS[i % len(_MARKERS)],
        markersize=4,
        linewidth=1.4,
        linestyle="--" if name == "the paper" else "-",
        label=name,
      )
    places = sorted({place for own in found[panel].values() for place in own})
    axes.set_xticks(places)
    axes.grid(axis="y")
    if "gain over" in y:
      axes.axhline(0, color=MUTED.light, linewidth=0.8)

  return canvas.panels([*found], draw, height=2.1, x=x, y=y)
