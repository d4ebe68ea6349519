"""The gains of a run at a glance: a sentence, and a forest plot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from tv_jax.engine.results import Estimate
from tv_jax.runs.records import ALL, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import Cells

# Colour-blind readers can tell these apart; their lightness differs, too.
_COLORS = {"token_level": "#ad4d06", "traversal": "#0a64a4", "block": "#12785a"}
_OTHER_COLORS = "#8b4789", "#80690a", "#55606e"

# In units of the SVG, which is as wide as a phone.
WIDTH, _LEFT, _RIGHT, _PITCH = 360, 118, 262, 18
_LETTERS = 19  # of a name, left of the plot
_ERRORS = 2  # standard errors to each side


class Mark(NamedTuple):
  """One line of a plot: an estimate with its name and its place."""

  name: str
  text: str
  color: str
  x: float
  low: float
  high: float
  y: float


class Forest(NamedTuple):
  """A forest plot, in units of its SVG."""

  title: str
  marks: list[Mark]
  ticks: list[tuple[float, str]]
  height: float


def colors(rules: Iterable[str]) -> dict[str, str]:
  """Returns a colour for each rule, in the order of legends."""
  rules = {*rules}
  known = {rule: color for rule, color in _COLORS.items() if rule in rules}
  return known | {
    rule: _OTHER_COLORS[i % len(_OTHER_COLORS)]
    for i, rule in enumerate(sorted(rules - _COLORS.keys()))
  }


def result(cells: Cells, baseline: str) -> str:
  """Says in a sentence how much each rule gains on the same drafts, or ""."""
  fixed = tables.conditions(cells[ALL])
  parts: dict[str, list[str]] = {}
  for method, relative in _gains(cells, baseline).items():
    gain = f"{tables.percent(relative, '+.1f')} on {method.tree}"
    if len(fixed) > 1:
      gain += f" ({tables.title(tables.condition(method))})"
    parts.setdefault(f"{method.verifier} gains", []).append(gain)
  gains = "; ".join(f"{who} {_listed(x)}" for who, x in parts.items())
  return f"On the same drafts, compared with {baseline}, {gains}." * bool(gains)


def _listed(texts: list[str]) -> str:
  *first, last = texts
  return f"{', '.join(first)} and {last}" if first else last


def _gains(cells: Cells, baseline: str) -> dict[Method, Estimate]:
  """Returns the gain of each method over the baseline, in percent."""
  return {
    method: cell.relative
    for method, cell in cells[ALL].items()
    if method.verifier != baseline and cell.relative
  }


def plots(cells: Cells, baseline: str) -> list[Forest]:
  """Makes a plot of the gains by tree for each condition."""
  gains, result = _gains(cells, baseline), []
  for fixed in tables.conditions(gains):
    title = (
      f"Gain over {baseline} on the same drafts, in percent of its expected"
      f" length: {tables.title(fixed)}. Bars: {_ERRORS} standard errors to each"
      " side."
    )
    shown = {m: gains[m] for m in gains if tables.condition(m) == fixed}
    result.append(_plot(title, shown, baseline))
  return result


def _plot(title: str, gains: dict[Method, Estimate], baseline: str) -> Forest:
  rules = {str(method.verifier) for method in gains}
  color = colors([*rules, baseline])
  spans = [_span(gain) for gain in gains.values()]
  low = min(0.0, *(span[0] for span in spans))
  high = max(0.0, *(span[1] for span in spans))
  scale = (_RIGHT - _LEFT) / ((high - low) or 1.0)

  def place(value):
    return round(_LEFT + (value - low) * scale, 1)

  marks = []
  for (method, gain), span in zip(gains.items(), spans, strict=True):
    rule = str(method.verifier)
    name = f"{method.tree}" + f", {rule}" * (len(rules) > 1)
    name = name if len(name) <= _LETTERS else f"…{name[1 - _LETTERS :]}"
    text, y = tables.percent(gain, "+.1f"), _PITCH * (len(marks) + 1)
    x, left, right = map(place, (gain.mean, *span))
    marks.append(Mark(name, text, color[rule], x, left, right, y))
  ticks = [
    (place(value), f"{value:+g}" if value else "0")
    for value in _ticks(low, high)
  ]
  return Forest(title, marks, ticks, _PITCH * (len(marks) + 2))


def _span(estimate: Estimate) -> tuple[float, float]:
  """Returns the ends of an error bar; without an error, the mean twice."""
  error = 0.0 if math.isnan(estimate.error) else _ERRORS * estimate.error
  return estimate.mean - error, estimate.mean + error


def _ticks(low: float, high: float) -> list[float]:
  """Returns a few round numbers of a range."""
  rough = (high - low) / 6 or 1.0
  power = 10.0 ** math.floor(math.log10(rough))
  step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough)
  first, last = math.ceil(low / step), math.floor(high / step)
  return [round(k * step, 10) for k in range(first, last + 1)]
