"""Tokens a cycle against nodes, predicted and then measured."""

from __future__ import annotations

from tv_jax.runs.report import canvas, fragments, palette
from tv_jax.tune.results import NAMED, SEQUOIA, TUNED, Tuned

_MEASURED, _PREDICTED = "on other prompts", "predicted"
_MARKERS = "s^vDPX"


def draw(tuned: Tuned) -> str:
  """The chart as SVG: a panel for prompts tuned on, one for the others."""

  def panel(title, axes):
    def value(row):
      return row.measured if title == _MEASURED else row.predicted

    lines = (
      (TUNED, "tuned", palette.BLUE, "o"),
      (SEQUOIA, "Sequoia's model", palette.ORANGE, "D"),
    )
    for kind, label, color, marker in lines:
      rows = _rows(tuned, kind)
      axes.errorbar(
        [len(row.tree) - 1 for row in rows],
        [value(row).mean for row in rows],
        yerr=[value(row).error for row in rows],
        color=color.light,
        marker=marker,
        markersize=4,
        linewidth=1.4 if kind == TUNED else 0.9,
        label=label,
      )
    for i, row in enumerate(_rows(tuned, NAMED)):
      axes.errorbar(
        len(row.tree) - 1,
        value(row).mean,
        yerr=value(row).error,
        color=palette.SLATE.light,
        marker=_MARKERS[i % len(_MARKERS)],
        markersize=5,
        linestyle="none",
        label=fragments.plain(row.name),
      )
    axes.set_xscale("log", base=2)
    sizes = sorted({len(row.tree) - 1 for row in _rows(tuned, TUNED)})
    axes.set_xticks(sizes, [*map(str, sizes)])
    axes.minorticks_off()
    axes.grid(axis="y")

  return canvas.panels(
    [_PREDICTED, _MEASURED],
    panel,
    height=2.6,
    x="drafted nodes of the tree",
    y="tokens a cycle",
  )


def _rows(tuned, kind):
  """Those of a kind that have been estimated, by size."""
  rows = [row for row in tuned.rows if row.kind == kind and row.measured]
  return sorted(rows, key=lambda row: len(row.tree))
