"""Writes all files of a run's report from the files in its folder."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from tv_jax.engine.results import FAULT
from tv_jax.io import disk
from tv_jax.io.errors import UserError
from tv_jax.runs import store
from tv_jax.runs import tables as formats
from tv_jax.runs.frame import answers, frame, timings
from tv_jax.runs.records import ALL, CONDITION, KEY
from tv_jax.runs.report import figures, page, tables
from tv_jax.runs.tables import Table


class Report(NamedTuple):
  """The written report, and its parts to print."""

  page: pathlib.Path
  tables: list[Table]
  definitions: tuple[str, ...]  # of the tables' columns
  warnings: list[str]
  all_failed: bool  # every answer is an error

  def print(self) -> None:
    """Prints the tables, their definitions, and where the page is."""
    formats.show(self.tables)
    lines = *self.definitions, *self.warnings, f"report: {self.page}"
    print(*map(formats.plain, lines), sep="\n")


def write(folder: str | os.PathLike) -> Report:
  """Writes a run's tables and page into its folder, finished or not.

  Raises:
    ValueError: The folder has no run, or no answers.
  """
  unit = store.read(folder)
  if not unit.items:
    raise UserError(f"{folder}: there are no answers yet to report on")
  baseline = unit.config["baseline"]
  cycles, times = frame(unit), timings(unit)
  measured = tables.measures(cycles, answers(unit), baseline)
  shown, for_latex, gains = [], [], {}
  by_condition = cycles.groupby(CONDITION, observed=True)
  for values, part in tables.conditions(measured).items():
    title = tables.title(values)
    for_latex += [
      tables.paired(title, part, baseline),
      tables.lengths(title, part, baseline),
    ]
    shown += for_latex[-2:]
    if values in by_condition.groups:  # an answer did not fail
      shown.append(tables.positions(title, by_condition.get_group(values)))
    gain = pd.DataFrame(part.loc[ALL]["gain_percent"]).dropna(subset="mean")
    if len(gain):
      gains[title] = gain
  if match := tables.exact_match(measured):
    shown.append(match)
  warnings = _warnings(unit, measured)
  files = {
    "cells.csv": tables.as_csv(measured),
    # Without speeds, so that equal answers give equal bytes.
    "table.md": _markdown(shown, warnings),
    "table.tex": "\n".join(map(formats.latex, for_latex)),
  }
  definitions = tables.DEFINITIONS
  if len(times):
    shown.append(tables.speeds(times, measured, baseline))
    definitions += tables.SPEED_DEFINITIONS
  names = unit.config["experiment"], unit.folder.resolve().name
  files["report.html"] = page.render(
    title=", ".join(dict.fromkeys(names)),
    warnings=warnings,
    result=_result(gains, baseline),
    figure=figures.forest(gains, baseline) if gains else "",
    caption=figures.caption(gains, baseline),
    lead=_lead(unit),
    tables=shown,
    traces=_traces(unit),
    definitions=definitions,
    settings=[
      ("Config", unit.config),
      *(("Environment", values) for values in unit.environments),
    ],
  )
  for name, text in files.items():
    disk.write_atomic(unit.folder / name, text)
  return Report(
    page=unit.folder / "report.html",
    tables=shown,
    definitions=definitions,
    warnings=warnings,
    all_failed=all("error" in line for line in unit.items),
  )


def _result(gains: Mapping[str, pd.DataFrame], baseline: str) -> str:
  """Says in a sentence how much each rule gains on the same drafts, or ""."""
  conditions = []
  for title, part in gains.items():
    texts = formats.texts(part, "+.1f", " %")
    rules = [
      f"{rule} gains "
      + _listed(
        [
          f"{gain} on {tree}"
          for tree, gain in zip(
            of_rule.index.get_level_values("tree"), of_rule, strict=True
          )
        ]
      )
      for rule, of_rule in texts.groupby(level="verifier", sort=False)
    ]
    begin = f"with {title} " if len(gains) > 1 else ""
    conditions.append(begin + "; ".join(rules))
  if not conditions:
    return ""
  said = "; ".join(conditions)
  return f"On the same drafts, compared with {baseline}, {said}."


def _listed(texts: Sequence[str]) -> str:
  *first, last = texts
  return f"{', '.join(first)} and {last}" if first else last


def _warnings(unit: store.StoredRun, measured: pd.DataFrame) -> list[str]:
  """Returns the warnings that stand before all numbers."""
  lines = []
  if not unit.done:
    lines.append(
      f"THE RUN IS NOT FINISHED: {len(unit.items)} answers are there; the same"
      " command continues."
    )
  whole = measured.loc[ALL]
  if failed := whole["failed"].sum():
    why = next(line["error"] for line in unit.items if "error" in line)
    lines.append(f"{failed} ANSWERS FAILED, the first one because: {why}")
  if faults := whole["faults"].sum():
    lines.append(f"FAULTS IN {faults} CYCLES: {FAULT}.")
  drafted, check = whole["drafted", "mean"], whole["check"]
  for method in whole.index[(drafted == 0) & (whole["faults"] == 0)]:
    lines.append(
      f"NOTHING WAS DRAFTED in any cycle of {tables.method(method)}:"
      " draft_stop gave no root a child."
    )
  # With few cycles the error is itself too uncertain for this test.
  wrong = check["mean"].abs() > 4 * check["error"] + 1e-4
  wrong = check[wrong & (whole["cycles"] >= 100)]
  for method, found in formats.texts(wrong, "+.3f").items():
    lines.append(
      f"CHECK FAILED: {tables.method(method)}: realised - expected = {found}"
    )
  if (kept := len(unit.environments)) > 1:
    lines.append(f"Answers come from {kept} environments; see below.")
  return lines


def _markdown(shown: list[Table], warnings: list[str]) -> str:
  lines = [f"**{formats.markdown_text(line)}**\n" for line in warnings]
  lines += map(formats.markdown, shown)
  lines += ["### Definitions", "", *(f"- {x}" for x in tables.DEFINITIONS), ""]
  return "\n".join(lines)


def _traces(unit: store.StoredRun) -> list[dict]:
  """Returns the traced answers.

  The explorer begins with the first: an answer on the last tree, by a rule
  other than the baseline.
  """
  traced = [line for line in unit.items if "trace" in line]
  traced.sort(
    key=lambda line: (
      -unit.config["trees"].index(line["tree"]),
      line["verifier"] == unit.config["baseline"],
    )
  )
  return [
    {name: line[name] for name in KEY}
    # As text: a browser would round large numbers.
    | {"question": str(line["question"])}
    | {"prompt": line["prompt"], "cycles": line["trace"]}
    for line in traced
  ]


def _lead(unit: store.StoredRun) -> str:
  models = unit.config["models"]
  questions = {line["question"] for line in unit.items}
  return (
    f"{models['target']} with {models['draft'] or 'no draft'}, on"
    f" {len(questions)} questions of {unit.config['questions']}. All numbers"
    " but speeds come from items.jsonl alone."
  )
