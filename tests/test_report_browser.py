"""The page in a real browser, compared with numbers from Python."""

import re

import pytest

from tests import browser as browsers
from tests import traces
from tv_jax.edge.tables import Table
from tv_jax.runs.report.page import render

pytestmark = [pytest.mark.browser, pytest.mark.long]

HOSTILE = "<img src=x onerror='window.hacked=1'></script>"
PHONE = 390, 844
DESKTOP = 1280, 900


@pytest.fixture(scope="module")
def made():
  found = [
    traces.trace(tree, question, cycles=3)
    for tree in ("chain:5", "kary:2x5", "eagle")
    for question in (41, 7)
  ]
  found[0]["cycles"][0]["pieces"][1] = HOSTILE
  return found


@pytest.fixture(scope="module")
def url(made, tmp_path_factory):
  header = [str(i) for i in range(10)]
  wide = Table("Wide", [], header, [["a"] + ["1.234 ± 0.567"] * 9])
  text = render(
    title=f"A {'long' * 20} title {HOSTILE}",
    lead=[HOSTILE],
    tables=[wide],
    traces=made,
    settings=[("Config", {"a.path": "/x" * 60, HOSTILE: HOSTILE})],
  )
  path = tmp_path_factory.mktemp("page") / "page.html"
  path.write_text(text, encoding="utf-8")
  return path.as_uri()


@pytest.fixture(scope="module")
def session():
  with browsers.browser() as session:
    yield session


@pytest.fixture
def browser(session, url):
  """The page, freshly opened; it must not have complained in the end."""
  session.resize(*DESKTOP)
  session.open("about:blank")
  session.open(url)
  session.errors()
  yield session
  assert session.errors() == []


def show(browser, url, trace, cycle=0, step=0):
  """Opens a link into the explorer."""
  names = ("task", "question", "turn", "tree", "proposal", "verifier")
  name = "/".join(str(trace[field]) for field in names)
  browser.open("about:blank")
  link = f"{url}#trace={name}/1/{trace['seed']}&cycle={cycle}&step={step}"
  browser.open(link)


def state(browser):
  """What the panels show."""
  return browser.run("""
    return [...document.querySelectorAll(".panel")].map((panel) => ({
      rule: panel.dataset.rule,
      numbers: panel.querySelector(".numbers").textContent,
      said: panel.querySelector(".said").textContent,
      kept: [...panel.querySelectorAll(".kept")].map((x) => +x.dataset.node),
      current: [...panel.querySelectorAll(".current")]
        .map((x) => +x.dataset.node),
    }));
  """)


def test_a_tokens_text_is_no_html(browser, url, made):
  show(browser, url, made[0], step=1)
  assert any("“<img·src=x" in panel["said"] for panel in state(browser))
  browser.click('.panel g[data-node="1"]')
  assert "<img·src=x" in browser.texts(".panel .about")[0]
  assert HOSTILE in browser.texts("h1")[0]
  assert browser.find("img") == []
  assert browser.run("return window.hacked ?? null") is None


def test_clicks_step_through_every_coin(browser, url, made):
  trace = made[4]  # eagle
  cycle, parents = trace["cycles"][1], trace["cycles"][1]["parents"]
  show(browser, url, trace, 1)
  walks = [cycle["walks"][rule] for rule in ("token_level", "traversal")]
  for panel in state(browser):
    expected = traces.expected_length(cycle, panel["rule"])
    assert panel["numbers"].startswith(f"expected {expected:.3f}, gained ")
  for number in range(max(len(walk["steps"]) for walk in walks)):
    browser.click("[data-key=ArrowRight]")
    for panel, walk in zip(state(browser), walks, strict=True):
      if number >= len(walk["steps"]):
        continue
      node, chance = walk["steps"][number]
      accepted = cycle["coins"][node] < chance
      verdict = "accepted" if accepted else "rejected"
      sign = "<" if accepted else "≥"
      assert panel["current"] == [node]
      said = rf"Node {node} “.*”: coin .* {sign} chance .* → {verdict}"
      assert re.match(said, panel["said"])
  browser.click("[data-key=ArrowRight]")
  for panel, walk in zip(state(browser), walks, strict=True):
    path, node = {0}, walk["node"]
    while node:
      path.add(node)
      node = parents[node]
    assert {*panel["kept"]} == path
    assert panel["numbers"].endswith(f"gained {len(path)}")
  assert browser.find(".context mark")


def test_a_phone_has_no_overflow(browser, url, made):
  browser.resize(*PHONE, mobile=True)
  for trace in made[::2]:
    show(browser, url, trace, step=9)
    width = browser.run("return document.documentElement.scrollWidth")
    assert width <= browser.run("return innerWidth") == PHONE[0]
