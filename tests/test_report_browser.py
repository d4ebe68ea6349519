"""The page in a real browser, compared with numbers from Python."""

import re

import numpy as np
import pytest

from tests import browser as browsers
from tests import traces
from tv_jax.runs.report import fragments, plots
from tv_jax.runs.report.page import Section, explorer, render

pytestmark = [pytest.mark.browser, pytest.mark.long]

HOSTILE = "<img src=x onerror='window.hacked=1'></script>"
PHONE = 390, 844
DESKTOP = 1280, 900


@pytest.fixture(scope="module")
def made():
  found = [
    traces.trace(tree, verifier=verifier, question=question, cycles=3)
    for tree in ("chain:5", "kary:2x5", "eagle")
    for verifier in ("traversal", "token_level")
    for question in (41, 7)
  ]
  three = ("token_level", "traversal", "block")
  found.append(
    traces.trace("chain:3", verifier="block", panel=three, question=5)
  )
  found[0]["cycles"][0]["pieces"][1] = HOSTILE
  return found


@pytest.fixture(scope="module")
def url(made, tmp_path_factory):
  items = traces.items()
  wide = [["a"] + ["1.234 ± 0.567"] * 9]
  table = fragments.table([str(i) for i in range(10)], wide, caption="Wide")
  figure = fragments.figure(
    plots.acceptance_by_task(items), "By task", name="by-task"
  )
  settings = {"a.path": "/x" * 60, HOSTILE: HOSTILE}
  setup = fragments.definitions(settings, caption="Config")
  text = render(
    title=f"A {'long' * 20} title {HOSTILE}",
    lead=[HOSTILE],
    figures=[("5.06 ± 0.06", "tokens a cycle")],
    sections=[
      Section("results", "Results", table + figure),
      Section("trees", "Trees", explorer(made)),
      Section("setup", "Setup", setup),
    ],
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


def show(browser, url, trace, cycle=0, steps="0,0", rules=""):
  """Opens a link into the explorer."""
  names = ("task", "question", "turn", "tree", "proposal", "verifier")
  name = "/".join(str(trace[own]) for own in names)
  browser.open("about:blank")
  browser.open(
    f"{url}#trace={name}/1/{trace['seed']}&cycle={cycle}"
    f"&rules={rules}&steps={steps}"
  )


def state(browser):
  """What the panels show."""
  return browser.run("""
    const all = (home, css) => [...home.querySelectorAll(css)];
    return all(document, ".panel").map((panel) => ({
      rule: panel.dataset.rule,
      badge: panel.querySelector(".badge").textContent,
      expected: Number(panel.querySelector(".expected").textContent),
      gained: Number(panel.querySelector(".gained").textContent),
      said: panel.querySelector(".said").textContent,
      count: panel.querySelector(".count").textContent,
      last: all(panel, ".node.last").map((own) => Number(own.dataset.node)),
      current: all(panel, ".node.current").map((own) => +own.dataset.node),
      bonus: !panel.querySelector(".bonus").classList.contains("hidden"),
      about: all(panel, ".about dd").map((own) => own.textContent),
    }));
  """)


def choice(browser, name):
  return browser.run(
    "return document.querySelector(`[data-part=${arguments[0]}]`).value", name
  )


def scroll_width(browser):
  return browser.run("return document.documentElement.scrollWidth")


def test_no_script_runs_but_the_pages_own(browser, url, made):
  show(browser, url, made[0])
  script = "return performance.getEntriesByType('resource').length"
  assert browser.run(script) == 0
  assert browser.find("main img, header img") == []
  assert HOSTILE in browser.texts("h1")[0]
  tokens = browser.texts(".panel .about dd bdi")
  assert any(token.startswith("<img·src=x") for token in tokens)
  browser.run("""
    const script = document.createElement("script");
    script.textContent = "window.hacked = 1";
    document.body.append(script);
  """)
  assert browser.run("return window.hacked ?? null") is None
  (complaint,) = browser.errors()
  assert "Content Security Policy" in complaint


def test_what_is_computed_from_a_cycle(browser, made):
  script = """
    const { expectedLength } = window.explorer;
    return expectedLength(...arguments);
  """
  cycle = made[0]["cycles"][0]
  for rule in cycle["stop"]:
    expected = browser.run(script, cycle, rule)
    assert expected == pytest.approx(traces.expected_length(cycle, rule))


def test_clicks_step_through_every_coin(browser, url, made):
  trace = made[8]  # eagle
  cycle = trace["cycles"][1]
  show(browser, url, trace, 1)
  browser.click("[data-part=together]")
  courses = [cycle["walks"][rule] for rule in ("token_level", "traversal")]
  for place, course in enumerate(courses):
    before = state(browser)[1 - place]
    for number, (node, chance) in enumerate(course["steps"], start=1):
      browser.click("[data-act=forward]", place)
      panel = state(browser)[place]
      assert panel["current"] == [node]
      assert panel["count"] == f"{number} of {len(course['steps'])}"
      accepted = cycle["coins"][node] < chance
      verdict = "accepted" if accepted else "rejected"
      sign = "<" if accepted else "≥"
      said = rf"Node {node} “.*”: coin .* {sign} chance .* → {verdict}"
      assert re.match(said, panel["said"])
    browser.click("[data-act=forward]", place)
    panel = state(browser)[place]
    assert panel["last"] == [course["node"]]
    assert panel["bonus"]
    assert state(browser)[1 - place] == before  # they step on their own


def test_it_opens_at_a_cycle_near_the_mean(browser, made):
  first = [one for one in made if one["tree"] == made[0]["tree"]]
  first = [one for one in first if one["verifier"] == "traversal"]
  gains = {
    (one["question"], place): length(cycle, "traversal")
    - length(cycle, "token_level")
    for one in first
    for place, cycle in enumerate(one["cycles"])
  }
  mean = np.mean([*gains.values()])
  question, place = min(gains, key=lambda at: abs(gains[at] - mean))
  assert choice(browser, "question") == f"qa/{question}/0"
  assert choice(browser, "cycle") == str(place)
  assert place  # the first cycle is another


def length(cycle, rule):
  """Tokens that a rule expects on a chain."""
  return sum(x * (depth + 1) for depth, x in enumerate(cycle["stop"][rule]))


def test_a_wide_table_is_not_cut_where_there_is_room(browser):
  browser.resize(1600, 900)
  left, cut = browser.run("""
    const table = document.querySelector("figure.table");
    const { scrollWidth, clientWidth } = table.querySelector(".scroll");
    const { left } = table.getBoundingClientRect();
    return [left, scrollWidth - clientWidth];
  """)
  assert cut <= 0 or left < 20


def test_keys_step_both_together(browser, url, made):
  show(browser, url, made[8])
  shown = []
  for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft"):
    browser.press(".panel", key, 0)
    shown.append([panel["count"][0] for panel in state(browser)])
  assert shown == [[n, n] for n in "0121"]
  before = state(browser)[0]["about"]
  browser.press(".panel", "ArrowDown")
  assert state(browser)[0]["about"] != before


def test_the_address_opens_the_same_step(browser, url, made):
  show(browser, url, made[6], cycle=1)
  browser.click("[data-part=together]")
  browser.click("[data-act=forward]", 0)
  for _ in range(3):
    browser.click("[data-act=forward]", 1)
  before = state(browser)
  address = browser.run("return location.href")
  browser.open("about:blank")
  browser.open(address)
  assert state(browser) == before
  assert choice(browser, "tree") == made[6]["tree"]
  assert choice(browser, "cycle") == "1"
  assert not browser.run(
    "return document.querySelector('[data-part=together]').checked"
  )


def test_a_phone_has_no_overflow(browser, url, made):
  browser.resize(*PHONE, mobile=True)
  for trace in made[::2]:
    show(browser, url, trace, steps="9,9")
    browser.run(
      "document.querySelectorAll('details').forEach((own) => (own.open = true))"
    )
    assert browser.run("return innerWidth") == PHONE[0]
    assert scroll_width(browser) <= PHONE[0]
