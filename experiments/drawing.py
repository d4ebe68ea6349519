"""Figures of experiments: lines with their errors, a panel for each kind."""

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

# By panel and line, what is at each place of the horizontal axis.
Lines = Mapping[str, Mapping[str, Mapping[float, Estimate]]]


def _style(name) -> str:
  """Of what is compared with broken, of a draft of its own dotted."""
  if "the paper" in name or "full trees" in name:
    return "--"
  return ":" if "draft" in name else "-"


def _apart(places) -> list[float]:
  """Those of which the numbers do not cover each other, the larger of two."""
  kept = []
  for place in sorted(places, reverse=True):
    if not kept or 1.2 * place < kept[-1]:
      kept.append(place)
  return kept[::-1]


def lines(
  found: Lines,
  *,
  x: str,
  y: str,
  alike: bool = True,
  height: float = 2.1,
  doubling: bool = False,
) -> str:
  """An SVG of the lines; bars are standard errors, where they are known.

  What stands before a comma has one colour. Of the height, in inches, the
  names of the lines take what they need. `doubling`: x and twice as much are
  as far apart wherever x is.
  """
  names = [*dict.fromkeys(name for own in found.values() for name in own)]
  kinds = [*dict.fromkeys(name.partition(",")[0] for name in names)]
  free = iter(_FREE)
  colors = {n: _COLORS[n] if n in _COLORS else next(free) for n in kinds}

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
