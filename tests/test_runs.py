"""Folders in every state, and names of every kind: a report, or one line."""

import copy
import csv
import json
import re

import markdown_it
import pytest

from tests import test_report
from tv_jax.runs import report, store
from tv_jax.runs.report import fragments, progress

CYCLE = {
  "cycle": 0,
  "parents": [-1, 0],
  "pieces": [" the", " fox"],
  **{name: [None, 0.5] for name in ("p", "q", "drawn")},
  "coins": [0.1, 0.9],
  "stop": {"traversal": [0.5, 0.5]},
  "direction": {"traversal": "up"},
  "walks": {"traversal": {"node": 0, "steps": [[1, 0.5]]}},
  "node": 0,
  "bonus": ".",
}


def whole(folder):
  """A finished run with traces and times."""
  made = [*test_report.items(questions=[1])]
  for item in made:
    if item["tree"] == "eagle":
      item["trace"], item["prompt"] = [CYCLE], "What?"
  test_report.unit(folder, made)
  own = [9, 9, 9], [0.5, 0.5, 0.5], [3, 3, 3]
  test_report.keep_times(
    folder, [test_report.timed("eagle", "traversal", *own)]
  )
  return folder


def test_all_that_a_report_reads_may_be_missing(tmp_path):
  """Each field of each file."""
  folder = whole(tmp_path)
  told = []
  for name in ("config.json", "env.json", "timing.json"):
    path = folder / name
    value = json.loads(path.read_text())
    for broken in without_one(value):
      path.write_text(json.dumps(broken))
      told += refusal(folder)
    path.write_text(json.dumps(value))
  path = folder / "items.jsonl"
  lines = path.read_text().splitlines()
  traced = next(i for i, line in enumerate(lines) if '"trace"' in line)
  for number in (0, traced):
    for broken in without_one(json.loads(lines[number])):
      changed = [*lines]
      changed[number] = json.dumps(broken)
      path.write_text("\n".join(changed) + "\n")
      told += refusal(folder)
  path.write_text("\n".join(lines) + "\n")
  assert {line.count("\n") for line in told} == {0}
  told = " ".join(told)
  for part in (
    "config.json: baseline is missing",
    "timing.json: methods.seconds is missing",
    "items.jsonl, line 1: item task mt_bench, question 1, turn 0, tree none",
    "accepted is missing",
    "trace.stop is missing",
  ):
    assert part in told


def without_one(value):
  """The value without each of its fields, or with another kind of value."""
  if isinstance(value, dict):
    for name in value:
      less = copy.copy(value)
      del less[name]
      yield less
      yield value | {name: object.__name__}
      for inner in without_one(value[name]):
        yield value | {name: inner}
  elif isinstance(value, list) and value:
    yield value[1:]
    if isinstance(value[0], dict | list):
      for inner in without_one(value[0]):
        yield [inner, *value[1:]]


def refusal(folder):
  """What is said of a folder, if anything."""
  try:
    store.read(folder)
  except ValueError as error:
    return [str(error)]
  return []


NAMES = (
  "a|b",
  "=1+1",
  "-2+3",
  "line\nbreak",
  "[/red]",
  "<script>",
  "$x_1$ ^~\\",
  "half \ud800",
  "**b** *i* __b__ _i_ ~~s~~",
  "`code` ``a|b``",
  r"a\|b \\| \*i\*",
  "[a](javascript:x) ![b](//c) [d] [^1]",
  "<javascript:x> <a@b.c> &lt;&#60;",
  "https://a.b www.a.b me@a.b ftp://a",
  "# h ## ",
  "1. one",
  "- three",
  "---",
  ":-:",
  "> five",
  "a\u2028\x1b[1m",
)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
  """A run whose categories are whatever a file may call them."""
  folder = tmp_path_factory.mktemp("named")
  made = [
    item | {"task": name, "question": number}
    for number, name in enumerate(NAMES)
    for item in test_report.items(trees=("eagle",), questions=[1])
  ]
  test_report.unit(folder, made)
  progress.show(report.write(folder))  # on a terminal, too
  return folder


def test_tables_have_as_many_cells_whatever_they_hold(named):
  text = (named / "table.md").read_text()
  lengths = text[text.index("### Acceptance length by item") :]
  rows = [line for line in lengths.splitlines() if line.startswith("|")]
  tasks = rows[2 : 2 + len(NAMES)]
  assert {len(re.split(r"(?<!\\)\|", row)) for row in tasks} == {6}
  found = texts(text[text.index("\n###") : text.index("### Definitions")])
  assert {fragments.plain(name).strip() for name in NAMES} <= {*found}
  lines = (named / "table.tex").read_text().splitlines()
  rows = [line for line in lines if line.endswith(r" \\")]
  # The paired gains, then groups, names, and all of them.
  assert len(rows) == 3 + 3 + len(NAMES)
  escaped = r"\$x\_1\$ \textasciicircum{}\textasciitilde{}\textbackslash{}"
  assert escaped in "\n".join(rows)


def texts(markdown):
  """The texts of headings, cells and paragraphs, in order; nothing else is in.

  As Markdown for the web has it: tables, HTML, what is struck out.
  """
  parser = markdown_it.MarkdownIt("commonmark").enable(
    ["table", "strikethrough"]
  )
  found = []
  for block in parser.parse(markdown):
    if block.type == "inline":
      kinds = {piece.type for piece in block.children}
      assert kinds <= {"text"}, (block.content, kinds)
      found.append("".join(piece.content for piece in block.children))
    else:
      assert re.match(
        "(table|thead|tbody|t[rhd]|heading|paragraph)_", block.type
      ), block
  return found


def test_a_spreadsheet_computes_nothing(named):
  with (named / "cells.csv").open() as file:
    tasks = {row["task"] for row in csv.DictReader(file)}
  quoted = {"'=1+1", "'-2+3"}
  assert quoted < tasks
  assert {r"line\nbreak", r"half \ud800", "a|b", "all"} < tasks
  for name in ("table.csv", "cells.csv"):
    for line in csv.reader((named / name).read_text().splitlines()):
      assert not [cell for cell in line if re.match(r"[=@]|-\d\+", cell)]
