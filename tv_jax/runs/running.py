"""A whole run: the grid's answers, then speed, into one folder."""

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Iterable

from tv_jax import engine
from tv_jax.engine.pair import Pair
from tv_jax.models import templates
from tv_jax.runs import (
  asking,
  environment,
  known,
  metrics,
  sources,
  store,
  timing,
)
from tv_jax.runs import config as config_lib
from tv_jax.runs.answers import Answerer
from tv_jax.runs.hosts import ALONE, Hosts
from tv_jax.runs.loading import load
from tv_jax.runs.records import Answer
from tv_jax.runs.settings import Run, to_dict
from tv_jax.runs.store import checks
from tv_jax.runs.store import unit as unit_lib

# What the programs that run in lockstep are made by.
_ALIKE = ("tv_jax", "jax", "jaxlib", "flax", "transformers", "device")


def run(
  config,
  workdir: str | os.PathLike,
  say: Callable[[str], None] = lambda line: None,
  advance: Callable[[int, int], None] = lambda done, count: None,
  load: Callable[[Run], Pair] = load,
  hosts: Hosts = ALONE,
  others: Iterable[pathlib.Path] = (),
  times: bool = True,
) -> None:
  """Runs what is left of a config's grid.

  Args:
    config: As a file in configs/ returns it, or a `Run`.
    workdir: The run's folder; one that has been begun is continued.
    say: Told what is going on, a line at a time.
    advance: Told how many answers there are, and how many there will be.
    load: Has the pair; another one if several runs share it.
    hosts: The processes that run it together.
    others: Folders of other runs: answers that one of them has, and that this
      run would give again, are not decoded again. Of a process alone.
    times: Whether to take times, where the config asks for any. If not, a run
      that lacks nothing else stays unfinished, its programs compiled: the next
      call takes them, when the machine is quiet. What it says of compiling is
      then what it takes to find them.

  Raises:
    ValueError: In one line, what is wrong with the config, the folder or a
      checkpoint.
    OSError: In one line, why the folder cannot be written to.
  """
  settings = config
  if not isinstance(config, Run):
    settings = hosts.together(lambda: config_lib.from_config(config))
  folder = pathlib.Path(workdir)
  questions = hosts.together(lambda: asking.read_questions(settings))
  described = environment.describe()
  alike = {name: described[name] for name in _ALIKE}
  hosts.check_same({"config": to_dict(settings), "environment": alike})
  with _opened(hosts, folder, to_dict(settings), described) as results:
    if results.environment_changes:
      say(
        "the answers that are there are of another environment: "
        + "; ".join(results.environment_changes)
      )
    hosts.together(lambda: checks.check(folder, results.items, settings.trees))
    methods = asking.grid(settings)
    turns = sum(len(question.turns) for question in questions)
    count = turns * len(methods)
    hosts.together(lambda: results.expect(count))
    finished = hosts.of_first(
      lambda: (folder / "DONE").exists() and len(results) == count
    )
    read = hosts.together(lambda: sources.hashes(settings, questions, finished))
    hosts.together(lambda: results.keep_sources(read))
    if finished:
      say(f"{count} answers are all there")
      return
    hosts.check_same({"sources": read})
    pair = hosts.together(lambda: _loaded(load, settings))
    taken = {}
    if not hosts.several:
      found = known.answers(settings, results.environments, read, others)
      taken = {
        key: one
        for key, one in found.items()
        if key.method in methods and key not in results
      }
    told = f"{count} answers in {len(methods)} cells, {len(results)} are there"
    say(f"{told}, {len(taken)} in other runs" if taken else told)
    timed = hosts.of_first((folder / "timing.json").exists)
    speed = None if timed else timing.plan(pair, settings, questions, say)
    with engine.Ahead(pair) as ahead:
      answer = Answerer(
        pair,
        settings,
        questions,
        results,
        lambda: advance(len(results), count),
        hosts,
        taken,
        ahead,
      )
      answer.expect(methods)
      if speed:
        ahead.expect(speed.hows.values(), 1, speed.longest)
      for i, method in enumerate(methods, 1):
        begin, before = time.perf_counter(), len(results)
        answer(method)
        if len(results) > before:
          say(f"{i}/{len(methods)} {_told(method, results, begin)}")
      if speed and not times:
        ahead.finish()
        return
      if speed:
        measured = timing.measure(pair, settings, speed, say, ahead, hosts)
        hosts.together(lambda: results.save_timing(measured))
    hosts.together(results.finish)


def unchanged(folder: pathlib.Path) -> bool:
  """Whether a finished run's sources are what they were, as `run` sees it.

  Raises:
    ValueError: Its config is none, or names what is not to be had any more.
  """
  there = unit_lib.load(folder / unit_lib.SOURCES, dict) or {}
  settings = config_lib.from_config(
    unit_lib.load(folder / unit_lib.CONFIG, dict) or {}
  )
  questions = asking.read_questions(settings)
  now = sources.hashes(settings, questions, finished=True)
  return not unit_lib.changed(there, now)


@contextlib.contextmanager
def _opened(hosts, folder, config, described):
  """The store; in all processes but the first a mirror of it."""
  with contextlib.ExitStack() as held:
    results = hosts.together(
      lambda: (
        held.enter_context(store.Store(folder, config, described))
        if hosts.first
        else store.Mirror()
      )
    )
    if hosts.several:
      lines = hosts.of_first(
        lambda: [_without_trace(answer) for answer in results.items]
      )
      for line in lines if not hosts.first else ():
        results.append(Answer.of(line))
    yield results


def _without_trace(answer) -> dict:
  """An answer's line as far as others are made from it."""
  return dataclasses.replace(answer, trace=None).line


def _loaded(load, settings) -> Pair:
  """The pair."""
  pair = load(settings)
  # A template that serves no question is no fault of single questions.
  templates.encode(settings.models.template, pair.tokenizer, ["a"])
  return pair


def _told(method, results, begin) -> str:
  """A line about a method that is done with."""
  found = metrics.cell(one for one in results.items if one.method == method)
  line = f"{method}: {found.by_item:.2f} tokens a cycle"
  if found.failed:
    line += f", {found.failed} FAILED"
  if found.faults:
    line += f", FAULTS IN {found.faults} CYCLES"
  return f"{line} ({time.perf_counter() - begin:.0f} s)"
