"""Programs that are compiled before they are asked for."""

import threading
import types

import jax
import pytest

import tv_jax
from tests.test_evaluate import config
from tv_jax import engine, runs
from tv_jax.edge import reading
from tv_jax.engine import program, programs
from tv_jax.engine import timing as engine_timing
from tv_jax.runs import timing

TREES = "chain:1", "chain:2", "kary:2x1", "chain:3", "kary:2x2", "chain:4"


@pytest.fixture(scope="module")
def pair():
  folder = reading.BUNDLED
  return tv_jax.load(folder / "draft_weak", folder / "target")


def hows(pair, trees=TREES):
  return [
    engine.resolve(pair, tree=tree, max_new_tokens=4, panel=None)
    for tree in trees
  ]


@pytest.fixture
def compiled(monkeypatch):
  """What is asked to be compiled, and in which thread; nothing is."""
  found = []

  def compile_(function, plan, *_, **__):
    if function is program.advance:  # which another goes with
      found.append((plan.speculation.tree, threading.current_thread()))

  monkeypatch.setattr("tv_jax.engine.programs.compile", compile_)
  return found


def test_they_come_in_order_a_few_at_a_time(pair, compiled):
  asked = hows(pair)
  with engine.Ahead(pair) as ahead:
    ahead.expect([*asked, asked[1]], 2, 8)
    assert not compiled  # until the first is asked for
    assert ahead.reach(asked[0], 2, 8) == 0  # whoever runs it compiles it
    assert ahead.reach(asked[0], 2, 8) == 0
    *_, last = ahead.begun.values()
    last.result()
    trees = [how.plan.speculation.tree for how in asked]
    assert [tree for tree, _ in compiled] == trees[1:5]
    assert threading.main_thread() not in {thread for _, thread in compiled}
    assert ahead.reach(asked[1], 2, 8) > 0
    assert ahead.reach(asked[1], 2, 8) == 0
    assert len(ahead.begun) == 4
    assert not ahead.waiting
    for how in asked[2:]:
      ahead.reach(how, 2, 8)
    assert not ahead.begun


def test_what_is_compiled_is_what_decodes(pair):
  (how,) = hows(pair, ["kary:2x1"])
  programs.compile.cache_clear()
  with engine.Ahead(pair) as ahead:
    ahead.expect([how], 2, 8)
    ahead.reach(hows(pair, ["chain:1"])[0], 2, 8)  # begins with the other
    next(iter(ahead.begun.values())).result()
    assert ahead.reach(how, 2, 8) > 0
  assert programs.compile.cache_info().misses == 2
  rows = engine.Rows(pair, 2)
  [*rows.decode(how, [engine.Prompt([5, 6], 0, 4)], 8)]
  assert programs.compile.cache_info().misses == 2


def test_a_failure_is_left_to_whoever_runs_it(pair, monkeypatch):
  def fail(*_, **__):
    raise ValueError("too large")

  monkeypatch.setattr("tv_jax.engine.batches.sizes.check", fail)
  first, second = hows(pair, ["chain:1", "chain:2"])
  with engine.Ahead(pair) as ahead:
    ahead.expect([second], 2, 8)
    ahead.reach(first, 2, 8)
    next(iter(ahead.begun.values())).result()
    assert ahead.reach(second, 2, 8) == 0


def test_on_a_gpu_nothing_is_compiled_ahead(pair, compiled, monkeypatch):
  monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
  with engine.Ahead(pair) as ahead:
    ahead.expect(hows(pair), 2, 8)
    assert ahead.reach(hows(pair)[0], 2, 8) == 0
  assert not compiled


def test_nothing_is_compiled_beside_what_is_timed(tmp_path, monkeypatch):
  timed, answer, seen = [], engine_timing.answer, []
  inside = engine.Ahead.__init__

  def watched(self, pair):
    inside(self, pair)
    seen.append(self)
    self.expect(hows(pair, ["kary:2x2"]), 1, 8)  # which nobody comes to

  def clocked(clock, *arguments):
    before = programs.compile.cache_info().misses
    found = answer(clock, *arguments)
    (ahead,) = seen
    running = any(not one.done() for one in ahead.begun.values())
    misses = programs.compile.cache_info().misses - before
    timed.append((misses, running or bool(ahead.waiting)))
    return found

  monkeypatch.setattr(engine.Ahead, "__init__", watched)
  monkeypatch.setattr(engine_timing, "answer", clocked)
  own = config(
    models__target="bundled/draft",
    models__draft="bundled/draft_weak",
    tasks="qa",
    per_task=1,
    trees="chain:1",
    verifiers="token_level",
    timing__per_task=1,
    timing__stages="",
  )
  runs.run(own, tmp_path)
  assert len(timed) == 2 + 2  # each to compile it, and then the question
  assert timed[2:] == [(0, False)] * 2


def test_stages_are_timed_on_a_question_that_has_room(monkeypatch):
  """A long one may leave less room than all others, and then be refused."""
  given = []

  def profile(pair, prompts, **options):
    given.append((prompts, options["max_new_tokens"]))
    return types.SimpleNamespace(milliseconds={})

  monkeypatch.setattr(engine, "profile", profile)
  own = config(timing__per_task=1, timing__stages="kary:2x2")
  settings = runs.from_config(own)
  (method, *_) = runs.grid(settings)
  sizes = (3, 12), (5, 12), (9, 4)
  asked = [(None, [1] * size, limit) for size, limit in sizes]
  timing._stages(None, settings, method, asked, lambda line: None)
  timing._stages(None, settings, method, asked[2:], lambda line: None)
  assert given == [([[1] * 5], 12), ([[1] * 9], 4)]
