"""The page in a real browser, compared with numbers from Python."""

import html
import json
import re
import subprocess

import pandas as pd
import pytest

from tests.lib.checkpoints import pair
from tests.lib.grids import expected_length
from tv_jax.engine.config import Options, decode_config
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.replay import Recording
from tv_jax.runs import asking
from tv_jax.runs.report.page import render
from tv_jax.runs.tables import Table

pytestmark = [pytest.mark.browser, pytest.mark.long]

HOSTILE = "<img src=x onerror='window.hacked=1'></script>"
WORDS = " the", " fox", ",", "\n", " überall", " 狐狸", " </script>", " \"<b>'&"
PHONE, DESKTOP = 390, 1280
CHROMIUM = [
  "chromium",
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--host-resolver-rules=MAP * ~NOTFOUND",  # no network
  "--virtual-time-budget=5000",
  "--dump-dom",
]
# A window of any width; a script leaves its result in the page's text.
WINDOW = """<pre id="said"></pre>
<iframe src="page.html#LINK" style="width: WIDTHpx; height: 844px"></iframe>
<script>
  const said = document.getElementById("said");
  onmessage = ({ data }) => (said.textContent = data);
</script>"""
ERRORS = """<script>
  const errors = [];
  onerror = (error) => errors.push(error);
  if (innerWidth < 640) window.matchMedia = () => ({ matches: false }); // touch
</script>"""
# What the panels show.
STATE = """
  const state = () =>
    [...document.querySelectorAll(".panel")].map((panel) => ({
      rule: panel.dataset.rule,
      numbers: panel.querySelector(".numbers").textContent,
      said: panel.querySelector(".said").textContent,
      kept: [...panel.querySelectorAll(".kept")].map((x) => +x.dataset.node),
      current: [...panel.querySelectorAll(".current")]
        .map((x) => +x.dataset.node),
    }));
"""


def trace(tree, question):
  """Returns the first cycles of a random model that drafts for itself."""
  options = {
    "tree": tree,
    "verifier": "traversal",
    "panel": ("token_level", "traversal"),
    "draft_temperature": 2.0,
    "top_k": 3,  # a fourth sibling cannot be drawn
    "max_new_tokens": 24,
    "ends": (),
  }
  config = decode_config(pair("self"), Options(**options))
  recording = Recording(config, lambda item, cycle: cycle < 3)
  batch = Batch(pair("self"), config, 1, 2)
  asked = [Prompt([5, 9], question, 24)]
  (own,) = decode(batch, asked, recording.step)

  def word(token):
    return WORDS[token % len(WORDS)]

  kept = asking.explorer_trees(recording.cycles({}), config, own, word)
  return {
    "task": "qa",
    "question": question,
    "turn": 0,
    "tree": tree,
    "proposal": "without_replacement",
    "verifier": "traversal",
    "temperature": 1.0,
    "seed": 0,
    "prompt": "<|user|>\nWhat does the fox do?\n<|assistant|>\n",
    "cycles": kept,
  }


@pytest.fixture(scope="module")
def shown():
  """The traces on the page."""
  trees = "chain:5", "kary:2x5", "eagle"
  traces = [trace(tree, question) for tree in trees for question in (41, 7)]
  traces[0]["cycles"][0]["pieces"][1] = HOSTILE
  return traces


@pytest.fixture
def ask(shown, tmp_path):
  """Opens a step of the page, and returns a script's result there."""
  cells = pd.DataFrame({str(i): ["1.234 ± 0.567"] for i in range(9)}, ["a"])
  wide = Table("Wide", cells)
  text = render(
    title=f"A {'long' * 20} title {HOSTILE}",
    warnings=[HOSTILE],
    result=HOSTILE,
    lead=HOSTILE,
    tables=[wide],
    traces=shown,
    settings=[("Config", {"a.path": "/x" * 60, HOSTILE: HOSTILE})],
  ).replace("<head>", f"<head>{ERRORS}", 1)
  before, _, after = text.rpartition("</body>")

  def ask(script, trace, cycle=0, step=0, width=DESKTOP):
    names = ("task", "question", "turn", "tree", "proposal", "verifier")
    name = "/".join(str(trace[field]) for field in names)
    link = f"trace={name}/1/{trace['seed']}&cycle={cycle}&step={step}"
    window = WINDOW.replace("LINK", link).replace("WIDTH", str(width))
    (tmp_path / "window.html").write_text(window)
    call = f"JSON.stringify([(() => {{{STATE}{script}}})(), errors])"
    page = f"{before}<script>parent.postMessage({call}, '*')</script>{after}"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    place = (tmp_path / "window.html").as_uri()
    done = subprocess.run(
      [*CHROMIUM, place], capture_output=True, text=True, timeout=120
    )
    said = re.search('<pre id="said">(.*?)</pre>', done.stdout, re.S)[1]
    answer, errors = json.loads(html.unescape(said))
    assert errors == []
    return answer

  return ask


def test_a_tokens_text_is_no_html(ask, shown):
  script = """
    const before = state();
    const node = document.querySelector('.panel g[data-node="1"]');
    node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    const about = document.querySelector(".panel .about").textContent;
    const title = document.querySelector("h1").textContent;
    const images = document.querySelectorAll("img").length;
    return [before, about, title, images, window.hacked ?? null];
  """
  panels, about, title, images, hacked = ask(script, shown[0], step=1)
  assert any("“<img·src=x" in panel["said"] for panel in panels)
  assert "<img·src=x" in about
  assert HOSTILE in title
  assert (images, hacked) == (0, None)


def test_clicks_step_through_every_coin(ask, shown):
  cycle = shown[4]["cycles"][1]  # eagle
  walks = [cycle["walks"][rule] for rule in ("token_level", "traversal")]
  steps = max(len(walk["steps"]) for walk in walks)
  script = """
    const states = [state()];
    for (let i = 0; i <= STEPS; i++) {
      document.querySelector("[data-key=ArrowRight]").click();
      states.push(state());
    }
    const marks = document.querySelectorAll(".context mark").length;
    return [states, marks, location.hash];
  """.replace("STEPS", str(steps))
  (first, *states, last), marks, address = ask(script, shown[4], cycle=1)
  for panel in first:
    expected = expected_length(cycle, panel["rule"])
    assert panel["numbers"].startswith(f"expected {expected:.3f}, gained ")
  for number, panels in enumerate(states):
    for panel, walk in zip(panels, walks, strict=True):
      if number >= len(walk["steps"]):
        continue
      node, chance = walk["steps"][number]
      accepted = cycle["coins"][node] < chance
      verdict = "accepted" if accepted else "rejected"
      sign = "<" if accepted else "≥"
      assert panel["current"] == [node]
      said = rf"Node {node} “.*”: coin .* {sign} chance .* → {verdict}"
      assert re.match(said, panel["said"])
  for panel, walk in zip(last, walks, strict=True):
    path, node = {0}, walk["node"]
    while node:
      path.add(node)
      node = cycle["parents"][node]
    assert {*panel["kept"]} == path
    assert panel["numbers"].endswith(f"gained {len(path)}")
  assert marks == 1
  assert address.endswith(f"&cycle=1&step={steps + 1}")


def test_eagles_tree_fits_and_its_numbers_are_inside_their_boxes(ask, shown):
  script = """
    const wide = [...document.querySelectorAll(".tree")]
      .filter((tree) => tree.scrollWidth > tree.clientWidth).length;
    const over = [...document.querySelectorAll(".tree g")].filter((group) => {
      const end = (x) => x.getBoundingClientRect().right;
      const box = end(group.querySelector("rect"));
      return [...group.querySelectorAll("text")].some((x) => end(x) > box);
    });
    const laws = [...document.querySelectorAll(".tree .small")]
      .map((x) => x.textContent).filter((x) => x.startsWith("p "));
    return [wide, over.map((x) => x.textContent), laws];
  """
  wide, over, laws = ask(script, shown[4])
  assert (wide, over) == (0, [])
  assert len(laws) > 20
  number = r"(0|~1|\d\.\d{3}|\de-\d+)"
  for law in laws:
    assert re.fullmatch(f"p {number} q {number}", law), law


def test_a_phone_has_no_overflow(ask, shown):
  script = """
    const about = document.querySelector(".about").textContent;
    return [innerWidth, document.documentElement.scrollWidth, about];
  """
  for trace in shown[::2]:
    inner, needed, about = ask(script, trace, step=9, width=PHONE)
    assert needed <= inner == PHONE
    assert about == "Tap a node to see its numbers."
