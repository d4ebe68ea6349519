"""A run's report: every file, from lines that are made by hand."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from tests import documents, test_evaluate, traces
from tv_jax import runs
from tv_jax.runs import metrics, report, store
from tv_jax.runs.records import Answer
from tv_jax.runs.report import formats, progress, tables
from tv_jax.runs.report.tables import Table

RULES = ("token_level", "traversal")


def items(trees=("chain:5", "eagle"), questions=range(1, 13), seed=0):
  """Answers of two tasks that gain some tokens; nobody decoded anything."""
  rng = np.random.default_rng(seed)
  for question in questions:
    place = {
      "task": ("qa", "mt_bench")[question % 2],
      "question": question,
      "turn": 0,
    }
    plain = {
      "tree": "none",
      "proposal": "none",
      "verifier": "plain",
      "expected": {},
      "accepted": [1] * 5,
    }
    rows = [plain]
    for tree in trees:
      for i, rule in enumerate(RULES):
        expected = rng.uniform(2, 4, 20)
        rows.append(
          {
            "tree": tree,
            "proposal": "without_replacement",
            "verifier": rule,
            "accepted": rng.poisson(expected - 1 + 0.1 * i).tolist(),
            "expected": {
              "token_level": expected.tolist(),
              "traversal": (expected + 0.1).tolist(),
            },
          }
        )
        rows[-1]["accepted"] = [1 + x for x in rows[-1]["accepted"]]
    for row in rows:
      yield {
        **place,
        "temperature": 1.0,
        "seed": 0,
        "tokens": [1, 2],
        "text": "a <b>",
        "right": bool(rng.integers(2)),
        "stops": [1],
        "faults": 0,
        **row,
      }


def unit(folder, answers, finish=True, **config):
  config = {"trees": "chain:5 eagle"} | config
  settings = test_evaluate.config(**config)
  kept = runs.to_dict(runs.from_config(settings))
  with store.Store(folder, kept, {"jax": "1"}) as results:
    for line in answers:
      results.append(Answer.of(line))
    if finish:
      results.finish()
  return folder


def failed(line, why):
  return Answer.of(line).key.fields | {"error": why}


def rows_of(path):
  with path.open() as file:
    return list(csv.DictReader(file))


def test_cells_are_the_metrics_of_the_lines(tmp_path):
  made = [*items()]
  report.write(unit(tmp_path, made))
  rows = rows_of(tmp_path / "cells.csv")
  assert len(rows) == 3 * 5  # two tasks and all of them; plain and two by two
  for row in rows:
    own = [
      item
      for item in made
      if row["task"] in ("all", item["task"])
      and all(row[k] == str(item[k]) for k in ("tree", "verifier"))
    ]
    cell = metrics.cell(map(Answer.of, own), "token_level")
    for name, found in (
      ("acceptance_by_item", cell.by_item),
      ("acceptance_by_token", cell.by_token),
      ("exact_match", cell.exact_match),
      ("expected", cell.expected),
      ("gain", cell.gain),
      ("check", cell.check),
    ):
      if found is None:
        assert row[name] == row[f"{name}_se"] == ""
        assert row[f"{name}_n"] == "0"
      else:
        assert float(row[name]) == pytest.approx(found.mean, abs=1e-6)
        assert float(row[f"{name}_se"]) == pytest.approx(found.error, abs=1e-6)
        assert int(row[f"{name}_n"]) == found.n
    assert int(row["cycles"]) == sum(len(item["accepted"]) for item in own)


def test_the_order_of_lines_changes_no_byte(tmp_path):
  made = [*items()]
  for name, lines in (("a", made), ("b", made[::-1])):
    report.write(unit(tmp_path / name / "run", lines))
  names = sorted(path.name for path in (tmp_path / "a" / "run").iterdir())
  assert len([name for name in names if name.endswith(".svg")]) == 3
  for name in names:
    if name not in ("items.jsonl", "lock"):
      first = (tmp_path / "a" / "run" / name).read_bytes()
      assert first == (tmp_path / "b" / "run" / name).read_bytes(), name


@pytest.mark.parametrize(
  ("folder", "experiment", "models", "title"),
  [
    (
      "quickstart",
      "quickstart",
      {},
      "quickstart: bundled/target with bundled/",
    ),
    ("wide", "mine & yours", {}, "mine &amp; yours, wide: bundled/target with"),
    (
      "wide",
      "x",
      {"target": "/a/b/c/8B", "draft": "meta/1B"},
      "x, wide: c/8B with meta/1B",
    ),
  ],
)
def test_the_page_says_which_run_it_is(
  tmp_path, folder, experiment, models, title
):
  made = {f"models__{name}": value for name, value in models.items()}
  place = unit(tmp_path / folder, items(), experiment=experiment, **made)
  page = report.write(place).page.read_text()
  for tag in ("title", "h1"):
    assert f"<{tag}>{title}" in page


def test_the_main_table_has_a_row_a_task_and_trees_side_by_side(
  tmp_path, capsys
):
  made = [*items()]
  made_report = report.write(unit(tmp_path, made))
  first, *rest = (tmp_path / "table.csv").read_text().splitlines()
  assert first == (
    "proposal,temperature,task,chain:5 token_level,chain:5 traversal,"
    "chain:5 Delta,eagle token_level,eagle traversal,eagle Delta"
  )
  assert [line.split(",")[2] for line in rest] == ["Multi-turn", "QA", "All"]
  cells = {rule: [] for rule in RULES}
  for item in made:
    if item["tree"] == "eagle":
      cells[item["verifier"]].append(np.mean(item["accepted"]))
  base, best = (np.mean(cells[rule]) for rule in RULES)
  assert rest[-1].endswith(f"{best / base - 1:+.1%}")
  text = (tmp_path / "table.md").read_text()
  assert "standard error over questions (ddof 1)" in text
  progress.show(made_report)
  printed = capsys.readouterr().out
  assert "By token (Spec-Bench): the mean over all cycles" in " ".join(
    printed.split()
  )
  latex = (tmp_path / "table.tex").read_text()
  assert latex.count("\\\\") == 5
  assert r"token\_level" in latex


def test_acceptance_by_position(tmp_path):
  made = [*items()]
  report.write(unit(tmp_path, made))
  rows = rows_of(tmp_path / "positions.csv")
  assert len({tuple(row.values())[:6] for row in rows}) == len(rows)
  for row in rows:
    lengths = [
      (gained, item["question"])
      for item in made
      for gained in item["accepted"]
      if row["task"] in ("all", item["task"])
      and all(row[k] == str(item[k]) for k in ("tree", "verifier"))
    ]
    d = int(row["position"])
    here, above = (
      [question for gained, question in lengths if gained > depth]
      for depth in (d, d - 1)
    )
    assert float(row["reached"]) == pytest.approx(
      len(here) / len(lengths), abs=1e-6
    )
    assert float(row["conditional"]) == pytest.approx(
      len(here) / len(above), abs=1e-6
    )
    assert row["reached_n"] == row["conditional_n"]
    deepest = max(gained for gained, _ in lengths) - 1
    assert 1 <= d <= deepest
  assert {row["verifier"] for row in rows} == {*RULES}
  # The lengths are what the shares add up to.
  cells = {
    (row["tree"], row["verifier"]): float(row["acceptance_by_token"])
    for row in rows_of(tmp_path / "cells.csv")
    if row["task"] == "all" and row["tree"] != "none"
  }
  for (tree, rule), length in cells.items():
    shares = [
      float(row["reached"])
      for row in rows
      if (row["task"], row["tree"], row["verifier"]) == ("all", tree, rule)
    ]
    assert 1 + sum(shares) == pytest.approx(length, abs=1e-4)
  text = (tmp_path / "table.md").read_text()
  assert "### By position: without_replacement, temperature 1" in text
  assert "| reached 1 " in text
  assert "1 + accepted / drafts" in text


def test_the_page_of_definitions_has_every_column(tmp_path):
  report.write(unit(tmp_path, items()))
  text = (documents.DOCS / "definitions.md").read_text()
  named = set(re.findall(r"`(\w+)`", text))
  (columns,) = {tuple(row) for row in rows_of(tmp_path / "positions.csv")}
  lengths = {"acceptance_by_item", "acceptance_by_token", "drafted"}
  assert lengths < {*rows_of(tmp_path / "cells.csv")[0]}
  shares = {"position", "reached", "conditional"}
  assert shares < {*columns}
  assert lengths | shares <= named
  for system in ("paper", "Spec-Bench", "EAGLE", "vLLM", "SGLang", "llama.cpp"):
    assert f"| {system}" in text or f"| the {system}" in text


def drafted(items, sizes):
  """The items, with so many nodes in the cycles of each drafted answer."""
  sizes = iter(sizes)
  for item in items:
    if item["tree"] != "none":
      item["drafted"] = [next(sizes)] * len(item["accepted"])
    yield item


def test_drafted_nodes_are_in_the_tables_if_all_are_known(tmp_path):
  made = [*drafted(items(("chain:5",), range(1, 3)), (4, 5, 6, 5))]
  folder = unit(tmp_path / "new", made, trees="chain:5")
  cells = tables.cells(store.read(folder).items, store.read(folder).config)
  found = {one.verifier: cell.drafted for one, cell in cells["all"].items()}
  assert found["plain"] is None
  assert (found["token_level"].mean, found["traversal"].mean) == (5, 5)
  assert (found["token_level"].n, found["traversal"].error) == (2, 0)
  assert found["token_level"].error > 0
  report.write(folder)
  (row,) = (
    row
    for row in rows_of(folder / "cells.csv")
    if (row["task"], row["verifier"]) == ("all", "traversal")
  )
  assert (row["drafted"], row["drafted_n"]) == ("5.0", "2")
  text = (folder / "table.md").read_text()
  assert "5.0 ± 1.0" in text
  # An older version kept none of some: a mean of the others is not theirs.
  del made[1]["drafted"]
  folder = unit(tmp_path / "old", made, trees="chain:5")
  cells = tables.cells(store.read(folder).items, store.read(folder).config)
  found = {one.verifier: cell.drafted for one, cell in cells["all"].items()}
  assert found["token_level"] is None
  assert found["traversal"].mean == 5
  report.write(folder)
  assert "5.0 ± 1.0" not in (folder / "table.md").read_text()


def test_an_unfinished_run_says_so_everywhere(tmp_path):
  made = report.write(unit(tmp_path, [*items()][:30], finish=False))
  assert not made.complete
  for name in ("table.md", "report.html"):
    assert "THE RUN IS NOT FINISHED" in (tmp_path / name).read_text()


def test_a_wrong_check_is_loud(tmp_path):
  made = [*items()]
  for item in made:
    if (item["tree"], item["verifier"]) == ("eagle", "traversal"):
      item["accepted"] = [x + 1 for x in item["accepted"]]
  found = report.write(unit(tmp_path, made))
  (line,) = found.warnings
  assert line.startswith("CHECK FAILED: traversal on eagle: realised")
  assert line in (tmp_path / "report.html").read_text().replace("&#x27;", "'")


def test_failures_and_nans_are_loud(tmp_path):
  made = [*items()]
  made[3]["faults"] = 2
  made[8] = failed(made[8], "the prompt is too long")
  lines = report.write(unit(tmp_path, made)).warnings
  assert "1 ANSWERS FAILED, the first one because: the prompt is" in lines[0]
  assert "FAULTS IN 2 CYCLES" in lines[1]


def test_a_run_of_which_all_failed_has_a_report(tmp_path):
  report.write(unit(tmp_path, [failed(item, "no") for item in items()]))
  rows = rows_of(tmp_path / "cells.csv")
  assert all(row["acceptance_by_item"] == "" for row in rows)
  assert "nan" not in (tmp_path / "table.md").read_text()


def test_a_folder_without_answers_has_no_report(tmp_path):
  unit(tmp_path, [], finish=False)
  with pytest.raises(ValueError, match="no answers yet to report on"):
    report.write(tmp_path)


def test_several_ways_have_a_table_and_plots_each(tmp_path):
  cold = [item | {"temperature": 0.5} for item in items(seed=1)]
  report.write(unit(tmp_path, [*items(), *cold], temperatures=(0.5, 1.0)))
  titles = re.findall("### (Acc.*)", (tmp_path / "table.md").read_text())
  assert titles == [
    "Acceptance length by item: without_replacement, temperature 0.5",
    "Acceptance length by item: without_replacement, temperature 1",
  ]
  assert len([*tmp_path.glob("*.svg")]) == 6


def test_the_page_holds_the_traces(tmp_path):
  made = [*items()]
  cycles = traces.trace("eagle", verifier="traversal")["cycles"]
  for item in made:
    if item["tree"] == "eagle" and item["question"] == 1:
      item["trace"], item["prompt"] = cycles, "What?"
  report.write(unit(tmp_path, made))
  page = (tmp_path / "report.html").read_text()
  (embedded,) = re.findall(
    '<script type="application/json" id="explorer-data">(.*?)</script>', page
  )
  data = json.loads(embedded)
  first = data["traces"][0]
  assert (first["tree"], first["verifier"]) == ("eagle", "traversal")
  assert first["cycles"] == json.loads(json.dumps(cycles))
  shown = Answer.of(made[0]).key.fields
  assert [*first] == [*shown, "prompt", "cycles"]


def test_the_report_as_a_command(tmp_path):
  unit(tmp_path / "run", items())
  command = [sys.executable, "-m", "tv_jax.report"]
  done = subprocess.run(
    [*command, tmp_path / "run"], capture_output=True, text=True, check=True
  )
  assert done.stdout == f"{tmp_path / 'run' / 'report.html'}\n"
  for arguments in ([tmp_path], []):
    failed = subprocess.run(
      [*command, *arguments], capture_output=True, text=True, check=False
    )
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1


def test_a_narrow_terminal_gets_a_table_a_tree():
  table = Table(
    "T", [("", 1), ("a", 1), ("b", 1)], ["task", "x", "y"], [["QA", "1", "2"]]
  )
  assert len(formats.terminal(table, 80)) == 1
  first, second = formats.terminal(table, 10)
  assert [column.header for column in first.columns] == ["task", "x"]
  assert second.title == "T; b"


def test_what_latex_reads_as_commands_is_escaped():
  table = Table("t", [], ["a_b", "c"], [["50%", r"\x {1} & $"]])
  line = formats.latex(table).splitlines()[5]
  assert line == r"50\% & \textbackslash{}x \{1\} \& \$ \\"
