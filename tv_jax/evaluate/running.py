"""A whole run: the grid's answers, then speed, into one folder."""

import os
import pathlib
import time
from collections.abc import Callable

from tv_jax import metrics, prompts, store
from tv_jax.evaluate import asking, environment, sources, timing
from tv_jax.evaluate import config as config_lib
from tv_jax.evaluate.answers import Answerer
from tv_jax.evaluate.loading import load
from tv_jax.evaluate.settings import Run, to_dict
from tv_jax.pair import Pair
from tv_jax.store import runs


def run(
  config,
  workdir: str | os.PathLike,
  say: Callable[[str], None] = lambda line: None,
  advance: Callable[[int, int], None] = lambda done, count: None,
  load: Callable[[Run], Pair] = load,
) -> None:
  """Runs what is left of a config's grid.

  Args:
    config: As a file in configs/ returns it, or a `Run`.
    workdir: The run's folder; one that has been begun is continued.
    say: Told what is going on, a line at a time.
    advance: Told how many answers there are, and how many there will be.
    load: Has the pair; another one if several runs share it.

  Raises:
    ValueError: In one line, what is wrong with the config, the folder or a
      checkpoint.
    OSError: In one line, why the folder cannot be written to.
  """
  settings = config
  if not isinstance(config, Run):
    settings = config_lib.from_config(config)
  folder = pathlib.Path(workdir)
  questions = asking.questions(settings)
  described = environment.describe()
  with store.Store(folder, to_dict(settings), described) as results:
    if results.environment_changes:
      say(
        "the answers that are there are of another environment: "
        + "; ".join(results.environment_changes)
      )
    runs.check(folder, results.items, settings.trees)
    methods = asking.grid(settings)
    turns = sum(len(question.turns) for question in questions)
    count = turns * len(methods)
    results.expect(count)
    finished = (folder / "DONE").exists() and len(results) == count
    results.keep_sources(sources.hashes(settings, questions, finished))
    if finished:
      say(f"{count} answers are all there")
      return
    pair = load(settings)
    # A template that serves no question is no fault of single questions.
    prompts.encode(settings.models.template, pair.tokenizer, ["a"])
    say(f"{count} answers in {len(methods)} cells, {len(results)} are there")
    answer = Answerer(
      pair, settings, questions, results, lambda: advance(len(results), count)
    )
    for i, method in enumerate(methods, 1):
      begin, before = time.perf_counter(), len(results)
      answer(method)
      if len(results) > before:
        say(f"{i}/{len(methods)} {_told(method, results, begin)}")
    if settings.timing.per_task and not (folder / "timing.json").exists():
      measured = timing.measure(pair, settings, questions, say)
      if measured:
        results.save_timing(measured)
    results.finish()


def _told(method, results, begin) -> str:
  """A line about a method that is done with."""
  found = metrics.cell(one for one in results.items if one.method == method)
  line = f"{method}: {found.by_item:.2f} tokens a cycle"
  if found.failed:
    line += f", {found.failed} FAILED"
  if found.faults:
    line += f", NaN IN {found.faults} CYCLES"
  return f"{line} ({time.perf_counter() - begin:.0f} s)"
