"""The parts of a report: tables in four forms, figures, and the page."""

import html.parser
import re
import xml.etree.ElementTree as ET

import markdown_it

from experiments import figures
from tv_jax.engine.results import Estimate
from tv_jax.io import tables
from tv_jax.io.tables import Table
from tv_jax.runs.report.forest import Forest, Mark
from tv_jax.runs.report.page import render

NAMES = (
  "a|b",
  "line\nbreak",
  "[/red]",
  "<script>",
  "$x_1$ ^~\\",
  "half \ud800",
  "**b** *i* __b__ _i_ ~~s~~",
  "`code` ``a|b``",
  "[a](javascript:x) ![b](//c)",
  "&lt;&#60;",
  "a\u2028\x1b[1m",
)
HOSTILE = "</script><script>x()</script> \"'<b>& \\1 ü狐\n\t\u2028-->"


def named():
  rows = [[name, "1.5 ± 0.1", tables.NOTHING] for name in NAMES]
  header = ["task", "length", "gain"]
  return Table("Names: <b>", [("", 1), ("a_b", 2)], header, rows, ("*A* note",))


def test_a_markdown_table_holds_its_texts_and_no_markup():
  parser = markdown_it.MarkdownIt("commonmark").enable(
    ["table", "strikethrough"]
  )
  found = []
  for block in parser.parse(tables.markdown(named())):
    if block.type == "inline":
      kinds = {piece.type for piece in block.children}
      assert kinds <= {"text"}, (block.content, kinds)
      found.append("".join(piece.content for piece in block.children))
  texts = ["Names: <b>", "task", "a_b length", "a_b gain"]
  for row in named().rows:
    texts += [tables.plain(row[0]), *row[1:]]
  assert found == [*texts, "*A* note"]


def test_a_latex_table_has_as_many_cells():
  lines = tables.latex(named()).splitlines()
  rows = [line for line in lines if line.endswith(r" \\")]
  assert len(rows) == 2 + len(NAMES)
  assert {len(re.findall(r"(?<!\\)&", row)) for row in rows[1:]} == {2}
  escaped = r"\$x\_1\$ \textasciicircum{}\textasciitilde{}\textbackslash{}"
  assert escaped in "\n".join(rows)


def test_a_wide_table_is_printed_group_by_group(capsys):
  groups = [("", 1), ("a", 3), ("b", 3)]
  header = ["task", *(f"{'c' * 25}{i}" for i in range(6))]
  tables.show([Table("Wide", groups, header, [["[/red]", *"123456"]])])
  printed = capsys.readouterr().out
  assert re.findall(r"Wide; \w", printed) == ["Wide; a", "Wide; b"]
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


PLOT = Forest(
  "Gains", [Mark("chain", "+2 %", "#000", 9, 8, 10, 18)], [(4, "0")], 36
)


def whole_page(word="plain"):
  names = "task", "tree", "proposal", "verifier", "prompt"
  cycle = {"pieces": [None, word], "stop": {"traversal": [0.5, 0.5]}}
  trace = dict.fromkeys(names, word) | {"question": 1, "turn": 0, "seed": 0}
  trace |= {"temperature": 1.0, "cycles": [cycle]}
  return render(
    title=word,
    warnings=[word],
    result=word,
    plots=[
      PLOT._replace(title=word, marks=[PLOT.marks[0]._replace(name=word)])
    ],
    lead=word,
    tables=[Table(word, [], ["a", "b"], [[word, "1"]], (word,))],
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

  values = {4.0: Estimate.of([1, 2]), 62.0: Estimate.of([3])}
  panels = {"$x_1$": {"traversal, <b>": values, "b": {}}, "two": {"b": values}}
  svg = figures.lines(panels, x="nodes", y="tokens", zero=True)
  with matplotlib.rc_context({"font.size": 30, "axes.grid": True}):
    assert figures.lines(panels, x="nodes", y="tokens", zero=True) == svg
  texts = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
  wanted = {"$x_1$", "two", "traversal, <b>", "b", "4", "62", "nodes", "tokens"}
  assert wanted <= {text.text for text in texts}
