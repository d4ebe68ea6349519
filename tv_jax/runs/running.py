"""A whole run: the grid's answers, then speed, into one folder."""

import os
import pathlib
import time
from collections.abc import Callable

import jax

from tv_jax.edge.reading import place_of
from tv_jax.engine import pair as pair_lib
from tv_jax.engine.pair import Pair
from tv_jax.models import sharding, templates
from tv_jax.runs import asking, environment, metrics, sources, store, timing
from tv_jax.runs.answers import Answerer
from tv_jax.runs.settings import Run, from_config, to_dict
from tv_jax.runs.store import unit as unit_lib


def load(settings: Run) -> Pair:
  """Returns the pair of a run's settings."""
  own, mesh = settings.models, None
  if own.devices > 1:
    if own.devices > (there := jax.device_count()):
      raise ValueError(
        f"models.devices={own.devices}: there are only {there} devices"
      )
    mesh = sharding.mesh(jax.devices()[: own.devices])
  draft, target = (
    os.path.expanduser(place_of(name)) for name in (own.draft, own.target)
  )
  return pair_lib.load(
    draft,
    target,
    draft_kind=own.draft_kind,
    dtype=own.dtype or None,
    mesh=mesh,
    shard_draft=own.shard_draft,
    draft_revision=own.draft_revision or None,
    revision=own.revision or None,
  )


def run(
  config,
  workdir: str | os.PathLike,
  say: Callable[[str], None] = lambda line: None,
  advance: Callable[[int, int], None] = lambda done, count: None,
  load: Callable[[Run], Pair] = load,
  opened: Callable[..., store.Store] = store.Store,
) -> None:
  """Runs what is left of a config's grid.

  Args:
    config: As a file in configs/ returns it, or a `Run`.
    workdir: The run's folder; one that has been begun is continued.
    say: Told what is going on, a line at a time.
    advance: Told how many answers there are, and how many there will be.
    load: Has the pair; another one if several runs share it.
    opened: Opens the store: of several processes, their common one.

  Raises:
    ValueError: In one line, what is wrong with the config, the folder or a
      checkpoint.
    OSError: In one line, why the folder cannot be written to.
  """
  settings = config
  if not isinstance(config, Run):
    settings = from_config(config)
  questions = asking.read_questions(settings)
  described = environment.describe()
  with opened(workdir, to_dict(settings), described) as results:
    if results.environment_changes:
      say(
        "the answers that are there are of another environment: "
        + "; ".join(results.environment_changes)
      )
    methods = asking.grid(settings)
    turns = sum(len(question.turns) for question in questions)
    count = turns * len(methods)
    results.expect(count)
    finished = results.done and len(results) == count
    results.keep_sources(sources.hashes(settings, questions, finished))
    if finished:
      say(f"{count} answers are all there")
      return
    pair = load(settings)
    # A template that serves no question is no fault of single questions.
    templates.encode(settings.models.template, pair.tokenizer, ["a"])
    results.meet()  # one process may have no weights
    say(f"{count} answers in {len(methods)} cells, {len(results)} are there")
    answer = Answerer(
      pair, settings, questions, results, lambda: advance(len(results), count)
    )
    for i, method in enumerate(methods, 1):
      begin, before = time.perf_counter(), len(results)
      answer(method)
      if len(results) > before:
        say(f"{i}/{len(methods)} {_told(method, results, begin)}")
    speed = None
    if not results.timed:
      speed = timing.plan(pair, settings, questions, say)
    if speed:
      results.save_timing(
        timing.measure(pair, settings, speed, say, results.meet)
      )
    results.finish()


def unchanged(folder: pathlib.Path) -> bool:
  """Returns whether a finished run's sources are what they were.

  Raises:
    ValueError: Its config is none, or names what is not to be had any more.
  """
  there = unit_lib.load(folder / unit_lib.SOURCES, dict) or {}
  settings = from_config(unit_lib.load(folder / unit_lib.CONFIG, dict) or {})
  questions = asking.read_questions(settings)
  now = sources.hashes(settings, questions, finished=True)
  return not unit_lib.changed(there, now)


def _told(method, results, begin) -> str:
  """Returns a line about a method that is done with."""
  found = metrics.cell(one for one in results.items if one.method == method)
  line = f"{method}: {found.by_item:.2f} tokens a cycle"
  if found.failed:
    line += f", {found.failed} FAILED"
  if found.faults:
    line += f", FAULTS IN {found.faults} CYCLES"
  return f"{line} ({time.perf_counter() - begin:.0f} s)"
