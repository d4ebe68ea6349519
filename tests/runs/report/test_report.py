"""A run's report: every file, made from lines written by hand."""

import html
import json
import re

import pytest

import tv_jax
from tests.lib import stores
from tests.lib.grids import (
  failed,
  items,
  keep_times,
  rows_of,
  timed,
  unit,
)
from tv_jax import runs
from tv_jax.engine.results import Estimate
from tv_jax.runs import report, stats
from tv_jax.runs.records import KEY


def gains_of(folder):
  """Returns the gains in percent by tree, with their errors."""
  found = stats.gain(tv_jax.frame(folder), "tree")
  return {tree: Estimate(**row) for tree, row in found.iterrows()}


def test_numbers_are_statistics_of_the_frames(tmp_path):
  """tests/runs/test_frame.py has the statistics."""
  folder = unit(tmp_path, [*items()])
  report.write(folder)
  rows = rows_of(tmp_path / "cells.csv")
  assert len(rows) == 3 * 5  # two tasks and all of them; plain and two by two
  cycles, answers = tv_jax.frame(folder), runs.answers(folder)
  for row in rows:
    own, made = (
      table[
        ((table["task"] == row["task"]) | (row["task"] == "all"))
        & (table["tree"] == row["tree"])
        & (table["verifier"] == row["verifier"])
      ]
      for table in (cycles, answers)
    )
    wanted = {
      "acceptance_by_item": stats.by_question(own),
      "acceptance_by_token": stats.by_token(own),
      "exact_match": stats.by_question(made, of="right"),
      "drafted": stats.by_token(own, of="drafted"),
      "expected": stats.by_token(own, of="expected"),
      "check": stats.check(own),
    }
    if row["verifier"] == "traversal":
      wanted |= {
        "gain": stats.difference(own),
        "gain_percent": stats.gain(own),
      }
    else:
      assert (row["gain"], row["gain_n"]) == ("", "0")
    for name, found in wanted.items():
      kept = [row[name], row[f"{name}_se"], row[f"{name}_n"]]
      if found["mean"].isna().all():
        assert kept == ["", "", "0"]
      else:
        assert [*map(float, kept)] == pytest.approx([*found.loc[0]], abs=1e-6)
    assert int(row["cycles"]) == len(own)


def test_the_order_of_lines_changes_no_byte(tmp_path):
  made = [*items()]
  for name, lines in (("a", made), ("b", made[::-1])):
    report.write(unit(tmp_path / name / "run", lines, trees="chain:5 eagle"))
  names = sorted(path.name for path in (tmp_path / "a" / "run").iterdir())
  for name in names:
    if name not in ("items.jsonl", "lock"):
      first = (tmp_path / "a" / "run" / name).read_bytes()
      assert first == (tmp_path / "b" / "run" / name).read_bytes(), name


def test_the_main_table_has_a_row_a_task_and_trees_side_by_side(
  tmp_path, capsys
):
  made = [*items()]
  report.write(unit(tmp_path, made)).print()
  printed = " ".join(capsys.readouterr().out.split())
  assert "By token (Spec-Bench): the mean over all cycles" in printed
  text = (tmp_path / "table.md").read_text()
  text = text[text.index("### Acceptance length by item") :]
  rows = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in text.splitlines()[2:7]
  ]
  rule = ["token_level", "traversal", "gain"]
  columns = [f"{tree} {one}" for tree in ("chain:5", "eagle") for one in rule]
  assert rows[0] == ["task", *columns]
  assert [row[0] for row in rows[2:]] == ["Multi-turn", "QA", "All"]
  assert rows[-1][-1] == f"{gains_of(tmp_path)['eagle']:+.2f} %"
  latex = (tmp_path / "table.tex").read_text()
  assert latex.count("\\\\") == 5 + 5
  # The paired gains come first, everywhere.
  paired, lengths = "The same drafts", "Acceptance length by item"
  text = (tmp_path / "table.md").read_text()
  page = (tmp_path / "report.html").read_text()
  for place in (text, latex, page, printed):
    assert place.index(paired) < place.index(lengths)


def longer(made):
  """Makes one method gain more than its rule expects."""
  for item in made:
    if (item["tree"], item["verifier"]) == ("eagle", "traversal"):
      item["accepted"] = [x + 1 for x in item["accepted"]]
  return made


def broken(made):
  made[3]["faults"] = 2
  made[8] = failed(made[8], "the prompt is too long")
  return made


@pytest.mark.parametrize(
  ("change", "finish", "warned"),
  [
    (lambda made: made[:30], False, ["THE RUN IS NOT FINISHED: 30 answers"]),
    (longer, True, ["CHECK FAILED: traversal on eagle, without_replacement"]),
    (
      broken,
      True,
      ["1 ANSWERS FAILED, the first one because: the", "FAULTS IN 2 CYCLES"],
    ),
    (lambda made: [failed(x, "no") for x in made], True, ["60 ANSWERS FAILED"]),
  ],
)
def test_a_warning_comes_first(tmp_path, change, finish, warned):
  written = report.write(unit(tmp_path, change([*items()]), finish))
  for line, begin in zip(written.findings, warned, strict=True):
    assert line.startswith(begin)
  text = (tmp_path / "table.md").read_text()
  assert text.startswith(f"**{warned[0]}")
  assert "nan" not in text
  assert warned[0] in html.unescape((tmp_path / "report.html").read_text())


def test_the_page_holds_the_traces(tmp_path):
  made = [*items()]
  cycles = [{"pieces": [None, "a"], "stop": {"traversal": [0.5, 0.5]}}]
  for item in made:
    if item["tree"] == "eagle" and item["question"] == 1:
      item["trace"], item["prompt"] = cycles, "What?"
  report.write(unit(tmp_path, made))
  page = (tmp_path / report.PAGE).read_text()
  (embedded,) = re.findall(
    '<script type="application/json" id="traces">(.*?)</script>', page
  )
  first = json.loads(embedded)["traces"][0]
  assert (first["tree"], first["verifier"]) == ("eagle", "traversal")
  assert first["question"] == "1"  # JavaScript has no large integers
  assert first["cycles"] == cycles
  assert [*first] == [*KEY, "prompt", "cycles"]


def test_a_page_begins_with_the_result_and_a_plot_of_it(tmp_path):
  made = [*items()]
  report.write(unit(tmp_path, made))
  page = (tmp_path / report.PAGE).read_text()
  first, second = gains_of(tmp_path).values()
  sentence = (
    "On the same drafts, compared with token_level, traversal gains"
    f" {first:+.1f} % on chain:5 and {second:+.1f} % on eagle."
  )
  assert sentence in page
  assert page.index(sentence) < page.index("<svg") < page.index("<table")
  (svg,) = re.findall("<svg.*?</svg>", page, re.S)
  texts = re.findall("<text.*?>(.*?)</text>", svg, re.S)
  for name, gain in (("chain:5", first), ("eagle", second)):
    assert {name, f"{gain:+.1f} %"} <= {*texts}


def test_conditions_share_a_scale_and_are_said_once(tmp_path):
  made = [
    line | {"temperature": hot, "expected": {**line["expected"]}}
    for hot in (0.5, 1.0)
    for line in items()
  ]
  unit(tmp_path, made, temperatures=(0.5, 1.0))
  report.write(tmp_path)
  page = (tmp_path / report.PAGE).read_text()
  (sentence,) = re.findall("On the same drafts, compared.*?<", page)
  assert sentence.count("with without_replacement, T = 0.5 ") == 1
  assert sentence.count("with without_replacement, T = 1 ") == 1
  (svg,) = re.findall("<svg.*?</svg>", page, re.S)
  assert svg.count(">without_replacement, T = ") == 2
  # Both panels have the same ticks, at the same places.
  ticks = re.findall(r'<text [^>]*x="([\d.]+)"[^>]*>([^<%]+)</text>', svg)
  numbers = [(x, text) for x, text in ticks if text[-1].isdigit()]
  assert len(numbers) == 2 * len({*numbers}) > 4


def test_a_position_that_no_tree_has_is_a_dash(tmp_path):
  made = [*items(("chain:2", "chain:3"))]
  for line in made:
    most = {"chain:2": 3, "chain:3": 4}.get(line["tree"], 1)
    line["accepted"] = [min(n, most) for n in line["accepted"]]
  for line in made:  # one rule never comes as far as the tree
    if (line["tree"], line["verifier"]) == ("chain:3", "token_level"):
      line["accepted"] = [min(n, 3) for n in line["accepted"]]
  unit(tmp_path, made, trees="chain:2 chain:3")
  (table,) = [x for x in report.write(tmp_path).tables if "posit" in x.title]
  third = table.cells["reached", "3"]
  assert third["chain:2", "traversal"] == "\u2013"
  assert third["chain:3", "token_level"] == "0.00 ± 0.00"
  assert third["chain:3", "traversal"] > "0.00 ± 0.00"


@pytest.mark.parametrize("drafted", [False, True])
def test_a_run_that_accepts_nothing_has_a_report(tmp_path, drafted):
  made = [x | {"accepted": [1] * len(x["accepted"])} for x in items()]
  if not drafted:
    made = [x for x in made if x["verifier"] == "plain"]
  unit(tmp_path, made)
  keep_times(tmp_path, [timed("none", "plain", [9] * 3, [1.0] * 3, [9] * 3)])
  written = report.write(tmp_path)
  titles = [table.title.partition(":")[0] for table in written.tables]
  assert titles[-2:] == ["Exact match", "Speed at batch 1"]
  if drafted:
    (table,) = [x for x in written.tables if "position" in x.title]
    assert [*table.cells.columns] == [("reached", "1"), ("conditional", "1")]
    assert (table.cells == "0.00 ± 0.00").all(axis=None)


def test_a_folder_without_answers_is_refused(tmp_path):
  with pytest.raises(ValueError, match="not a run's folder"):
    report.write(tmp_path)
  with stores.enter(tmp_path) as results:
    results.begin(1)
  with pytest.raises(ValueError, match="no answers yet to report on"):
    report.write(tmp_path)
