"""The gains of a run at a glance: a sentence, and a forest plot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tv_jax.engine.results import Estimate
from tv_jax.runs.metrics import Cell
from tv_jax.runs.records import ALL, Method
from tv_jax.runs.report import canvas, tables
from tv_jax.runs.report.tables import Cells

# In units of the SVG, which is as wide as a phone.
WIDTH, _LEFT, _RIGHT, _PITCH = 360, 118, 262, 18
_LETTERS = 19  # of a name, left of the plot
_ERRORS = 2  # standard errors to each side


class Mark(NamedTuple):
  """One line of a plot: an estimate with its name and its place."""

  name: str
  whole: bool  # all tasks together
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


def result(cells: Cells, baseline: str) -> str:
  """Says in a sentence how much each rule gains on the same drafts, or ""."""
  fixed = tables.conditions(cells[ALL])
  parts: dict[str, list[str]] = {}
  for method, cell in _compared(cells, baseline):
    gain = f"{tables.percent(cell.relative, '+.1f')} on {method.tree}"
    if len(fixed) > 1:
      gain += f" ({tables.title(tables.condition(method))})"
    parts.setdefault(f"{method.verifier} gains", []).append(gain)
  gains = "; ".join(f"{who} {_listed(x)}" for who, x in parts.items())
  return f"On the same drafts, compared with {baseline}, {gains}." * bool(gains)


def _listed(texts: list[str]) -> str:
  *first, last = texts
  return f"{', '.join(first)} and {last}" if first else last


def _compared(cells: Cells, baseline: str) -> Iterator[tuple[Method, Cell]]:
  """Yields the methods that have a gain, with their cells of all tasks."""
  for method, cell in cells[ALL].items():
    if method.verifier != baseline and cell.relative:
      yield method, cell


def plots(cells: Cells, baseline: str) -> list[Forest]:
  """Makes a plot of each condition: gains by tree, and by task below it."""
  result = []
  for fixed in tables.conditions(cells[ALL]):
    methods = [
      method
      for method, _ in _compared(cells, baseline)
      if tables.condition(method) == fixed
    ]
    if methods:
      result.append(_plot(cells, methods, fixed, baseline))
  return result


def _plot(
  cells: Cells, methods: list[Method], fixed: Method, baseline: str
) -> Forest:
  rules = {str(method.verifier) for method in methods}
  colors = canvas.colors([*rules, baseline])
  tasks = [task for task in cells if task != ALL]
  lines: list[tuple[Method, str, Estimate]] = []
  for method in methods:
    for task in (ALL, *(tasks if len(tasks) > 1 else ())):
      cell = cells[task].get(method)
      if cell and cell.relative:
        lines.append((method, task, cell.relative))
  spans = [_span(estimate) for _, _, estimate in lines]
  low = min(0.0, *(span[0] for span in spans))
  high = max(0.0, *(span[1] for span in spans))
  scale = (_RIGHT - _LEFT) / ((high - low) or 1.0)
  marks, y = [], 0.0
  for (method, task, estimate), span in zip(lines, spans, strict=True):
    whole = task == ALL
    name = tables.TASKS.get(task, task)
    if whole:
      name = f"{method.tree}" + f", {method.verifier}" * (len(rules) > 1)
    y += _PITCH * (1.4 if whole and marks else 1)
    x, left, right = (
      round(_LEFT + (value - low) * scale, 1)
      for value in (estimate.mean, *span)
    )
    text = tables.percent(estimate, "+.1f")
    color = colors[str(method.verifier)]
    name = name if len(name) <= _LETTERS else f"…{name[1 - _LETTERS :]}"
    marks.append(Mark(name, whole, text, color, x, left, right, round(y, 1)))
  ticks = [
    (round(_LEFT + (value - low) * scale, 1), f"{value:+g}" if value else "0")
    for value in _ticks(low, high)
  ]
  title = (
    f"Gain over {baseline} on the same drafts, in percent of its expected"
    f" length: {tables.title(fixed)}. Bars: {_ERRORS} standard errors to each"
    " side."
  )
  return Forest(title, marks, ticks, round(y + 2 * _PITCH, 1))


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
