"""The parts of a report: tables in four forms, figures, and the page."""

import html.parser
import re
import xml.etree.ElementTree as ET

import markdown_it
import numpy as np
import pandas as pd

from experiments.figures import lines
from tv_jax.runs import tables
from tv_jax.runs.report import figures
from tv_jax.runs.report.page import render
from tv_jax.runs.tables import Table

NAMES = (
  "a|b",
  "<script>",
  "$x_1$ ^~\\",
  "**b** *i* __b__ _i_ ~~s~~",
  "`code` ``a|b``",
  "[a](javascript:x) ![b](//c)",
  "&lt;&#60;",
)
HOSTILE = "</script><script>x()</script> \"'<b>& \\1 ü狐\n\t\u2028-->"


def named():
  columns = pd.MultiIndex.from_product([["a_b"], ["length", "gain"]])
  rows = [["1.5 ± 0.1", tables.NOTHING] for _ in NAMES]
  cells = pd.DataFrame(rows, pd.Index(NAMES, name="task"), columns)
  return Table("Names: <b>", cells, ("*A* note",))


def test_a_markdown_table_holds_its_texts_and_no_markup():
  parser = markdown_it.MarkdownIt("commonmark").enable(
    ["table", "strikethrough"]
  )
  found = []
  for block in parser.parse(named().markdown()):
    if block.type == "inline":
      kinds = {piece.type for piece in block.children}
      assert kinds <= {"text"}, (block.content, kinds)
      found.append("".join(piece.content for piece in block.children))
  texts = ["Names: <b>", "task", "a_b length", "a_b gain"]
  for name, *row in named().cells.itertuples():
    texts += [name, *row]
  assert found == [*texts, "*A* note"]


def test_a_latex_table_has_as_many_cells():
  lines = named().latex().splitlines()
  rows = [line for line in lines if line.endswith(r" \\")]
  assert len(rows) == 2 + len(NAMES)
  assert {len(re.findall(r"(?<!\\)&", row)) for row in rows[1:]} == {2}
  escaped = r"\$x\_1\$ \textasciicircum \textasciitilde \textbackslash"
  assert escaped in "\n".join(rows)


def test_a_wide_table_continues_below(capsys):
  columns = pd.MultiIndex.from_product(
    [["a", "b"], [f"{'c' * 25}{i}" for i in range(3)]]
  )
  wide = Table("Wide", pd.DataFrame([[*"123456"]], ["[/red]"], columns))
  tables.Report(tables=[wide]).print()
  printed = capsys.readouterr().out
  assert printed.count("[/red]") == 2
  assert max(map(len, printed.splitlines())) <= 150


class Reader(html.parser.HTMLParser):
  """Collects tags, attributes and texts, as a browser sees them."""

  def __init__(self, text):
    super().__init__()
    self.tags, self.attributes, self.text = [], [], []
    self.feed(text)
    self.close()

  def handle_starttag(self, tag, attrs):
    self.tags.append(tag)
    self.attributes += attrs

  def handle_data(self, data):
    self.text.append(data)


def whole_page(word="plain"):
  names = "task", "tree", "proposal", "verifier", "prompt"
  cycle = {"pieces": [None, word], "stop": {"traversal": [0.5, 0.5]}}
  trace = dict.fromkeys(names, word) | {"question": 1, "turn": 0, "seed": 0}
  cells = pd.DataFrame({"b": ["1"]}, pd.Index([word], name="a"))
  index = pd.MultiIndex.from_tuples([("chain:5", word)])
  gain = pd.DataFrame([(1.0, 0.1, 3)], index, ["mean", "error", "n"])
  trace |= {"temperature": 1.0, "cycles": [cycle]}
  return render(
    title=word,
    warnings=[word],
    result=word,
    figure=figures.forest({word: gain}, word),
    caption=word,
    lead=word,
    tables=[Table(word, cells, (word,))],
    traces=[trace],
    definitions=[word],
    settings=[(word, {word: {word: word}})],
  )


def test_text_is_text_whatever_it_is():
  tame, hostile = Reader(whole_page()), Reader(whole_page(HOSTILE))
  assert hostile.tags == tame.tags
  names = [name for name, _ in tame.attributes]
  assert [name for name, _ in hostile.attributes] == names
  assert sum(HOSTILE in text for text in hostile.text) >= 11


def test_a_page_needs_nothing_else_and_its_links_lead_somewhere():
  text = whole_page()
  found = Reader(text).attributes
  ids = {value for name, value in found if name == "id"}
  for name, value in found:
    if name == "href":
      assert value[1:] in ids
    assert name != "src"
  assert "@import" not in text


def test_a_figure_is_the_same_to_the_byte():
  """Settings of matplotlib do not change it."""
  import matplotlib

  index = pd.MultiIndex.from_tuples(
    [("traversal, <b>", 4.0), ("traversal, <b>", 62.0), ("b", 4.0)]
  )
  panel = pd.DataFrame({"mean": [1.5, 3, 2], "error": [0.5, np.nan, 1]}, index)
  panels = {"$x_1$": panel, "two": panel.iloc[:1]}
  svg = lines(panels, x="nodes", y="tokens", zero=True)
  with matplotlib.rc_context({"font.size": 30, "axes.grid": True}):
    assert lines(panels, x="nodes", y="tokens", zero=True) == svg
  texts = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
  wanted = {"$x_1$", "two", "traversal, <b>", "b", "4", "62", "nodes", "tokens"}
  assert wanted <= {text.text for text in texts}
  # A dark page has a lighter colour for each that it shows.
  shown = {*re.findall("(?:fill|stroke): (#......);", svg)} - {"#000000"}
  assert shown <= {*re.findall('[*]="(?:fill|stroke): (#......)"', svg)}
