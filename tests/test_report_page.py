"""The pieces of a page: its HTML, its plots, and the page as a whole."""

import html.parser
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from tests import quick, traces
from tests.stores import ROOT
from tv_jax.runs.report import fragments, plots
from tv_jax.runs.report.page import Section, explorer, render

HOSTILE = "</script><script>x()</script> \"'<b>& \\1 ü狐\n\t\0\u2028-->"
NAMESPACE = "http://www.w3.org/2000/svg"
PLOTS = [
  plots.acceptance_by_task,
  plots.length_histograms,
  plots.acceptance_by_depth,
]
every_plot = pytest.mark.parametrize("plot", PLOTS, ids=lambda x: x.__name__)


class Reader(html.parser.HTMLParser):
  """What a browser would make of it: tags, attributes and text."""

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
  figures = [
    fragments.figure(plot(traces.items()), word, name=f"figure-{i}")
    for i, plot in enumerate(PLOTS[1:])
  ]
  trace = traces.trace("chain:2", cycles=2)
  trace |= {"prompt": word, "task": word}
  trace["cycles"][0]["pieces"][1] = word
  table = fragments.table(["a", "b", "c"], [[word, word, "1"]], caption=word)
  settings = fragments.definitions({word: word}, caption=word)
  return render(
    title=word,
    lead=[word],
    figures=[(word, word)],
    sections=[
      Section("tables", word, table),
      Section("plots", "Plots", "".join(figures)),
      Section("trees", "Trees", explorer([trace])),
      Section("setup", "Setup", settings),
    ],
  )


def test_text_is_text_whatever_it_is():
  tame, hostile = Reader(whole_page()), Reader(whole_page(HOSTILE))
  assert hostile.tags == tame.tags
  names = [name for name, _ in tame.attributes]
  assert [name for name, _ in hostile.attributes] == names
  shown = HOSTILE.replace("\0", "\ufffd")
  assert sum(shown in text for text in hostile.text) >= 9
  whole_page("\ud800").encode()  # half a character


def test_a_page_needs_nothing_else_and_its_links_lead_somewhere():
  text = whole_page()
  assert text == whole_page()
  assert "http" not in text.replace(NAMESPACE, "").replace("http-equiv", "")
  assert not re.search(r"@import|url\((?!#)", text)
  found = Reader(text).attributes
  for name, value in found:
    if name in ("src", "href", "xlink:href", "action", "data"):
      assert value.startswith("#")
  own = [value for name, value in found if name == "id"]
  assert len(own) == len(set(own))
  links = [value for name, value in found if name in ("href", "xlink:href")]
  links += re.findall(r"url\((#[^)]*)\)", text)
  assert len(links) > 20
  assert {link[1:] for link in links} <= set(own)


def texts(svg):
  """All text of a file, which must be sound XML."""
  found = ET.fromstring(svg.encode()).iter(f"{{{NAMESPACE}}}text")
  return {own.text for own in found}


@pytest.mark.parametrize(
  "plot", quick.shorter(PLOTS), ids=lambda plot: plot.__name__
)
def test_a_plot_is_the_same_to_the_byte(plot):
  """Of answers in any order, in another process, whatever a user has set."""
  import matplotlib

  items = traces.items()
  svg = plot(items)
  with matplotlib.rc_context({"font.size": 30, "axes.grid": True}):
    assert plot(items[::-1]) == svg
  code = (
    "import sys; from tests import traces;"
    "from tv_jax.runs.report import plots;"
    "assert 'matplotlib' not in sys.modules;"
    f"sys.stdout.write(plots.{plot.__name__}(traces.items()));"
    "assert 'matplotlib.pyplot' not in sys.modules"
  )
  other = subprocess.run(
    [sys.executable, "-c", code],
    env=os.environ | {"PYTHONHASHSEED": "7"},
    cwd=pathlib.Path(ROOT),
    capture_output=True,
    text=True,
    check=True,
  )
  assert other.stdout == svg


@every_plot
@pytest.mark.parametrize(
  "grid",
  [
    {"questions": 1, "cycles": 1, "tasks": ("$x_1$", "<b>&")},
    {"verifiers": ("a", "b", "c", "d", "traversal", "token_level", "block")},
  ],
  ids=str,
)
def test_any_grid_is_drawn(plot, grid):
  said = texts(plot(traces.items(**grid)))
  wanted = {
    "trees": ("chain:5", "eagle"),
    "verifiers": ("token_level", "traversal"),
    "tasks": ("qa", "translation"),
  } | grid
  shown = ("trees", "verifiers") + ("tasks",) * (plot is PLOTS[0])
  assert {one for name in shown for one in wanted[name]} <= said
  assert not {"plain", "none"} & said
