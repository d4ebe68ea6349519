import html.parser
import json
import pathlib
import re
import zipfile

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests import traces
from tv_jax.runs.report import fragments, palette, plots
from tv_jax.runs.report.page import Section, explorer, render

HOSTILE = "</script><script>x()</script> \"'<b>& \\1 ü狐\n\t\0\u2028-->"
NAMESPACE = "http://www.w3.org/2000/svg"


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


def read(text):
  return Reader(text)


def whole_page(word="plain"):
  figures = [
    fragments.figure(plot(traces.items()), word, name=f"figure-{i}")
    for i, plot in enumerate(
      [plots.length_histograms, plots.acceptance_by_depth]
    )
  ]
  trace = traces.trace("chain:2", cycles=2)
  trace |= {"prompt": word, "task": word}
  trace["cycles"][0]["pieces"][1] = word
  return render(
    title=word,
    lead=[word],
    figures=[(word, word)],
    sections=[
      Section("tables", word, table([[word, word, 1]], caption=word)),
      Section("plots", "Plots", "".join(figures)),
      Section("trees", "Trees", explorer([trace])),
      Section(
        "setup", "Setup", fragments.definitions({word: word}, caption=word)
      ),
    ],
  )


def table(rows, **options):
  return fragments.table(["name", "text", "number"], rows, **options)


def test_text_is_text_whatever_it_is():
  tame, hostile = read(whole_page()), read(whole_page(HOSTILE))
  assert hostile.tags == tame.tags
  names = [name for name, _ in tame.attributes]
  assert [name for name, _ in hostile.attributes] == names
  shown = HOSTILE.replace("\0", "\ufffd")
  assert sum(shown in text for text in hostile.text) >= 9


def test_data_in_a_page_is_the_data():
  data = {"text": [HOSTILE, "\ud800"], "x": [1.5, float("nan"), None, True]}
  text = fragments.embedded(data, "name")
  assert text.count("<") == 2
  (found,) = re.findall(
    r'<script type="application/json" id="name">(.*)</', text
  )
  wanted = data | {"x": [1.5, None, None, True]}
  assert json.loads(found) == wanted
  text.encode()


def test_half_a_character_does_not_stop_the_page():
  whole_page("\ud800").encode()


def test_nothing_is_fetched():
  text = whole_page()
  assert "http" not in text.replace(NAMESPACE, "").replace("http-equiv", "")
  assert not re.search(r"@import|url\((?!#)", text)
  for name, value in read(text).attributes:
    if name in ("src", "href", "xlink:href", "action", "data"):
      assert value.startswith("#")


def test_names_are_nobody_elses_and_links_lead_somewhere():
  text = whole_page()
  found = read(text).attributes
  own = [value for name, value in found if name == "id"]
  assert len(own) == len(set(own))
  links = [value for name, value in found if name in ("href", "xlink:href")]
  links += re.findall(r"url\((#[^)]*)\)", text)
  assert len(links) > 20
  assert {link[1:] for link in links} <= set(own)


def test_figures_take_the_pages_colors():
  svg = plots.length_histograms(traces.items())
  text = fragments.figure(svg, "Lengths", name="lengths")
  for color in palette.ALL:
    assert color.light not in text
  assert {"var(--ink)", "var(--blue)", "var(--orange)"} <= set(
    re.findall(r"var\(--\w+\)", text)
  )
  assert "<style" not in text
  assert 'aria-label="Lengths"' in text


def test_columns_of_numbers_are_flush():
  text = table(
    [["a", "3 dogs or so", "4.59 ± 0.07"], ["b", "", "-0.1"], ["c", "x", None]],
    caption="Some",
    groups=[("", 1), ("both", 2)],
    strong=[(1, 2)],
  )
  assert text.count('<td class="number">') == 3
  assert '<td class="number"><strong>-0.1</strong></td>' in text
  assert '<th class="group" colspan="2" scope="colgroup">both</th>' in text
  assert text.count('<th scope="row">') == 3


def test_a_row_of_another_length_is_refused():
  with pytest.raises(ValueError, match=r"\['a', '1'\] has 2 cells"):
    table([["a", 1]], caption="Some")


def test_settings_are_flat():
  text = fragments.definitions(
    {"draft": {"kind": "eagle", "path": None}, "trees": ["eagle", "chain:5"]},
    caption="Config",
  )
  assert read(text).text == [
    *("Config", "draft.kind", "eagle", "draft.path", fragments.NOTHING),
    *("trees", "eagle, chain:5"),
  ]


def test_a_run_without_traces_says_so():
  assert "No trees" in explorer([])
  assert "No trees" in explorer([traces.trace("chain:1") | {"cycles": []}])


def test_the_explorer_gets_what_it_shows():
  item = traces.trace("chain:2", panel=("traversal",), cycles=1)
  text = explorer([item])
  (found,) = re.findall(r"<script[^>]*>(.*)</script>", text)
  data = json.loads(found)
  assert data == {
    "traces": [item],
    "runs": ["traversal, without_replacement, T = 1, seed 0"],
    "undrawn": {},
    "colors": {"traversal": "blue"},
  }


def test_the_page_is_the_same_each_time():
  assert whole_page() == whole_page()


def test_the_wheel_holds_the_assets(tmp_path):
  root = pathlib.Path(__file__).parents[1]
  (path,) = WheelBuilder(str(root)).build(
    directory=str(tmp_path), versions=["standard"]
  )
  packed = set(zipfile.ZipFile(path).namelist())
  assets = [*(root / "tv_jax/runs/report/assets").iterdir()]
  assert len(assets) > 8
  assert {str(own.relative_to(root)) for own in assets} <= packed
