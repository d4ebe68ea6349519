"""Folders in every state, and names of every kind: a report, or one line."""

import copy
import csv
import json
import re

import markdown_it
import pytest

from tests import test_report
from tests.stores import one_line
from tv_jax.runs import report, store
from tv_jax.runs.report import formats, fragments, progress
from tv_jax.runs.report.tables import Table


def timing():
  method = {
    "tree": "eagle",
    "proposal": "without_replacement",
    "verifier": "traversal",
    "temperature": 1.0,
    "questions": [1],
    "tasks": ["qa"],
    "seconds": [0.5],
    "tokens": [12],
    "cycles": [3],
    "compile_seconds": 1.0,
    "stages": None,
  }
  return {"environment": {}, "methods": [method]}


CYCLE = {
  "cycle": 0,
  "parents": [-1, 0],
  "pieces": [" the", " fox"],
  **{name: [None, 0.5] for name in ("p", "q", "drawn")},
  "coins": [0.1, 0.9],
  "stop": {"traversal": [0.5, 0.5]},
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
  (folder / "timing.json").write_text(json.dumps(timing()))
  return folder


@pytest.mark.parametrize("count", [1, 3, 4])
def test_every_beginning_of_a_run_has_a_report(tmp_path, count, capsys):
  """The first answers are plain; then a tree has a rule or two."""
  made = sorted(
    test_report.items(questions=range(1, 3)),
    key=lambda item: (item["verifier"] != "plain", item["tree"]),
  )
  folder = test_report.unit(tmp_path, made[:count], finish=False)
  found = report.write(folder)
  progress.show(found)
  assert f"{count} answers are there" in found.warnings[0]
  header = (folder / "table.csv").read_text().splitlines()[0]
  assert header.startswith("proposal,temperature,task")
  assert "report.html" in capsys.readouterr().out


def test_all_that_a_report_reads_may_be_missing(tmp_path):
  """Each field of each file; and of what may be missing, all of it at once."""
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
    "config.json: models.target is missing",
    "timing.json: methods.seconds is missing",
    "timing.json: traversal on eagle has other numbers of times",
    "items.jsonl, line 1: item task mt_bench, question 1, turn 0, tree none",
    "accepted is missing",
    "expected.token_level: give a number for each cycle",
    "trace.stop is missing",
  ):
    assert part in told
  for name in ("config.json", "env.json", "timing.json"):
    leave_out_the_rest(folder, name)
  report.write(folder)


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


def leave_out_the_rest(folder, name):
  """Takes every field that nobody asks for out of a file."""
  path = folder / name
  value = json.loads(path.read_text())
  rows = value if isinstance(value, list) else [value]
  for row in rows:
    for field in [*row]:
      kept = row.pop(field)
      path.write_text(json.dumps(value))
      if refusal(folder):
        row[field] = kept
  path.write_text(json.dumps(value))


def test_an_answer_on_another_tree_is_named(tmp_path):
  other = next(test_report.items()) | {"tree": "grown:9", "verifier": "block"}
  test_report.unit(tmp_path, [other])
  with pytest.raises(ValueError, match="tree='grown:9' is none") as error:
    report.write(tmp_path)
  one_line(error)


NAMES = (
  "a|b",
  "=1+1",
  "@SUM(A1)",
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
  "2) two",
  "- three",
  "+ four",
  "---",
  "===",
  ":-:",
  "> five",
  "*six",
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
  rows = [line for line in text.splitlines() if line.startswith("|")]
  tasks = rows[2 : 2 + len(NAMES)]
  assert {len(re.split(r"(?<!\\)\|", row)) for row in tasks} == {6}
  assert r"line\\nbreak" in text
  assert "<script>" not in text
  # Every category has its name over its exact matches.
  (header,) = re.findall("### Exact match\n\n(.*)", text)
  assert r"a\|b" in header
  assert header.count(" All ") == 1
  found = texts(text[text.index("\n###") : text.index("### Definitions")])
  assert {fragments.plain(name).strip() for name in NAMES} <= {*found}
  lines = (named / "table.tex").read_text().splitlines()
  rows = [line for line in lines if line.endswith(r" \\")]
  assert len(rows) == 3 + len(NAMES)  # groups, names, and all of them
  text = "\n".join(rows)
  assert r"\$x\_1\$ \textasciicircum{}\textasciitilde{}\textbackslash{}" in text
  assert "{[}/red]" in text
  assert r"line\textbackslash{}nbreak" in text


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


def test_markdown_shows_any_text_as_it_is():
  for name in NAMES:
    rows = [[name, "1"], ["y", name]]
    table = Table(name, [], ["x", name], rows, (name, "z"))
    found, shown = texts(formats.markdown(table)), fragments.plain(name).strip()
    assert {*found} <= {shown, "x", "y", "z", "1"}
    assert found.count(shown) == 5


def test_a_spreadsheet_computes_nothing(named):
  with (named / "cells.csv").open() as file:
    tasks = {row["task"] for row in csv.DictReader(file)}
  quoted = {"'=1+1", "'@SUM(A1)", "'-2+3"}
  assert quoted < tasks
  assert {r"line\nbreak", r"half \ud800", "a|b", "all"} < tasks
  for name in ("table.csv", "cells.csv"):
    for line in csv.reader((named / name).read_text().splitlines()):
      assert not [cell for cell in line if re.match(r"[=@]|-\d\+", cell)]


def test_no_text_is_a_formula():
  for sign in "=+-@\uff1d\uff0b\uff0d\uff20":
    text = f"{sign}cmd|' /C calc'!A0"
    assert formats.comma_separated([text], []) == f"'{text}\n"


def test_numbers_of_tables_stay_numbers():
  rows = [["+1.5%", "-0.02 ± 0.01", "+0.03 ± ?", -1.5, None, "\u2013", "1.2x"]]
  text = formats.comma_separated(["a"], rows)
  assert text == "a\n+1.5%,-0.02 ± 0.01,+0.03 ± ?,-1.5,,\u2013,1.2x\n"


@pytest.mark.parametrize("begin", "*[")
def test_a_row_of_latex_takes_nothing_from_the_line_before(begin):
  table = Table("t", [], ["x", "y"], [["a", "1"], [f"{begin}2pt]", "2"]])
  row = formats.latex(table).splitlines()[6]
  assert row == f"{{{begin}}}2pt] & 2 \\\\"


def test_a_title_is_one_line():
  table = Table("a\nb|c", [], ["x"], [["1"]])
  assert formats.markdown(table).startswith("### a\\\\nb\\|c\n")
  assert formats.latex(table).startswith("% a\\nb|c\n")


def test_a_category_that_is_called_all_is_counted_once(tmp_path):
  made = [item | {"task": "all"} for item in test_report.items()]
  report.write(test_report.unit(tmp_path, made))
  with (tmp_path / "cells.csv").open() as file:
    rows = [*csv.DictReader(file)]
  assert len(rows) == 5
  assert [int(row["cycles"]) for row in rows] == [60, 240, 240, 240, 240]


def test_a_folder_without_a_config_is_one_line(tmp_path):
  for text in ("[]", "{}", "{", '{"trees": 1}'):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match="config") as error:
      report.write(tmp_path)
    one_line(error)
