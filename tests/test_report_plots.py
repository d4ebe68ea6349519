import dataclasses
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests import quick, traces
from tv_jax.runs.report import palette, plots

PLOTS = {
  name: getattr(plots, name)
  for name in (
    "acceptance_by_task",
    "length_histograms",
    "acceptance_by_depth",
  )
}
every_plot = pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)


def texts(svg):
  """All text of a file, which must be sound XML."""
  return {
    own.text
    for own in ET.fromstring(svg.encode()).iter(
      "{http://www.w3.org/2000/svg}text"
    )
  }


@every_plot
def test_a_plot_says_what_is_on_it(plot):
  said = texts(plot(traces.items()))
  assert {"chain:5", "eagle", "token_level", "traversal"} <= said
  assert not {"plain", "none"} & said
  if plot is plots.acceptance_by_task:
    assert {"qa", "translation"} <= said


@pytest.mark.parametrize("plot", quick.shorter([*PLOTS.values()]), ids=PLOTS)
def test_a_plot_is_the_same_to_the_byte(plot):
  items = traces.items()
  svg = plot(items)
  shuffled = [
    items[i] for i in np.random.default_rng(0).permutation(len(items))
  ]
  assert plot(items) == plot(shuffled) == svg
  assert "Date" not in svg
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
    cwd=pathlib.Path(__file__).parents[1],
    capture_output=True,
    text=True,
    check=True,
  )
  assert other.stdout == svg


@every_plot
@pytest.mark.parametrize(
  "grid",
  [
    {"tasks": ("qa",)},
    {"verifiers": ("my_rule",)},
    {"questions": 1, "cycles": 1},
    {"trees": ("chain:1",)},
    {"trees": ("chain:10", "chain:2", "chain:3", "eagle")},
    {"verifiers": ("a", "b", "c", "d", "traversal", "token_level", "block")},
    {"tasks": ("$x_1$", "<b>&")},
  ],
  ids=str,
)
def test_any_grid_is_drawn(plot, grid):
  said = texts(plot(traces.items(**grid)))
  for names in grid.values():
    if isinstance(names, tuple) and (
      names is not grid.get("tasks") or plot is plots.acceptance_by_task
    ):
      assert set(names) <= said


@every_plot
def test_nothing_gained_and_nothing_done(plot):
  items = traces.items()
  alone = [dataclasses.replace(items[1], accepted=[1, 1])]
  assert items[1].method.tree in texts(plot(alone))
  empty = dataclasses.replace(items[1], accepted=[])
  nothing = [items[0], items[-1], empty]
  assert "nothing to show yet" in texts(plot(nothing))


def test_a_question_is_one_item():
  """Turns and seeds are pooled, by cycles; errors are over questions."""
  items = [
    traces.answer("qa", question, "eagle", "traversal", accepted, turn)
    for question, turn, accepted in (
      (1, 0, [1, 1, 1]),
      (1, 1, [5]),
      (2, 0, [4]),
    )
  ]
  cells = plots._lengths(items)
  mean, error = plots._estimate(cells, "eagle", "traversal", "qa")
  assert mean == pytest.approx(3)
  assert error == pytest.approx(np.std([2, 4], ddof=1) / 2**0.5)
  pooled = plots._pooled(cells, "eagle", "traversal")
  assert sorted(pooled) == [1, 1, 1, 4, 5]


def test_names_with_numbers_are_sorted_as_numbers():
  names = ["chain:10", "kary:2x5", "chain:2", "eagle", "²"]
  assert plots._sorted(names) == [
    *("chain:2", "chain:10", "eagle", "kary:2x5", "²")
  ]


def test_a_verifiers_color_is_its_own():
  alone = palette.of_verifiers(["traversal"])
  among = palette.of_verifiers(["x", "traversal", "token_level", "block"])
  assert alone["traversal"] == among["traversal"]
  assert list(among) == ["token_level", "traversal", "block", "x"]
  assert len(set(among.values())) == 4


def test_user_settings_do_not_show():
  import matplotlib

  wanted = plots.length_histograms(traces.items())
  with matplotlib.rc_context({"font.size": 30, "axes.grid": True}):
    assert plots.length_histograms(traces.items()) == wanted
    assert matplotlib.rcParams["font.size"] == 30
