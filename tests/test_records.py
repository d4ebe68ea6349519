"""Lines of a store as records, and what a new axis of the grid asks for."""

import dataclasses
import json
import subprocess
import sys

import pytest

from tests import test_report
from tests.stores import ROOT, item, one_line
from tv_jax.runs import records
from tv_jax.runs.records import Answer

LINE = item(3).line


def test_a_line_is_an_answer():
  answer = Answer.of(LINE)
  assert answer == item(3)
  assert answer.line == LINE
  assert [*LINE][:8] == ["task", "question", "turn", *records.AXES]
  assert answer.key.fields.items() <= LINE.items()
  # Nobody decoded it: an answer that is not there has no numbers.
  failed = dataclasses.replace(answer, error="no")
  assert failed.line == answer.key.fields | {"error": "no"}
  assert Answer.of(failed.line).error == "no"


@pytest.mark.parametrize(
  ("change", "told"),
  [
    ({"turn": None}, "an item's turn must be a string or a number, not None"),
    ({"tree": ["chain", 5]}, r"tree must be .* not \['chain', 5\]"),
    ({"tokens": 7}, "item task qa, question 3, .* seed 0: tokens must be a li"),
    ({"right": "yes"}, "right='yes' is of a wrong type"),
    ({"expected": {"x": [1.5]}}, "expected.x has not a number for each cycle"),
    ({"drafted": [1.5]}, r"drafted\[\]=1.5 is of a wrong type"),
    ({"drafted": [6] * 99}, "drafted has not a number for each cycle"),
    ({"trace": [{}]}, r"trace\[\].parents is missing"),
    ({"error": 7}, "error=7 is of a wrong type"),
  ],
)
def test_what_is_no_answer_is_told(change, told):
  with pytest.raises(ValueError, match=told) as caught:
    Answer.of(LINE | change)
  one_line(caught)


def test_what_is_missing_is_told():
  lacking = {k: v for k, v in LINE.items() if k not in ("turn", "seed")}
  with pytest.raises(ValueError, match="without turn, seed"):
    Answer.of(lacking)
  lacking = {k: v for k, v in LINE.items() if k != "accepted"}
  with pytest.raises(ValueError, match="accepted is missing"):
    Answer.of(lacking)
  with pytest.raises(ValueError, match="must be a dict"):
    Answer.of(None)


def test_methods_in_words():
  method = item(3).method
  assert f"{method}" == "traversal on eagle, top_k, T = 1, seed 0"
  assert f"{method.undrafted}" == "plain decoding, T = 1, seed 0"
  assert method.pooled("seed") == dataclasses.replace(method, seed=None)
  assert method.pooled("seed").numbers == ["T = 1"]


# A later version: its records, in a process of their own.
LATER = """
import dataclasses, json, pathlib, sys, types
source = pathlib.Path("tv_jax/runs/records.py").read_text()
seed = "  seed: int | None = None\\n"
assert seed in source
name = "tv_jax.runs.records"
later = sys.modules[name] = types.ModuleType(name)
exec(source.replace(seed, seed + "  top_p: float = 1.0\\n"), vars(later))

from tv_jax.runs import report, store

old, new = sys.argv[1:]
unit = store.read(old)
assert {one.method.top_p for one in unit.items} == {1.0}
config = json.loads((pathlib.Path(old) / "config.json").read_text())
config["top_ps"] = [1.0, 0.9]
with store.Store(new, config, {}) as results:
  for one in unit.items:
    results.append(one)
    if not one.method.plain:
      method = dataclasses.replace(one.method, top_p=0.9)
      results.append(dataclasses.replace(one, method=method))
report.write(new)
"""


def test_an_axis_is_a_field_and_old_lines_have_its_default(tmp_path):
  old = test_report.unit(tmp_path / "old", test_report.items())
  program = [sys.executable, "-c", LATER, old, tmp_path / "new"]
  subprocess.run(program, cwd=ROOT, check=True)
  rows = test_report.rows_of(tmp_path / "new" / "cells.csv")
  assert [*rows[0]][:6] == ["task", *records.AXES[:-1], "top_p"]
  # In the config's order; plain decoding was not tried at 0.9.
  found = [row["top_p"] for row in rows if row["task"] == "all"]
  assert found == ["1.0"] * 5 + ["0.9"] * 4
  lines = (tmp_path / "new" / "table.md").read_text().splitlines()
  titles = [line for line in lines if line.startswith("### Acceptance")]
  title = "### Acceptance length by item: without_replacement, temperature 1"
  assert titles == [f"{title}, top_p 1", f"{title}, top_p 0.9"]
  names = {path.name for path in (tmp_path / "new").glob("*.svg")}
  assert "lengths-without_replacement-1-0.9.svg" in names
  page = (tmp_path / "new" / "report.html").read_text()
  assert "traversal, eagle, without_replacement, T = 1, top_p = 0.9" in page
  kept = (tmp_path / "old" / "items.jsonl").read_text().splitlines()
  assert "top_p" not in json.loads(kept[0])
