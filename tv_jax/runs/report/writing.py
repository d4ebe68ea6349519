"""Writes all files of a run's report from the files in its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pandas as pd

from tv_jax.engine.results import FAULT
from tv_jax.io import disk
from tv_jax.io.errors import UserError
from tv_jax.runs import store
from tv_jax.runs.frame import answers, frame, timings
from tv_jax.runs.records import ALL, CONDITION, KEY, METHOD, in_words
from tv_jax.runs.report import figures, measures, page
from tv_jax.runs.tables import Report, markdown_text, texts

PAGE = "report.html"


def write(folder: str | os.PathLike) -> Report:
  """Writes a run's tables and page into its folder, finished or not.

  Returns:
    The tables, with warnings and the definitions of columns.

  Raises:
    ValueError: The folder has no run, or no answers.
  """
  unit = store.read(folder)
  if not unit.items:
    raise UserError(f"{folder}: there are no answers yet to report on")
  baseline = unit.config["baseline"]
  cycles, times = frame(unit), timings(unit)
  measured = measures.measures(cycles, answers(unit), baseline)
  report, for_latex, gains = Report(findings=_warnings(unit, measured)), [], {}
  by_condition = cycles.groupby(CONDITION, observed=True)
  for values, part in measures.conditions(measured).items():
    title = in_words(CONDITION, values)
    for_latex += [
      measures.paired(title, part, baseline),
      measures.lengths(title, part, baseline),
    ]
    report.tables += for_latex[-2:]
    if values in by_condition.groups:  # an answer did not fail
      own = by_condition.get_group(values)
      report.tables.append(measures.positions(title, own))
    gain = pd.DataFrame(part.loc[ALL]["gain_percent"]).dropna(subset="mean")
    if len(gain):
      gains[title] = gain
  if match := measures.exact_match(measured):
    report.tables.append(match)
  report.notes += measures.DEFINITIONS
  files = {
    "cells.csv": measures.as_csv(measured),
    # Without speeds, so that equal answers give equal bytes.
    "table.md": _markdown(report),
    "table.tex": "\n".join(table.latex() for table in for_latex),
  }
  if len(times):
    report.tables.append(measures.speeds(times, measured, baseline))
    report.notes += measures.SPEED_DEFINITIONS
  names = unit.config["experiment"], unit.folder.resolve().name
  files[PAGE] = page.render(
    title=", ".join(dict.fromkeys(names)),
    tables=report.tables,
    warnings=report.findings,
    definitions=report.notes,
    result=_result(gains, baseline),
    figure=figures.forest(gains, baseline) if gains else "",
    caption=figures.caption(gains, baseline),
    lead=_lead(unit),
    traces=_traces(unit),
    settings=[
      ("Config", unit.config),
      *(("Environment", values) for values in unit.environments),
    ],
  )
  for name, text in files.items():
    disk.write_atomic(unit.folder / name, text)
  return report


def _result(gains: Mapping[str, pd.DataFrame], baseline: str) -> str:
  """Says in a sentence how much each rule gains on the same drafts, or ""."""
  conditions = []
  for title, part in gains.items():
    said = []
    for rule, own in texts(part, "+.1f", " %").groupby("verifier", sort=False):
      trees = own.index.get_level_values("tree")
      *first, last = (f"{x} on {y}" for x, y in zip(own, trees, strict=True))
      first = [", ".join(first)] * bool(first)
      said.append(f"{rule} gains {' and '.join([*first, last])}")
    begin = f"with {title} " if len(gains) > 1 else ""
    conditions.append(begin + "; ".join(said))
  if not conditions:
    return ""
  said = "; ".join(conditions)
  return f"On the same drafts, compared with {baseline}, {said}."


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
      f"NOTHING WAS DRAFTED in any cycle of {in_words(METHOD, method)}:"
      " draft_stop gave no root a child."
    )
  # With few cycles the error is itself too uncertain for this test.
  wrong = check["mean"].abs() > 4 * check["error"] + 1e-4
  wrong = check[wrong & (whole["cycles"] >= 100)]
  said = texts(wrong, "+.3f")
  for method, found in zip(wrong.index, said, strict=True):
    lines.append(
      f"CHECK FAILED: {in_words(METHOD, method)}: realised - expected = {found}"
    )
  if (kept := len(unit.environments)) > 1:
    lines.append(f"Answers come from {kept} environments; see below.")
  return lines


def _markdown(report: Report) -> str:
  lines = [f"**{markdown_text(line)}**\n" for line in report.findings]
  lines += [table.markdown() for table in report.tables]
  lines += ["### Definitions", "", *(f"- {x}" for x in report.notes), ""]
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
