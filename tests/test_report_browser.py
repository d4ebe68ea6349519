"""The page in a real browser, compared with numbers from Python."""

import io
import itertools
import re

import matplotlib.pyplot as plt
import pytest

from tests import browser as browsers
from tests import traces
from tv_jax.runs.report import fragments, palette, plots, walks
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
    for verifier in ("traversal", "token_level_loop")
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
  session.prefer(color_scheme="light")
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


def choose(browser, name, value):
  browser.run(
    """
    const select = document.querySelector(`[data-part=${arguments[0]}]`);
    select.value = arguments[1];
    select.dispatchEvent(new Event("change"));
    """,
    name,
    value,
  )


def scroll_width(browser):
  return browser.run("return document.documentElement.scrollWidth")


def test_no_script_runs_but_the_pages_own(browser):
  script = "return performance.getEntriesByType('resource').length"
  assert browser.run(script) == 0
  assert browser.find("main img, header img") == []
  assert HOSTILE in browser.texts("h1")[0]
  assert browser.texts(".panel .about dd bdi")[0].startswith("<img·src=x")
  browser.run("""
    const script = document.createElement("script");
    script.textContent = "window.hacked = 1";
    document.body.append(script);
  """)
  assert browser.run("return window.hacked ?? null") is None
  (complaint,) = browser.errors()
  assert "Content Security Policy" in complaint


def test_the_walks_are_those_of_python(browser, made):
  script = """
    const [cycle, rule] = arguments;
    const { chances, expectedLength, walk } = window.explorer;
    const walked = walk(cycle, rule);
    return [chances(cycle, rule), walked, expectedLength(cycle, rule)];
  """
  for trace in made:
    for cycle, rule in itertools.product(
      trace["cycles"], trace["cycles"][0]["stop"]
    ):
      chances, walked, expected = browser.run(script, cycle, rule)
      wanted = walks.walk(cycle, rule)
      assert walked["node"] == wanted.node
      for one, other in zip(walked["steps"], wanted.steps, strict=True):
        assert one == other._asdict() | {"chance": one["chance"]}
        assert one["chance"] == pytest.approx(other.chance, rel=1e-12)
      for one, other in zip(
        chances, walks.chances(cycle, rule).tolist(), strict=True
      ):
        assert one == pytest.approx(other) or (one is None and other != other)
      assert expected == pytest.approx(traces.expected_length(cycle, rule))
      ran = trace["verifier"].removesuffix("_loop")
      assert rule != ran or wanted.node == cycle["node"]


@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_the_run_is_right_where_rounding_is_not(browser, rule):
  """A coin on the other side of its chance than in the run."""
  (cycle,) = traces.trace("eagle", verifier=rule, seed=3, cycles=1)["cycles"]
  script = "return window.explorer.walk(...arguments)"
  for node in range(26):
    if cycle["pieces"][node] is None:
      continue
    walked = browser.run(script, cycle, rule, node)
    assert walked["node"] == node
    assert node == 0 or walked["steps"][-1]["accepted"] or rule != "traversal"


def test_every_cycle_ends_as_python_says(browser, url, made):
  for trace in made:
    for number, cycle in enumerate(trace["cycles"]):
      show(browser, url, trace, number, steps="999,999")
      panels = state(browser)
      assert len(panels) == 2
      for panel in panels:
        walk = walks.walk(cycle, panel["rule"])
        depth = 0
        above = walk.node
        while above:
          above, depth = cycle["parents"][above], depth + 1
        assert panel["last"] == [walk.node]
        assert panel["gained"] == depth + 1
        assert panel["count"] == f"all {len(walk.steps)}"
        assert panel["expected"] == pytest.approx(
          traces.expected_length(cycle, panel["rule"]), abs=5.1e-4
        )
        assert panel["bonus"]
        ran = panel["rule"] == trace["verifier"].removesuffix("_loop")
        assert panel["badge"] == ("ran" if ran else "on the same coins")
      if trace["verifier"] == "block":
        assert "block" in [panel["rule"] for panel in panels]


def test_clicks_step_through_every_coin(browser, url, made):
  trace = made[8]  # eagle
  cycle = trace["cycles"][1]
  show(browser, url, trace, 1)
  browser.click("[data-part=together]")
  courses = [walks.walk(cycle, rule) for rule in ("token_level", "traversal")]
  for place, course in enumerate(courses):
    before = state(browser)[1 - place]
    for number, step in enumerate(course.steps, start=1):
      browser.click("[data-act=forward]", place)
      panel = state(browser)[place]
      assert panel["current"] == [step.node]
      assert panel["count"] == f"{number} of {len(course.steps)}"
      verdict = "accepted" if step.accepted else "rejected"
      said = (
        rf"Node {step.node} “.*”: coin [\d.e-]+ ([<≥]) chance .* → {verdict}"
      )
      sign = re.match(said, panel["said"])[1]
      assert sign == ("<" if step.accepted else "≥")
    assert not panel["last"]
    assert not panel["bonus"]
    browser.click("[data-act=forward]", place)
    panel = state(browser)[place]
    assert panel["last"] == [course.node]
    assert panel["bonus"]
    assert state(browser)[1 - place] == before  # they step on their own
    browser.click("[data-act=forward]", place)  # nothing is left to do
    assert state(browser)[place] == panel


def test_keys_step_both_together(browser, url, made):
  show(browser, url, made[8])
  lengths = [
    len(walks.walk(made[8]["cycles"][0], rule).steps)
    for rule in ("token_level", "traversal")
  ]

  def counts():
    return [panel["count"] for panel in state(browser)]

  def wanted(step):
    return [
      f"all {n}" if step > n else f"{min(step, n)} of {n}" for n in lengths
    ]

  assert counts() == wanted(0)
  for key, place, step in (
    *(("ArrowRight", 0, step) for step in (1, 2, 3)),
    ("ArrowLeft", 0, 2),
    ("End", 0, 99),
    ("ArrowLeft", 1, max(lengths)),
    ("Home", 1, 0),
  ):
    browser.press(".panel", key, place)
    assert counts() == wanted(step)
  before = state(browser)[0]["about"]
  browser.press(".panel", "ArrowDown")
  browser.press(".panel", "ArrowDown")
  assert counts() == wanted(0)
  assert state(browser)[0]["about"] != before


def test_play_plays_and_pauses_and_a_chip_jumps_to_its_step(browser, url, made):
  trace = made[8]
  show(browser, url, trace)
  for word in ("Pause", "Play"):
    browser.click("[data-act=play]")
    assert browser.texts("[data-act=play]") == [word, word]
    assert state(browser)[0]["count"].startswith("1 of")
  course = walks.walk(trace["cycles"][0], "traversal")
  browser.click(".panel:nth-child(2) .order li", len(course.steps) - 1)
  panel = state(browser)[1]
  assert panel["current"] == [course.steps[-1].node]
  assert panel["count"] == f"{len(course.steps)} of {len(course.steps)}"


def test_choices_lead_from_one_trace_to_another(browser, made):
  assert choice(browser, "tree") == "chain:5"
  choose(browser, "question", "qa/7/0")
  choose(browser, "run", "without_replacement/token_level_loop/1/0")
  choose(browser, "tree", "eagle")  # the rest stays as it was
  assert choice(browser, "question") == "qa/7/0"
  assert choice(browser, "run").startswith("without_replacement/token_level")
  assert state(browser)[0]["badge"] == "ran"
  browser.click("[data-part=next]")
  browser.click("[data-part=next]")
  assert choice(browser, "cycle") == "2"
  browser.click("[data-part=next]")  # there is no more
  assert choice(browser, "cycle") == "2"
  browser.click("[data-part=previous]")
  (eagle,) = (
    one
    for one in made
    if (one["tree"], one["verifier"], one["question"])
    == ("eagle", "token_level_loop", 7)
  )
  expected = traces.expected_length(eagle["cycles"][1], "traversal")
  assert state(browser)[1]["expected"] == pytest.approx(expected, abs=5.1e-4)
  before = [eagle["cycles"][0]["bonus"]]
  assert browser.texts(".context span")[1].endswith(before[0])


def test_three_rules_are_chosen_from(browser, url, made):
  show(browser, url, made[-1])
  assert [own["rule"] for own in state(browser)] == ["token_level", "block"]
  browser.run("""
    const select = document.querySelector(".panel select");
    select.value = "traversal";
    select.dispatchEvent(new Event("change"));
  """)
  assert [own["rule"] for own in state(browser)] == ["traversal", "block"]
  one, other = (own["expected"] for own in state(browser))
  assert one == other  # on a chain they are the same rule


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


def test_an_address_that_makes_no_sense_does_no_harm(browser, url, made):
  show(browser, url, made[0], cycle="x", steps="-3,1e99,,", rules="no,such")
  assert [own["count"][0] for own in state(browser)] == ["0", "0"]
  browser.open("about:blank")
  browser.open(f"{url}#setup")
  assert browser.run("return location.hash") == "#setup"


def test_a_phone_has_no_overflow(browser, url, made):
  browser.resize(*PHONE, mobile=True)
  for trace in made[::2]:
    show(browser, url, trace, steps="9,9")
    browser.run(
      "document.querySelectorAll('details').forEach((own) => (own.open = true))"
    )
    assert browser.run("return innerWidth") == PHONE[0]
    assert scroll_width(browser) <= PHONE[0]


def edge(browser):
  """The colors at a wide table's right edge, and of the page beside it."""
  x, y = browser.run("""
    const place = document.querySelector(".scroll").getBoundingClientRect();
    return [place.right, place.top];
  """)
  image = plt.imread(io.BytesIO(browser.screenshot()))[..., :3]
  ratio = browser.run("return devicePixelRatio")
  row, end = (round(ratio * value) for value in (y + 3, x))
  return image[row, end - 2].tolist(), image[row, end + 2].tolist()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_shows_that_there_is_more_to_the_right(browser, scheme):
  browser.prefer(color_scheme=scheme)
  browser.resize(*PHONE, mobile=True)
  browser.run("document.querySelector('.scroll').scrollIntoView()")
  own, page = edge(browser)
  assert max(abs(a - b) for a, b in zip(own, page, strict=True)) > 0.1
  browser.run("document.querySelector('.scroll').scrollLeft = 1e6")
  own, page = edge(browser)
  assert own == page
  browser.resize(*DESKTOP)
  own, page = edge(browser)
  assert own == page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser, scheme):
  browser.prefer(color_scheme=scheme)
  colors = browser.run(
    """
    const probe = document.body.appendChild(document.createElement("i"));
    const valueOf = (color) => {
      probe.style.color = color;
      return getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
    };
    const names = arguments[0].map((name) => [name, valueOf(`var(--${name})`)]);
    const body = getComputedStyle(document.body);
    return {
      ...Object.fromEntries(names),
      body: valueOf(body.color),
      page: valueOf(body.backgroundColor),
      tint: valueOf("var(--tint)"),
    };
    """,
    [color.name for color in palette.ALL],
  )
  assert (sum(colors["page"]) < 200) == (scheme == "dark")
  for ground in ("page", "tint"):
    assert contrast(colors["body"], colors[ground]) > 10
    for color in palette.ALL:
      if color not in (palette.RULE, palette.INK):
        assert contrast(colors[color.name], colors[ground]) > 4.5, color.name


def contrast(one, other):
  """The ratio of WCAG 2."""
  light, dark = sorted((luminance(one), luminance(other)), reverse=True)
  return (light + 0.05) / (dark + 0.05)


def luminance(color):
  linear = [
    x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
    for x in (channel / 255 for channel in color[:3])
  ]
  return sum(
    w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
  )


def test_motion_is_left_out_where_it_is_unwelcome(browser):
  browser.prefer(reduced_motion="reduce")
  script = "return getComputedStyle(document.querySelector('.tree rect'))"
  assert browser.run(f"{script}.transitionDuration") == "0s"
