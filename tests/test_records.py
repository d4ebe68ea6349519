"""Lines of a store as records, and what a new axis of the grid asks for."""

import dataclasses
import re
import subprocess
import sys

import pytest

from tests import test_report
from tests.stores import ROOT, item
from tv_jax.runs import records
from tv_jax.runs.records import Answer

LINE = item(3).line


def test_a_line_is_an_answer():
  answer = Answer.of(LINE)
  assert answer == item(3)
  assert answer.line == LINE
  # Nobody decoded it: an answer that is not there has no numbers.
  failed = dataclasses.replace(answer, error="no")
  assert failed.line == answer.key.fields | {"error": "no"}
  assert Answer.of(failed.line).error == "no"


def without(*names):
  return {k: v for k, v in LINE.items() if k not in names}


@pytest.mark.parametrize(
  ("line", "told"),
  [
    ({}, "task, question, turn, tree, proposal, verifier, .* missing"),
    (without("accepted"), "question 3, .* seed 0: accepted missing"),
  ],
)
def test_what_is_no_answer_is_told(line, told):
  with pytest.raises(ValueError, match=told):
    Answer.of(line)


# A version with one more axis: its records, in a process of their own.
LATER = """
import dataclasses, json, pathlib, sys, types
source = pathlib.Path("tv_jax/runs/records.py").read_text()
seed = "  seed: int | None = None\\n"
assert seed in source
name = "tv_jax.runs.records"
later = sys.modules[name] = types.ModuleType(name)
source = source.replace(seed, seed + "  top_p: float | None = None\\n")
exec(source, vars(later))

from tv_jax.runs import report, store

old, new = map(pathlib.Path, sys.argv[1:])
text = (old / "items.jsonl").read_text()
lines = [json.loads(one) for one in text.split("\\n")[:-1]]
config = json.loads((old / "config.json").read_text())
config["top_ps"] = [1.0, 0.9]
with store.Store(new, config, {}) as results:
  for line in lines:
    for top_p in (1.0, 0.9)[: 1 if line["tree"] == "none" else 2]:
      results.append(later.Answer.of(line | {"top_p": top_p}))
report.write(new)
"""


def test_an_axis_is_a_field(tmp_path):
  old = test_report.unit(tmp_path / "old", test_report.items())
  program = [sys.executable, "-c", LATER, old, tmp_path / "new"]
  subprocess.run(program, cwd=ROOT, check=True)
  rows = test_report.rows_of(tmp_path / "new" / "cells.csv")
  assert [*rows[0]][:6] == ["task", *records.AXES[:-1], "top_p"]
  # In the config's order; plain decoding was not tried at 0.9.
  found = [row["top_p"] for row in rows if row["task"] == "all"]
  assert found == ["1.0"] * 5 + ["0.9"] * 4
  text = (tmp_path / "new" / "table.md").read_text()
  titles = re.findall(r"### Acceptance .* temperature 1, top_p ([\d.]+)", text)
  assert titles == ["1", "0.9"]
  page = (tmp_path / "new" / "report.html").read_text()
  assert "traversal, eagle, without_replacement, T = 1, top_p = 0.9" in page
