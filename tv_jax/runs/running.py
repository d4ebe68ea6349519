"""A whole run: the grid's answers, then speed, into one folder."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Iterable

import jax

from tv_jax.engine import pair as pair_lib
from tv_jax.engine.pair import Pair
from tv_jax.models import sharding, templates
from tv_jax.runs import environment, metrics, sources, store, timing
from tv_jax.runs.answers import Answerer
from tv_jax.runs.questions import read_questions
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.settings import Run, from_config, grid, to_dict


def load(settings: Run) -> Pair:
  """Returns the pair of a run's settings."""
  models, mesh = settings.models, None
  if models.devices > 1:
    if models.devices > (count := jax.device_count()):
      raise ValueError(
        f"models.devices={models.devices}: there are only {count} devices"
      )
    mesh = sharding.mesh(jax.devices()[: models.devices])
  return pair_lib.load(
    models.draft,
    models.target,
    draft_kind=models.draft_kind,
    dtype=models.dtype or None,
    mesh=mesh,
    shard_draft=models.shard_draft,
    draft_revision=models.draft_revision or None,
    revision=models.revision or None,
  )


def run(
  config,
  workdir: str | os.PathLike,
  say: Callable[[str], None] = lambda line: None,
  show: Callable[[str, int, int], None] = lambda what, done, total: None,
  load: Callable[[Run], Pair] = load,
) -> None:
  """Runs what is left of a config's grid.

  Args:
    config: As a file in configs/ returns it, or a `Run`.
    workdir: The run's folder; one that has been begun is continued.
    say: Told what is going on, a line at a time.
    show: Told how many answers there are, and how many there will be.
    load: Has the pair; another one if several runs share it.

  Raises:
    ValueError: What is wrong with the config, the folder or a checkpoint.
    OSError: Why the folder cannot be written to.
  """
  settings = config if isinstance(config, Run) else from_config(config)
  questions = read_questions(settings)
  methods = grid(settings)
  count = len(methods) * sum(len(question.turns) for question in questions)
  described = environment.describe()
  with store.Store(workdir, to_dict(settings), described) as results:
    results.expect(count)
    finished = results.done and len(results.answers) == count
    results.keep_sources(sources.hashes(settings, questions, finished))
    if finished:
      say(f"{count} answers are all there")
      return
    pair = load(settings)
    # A template that serves no question is no fault of single questions.
    templates.encode(settings.models.template, pair.tokenizer, ["a"])
    kept = results.answers
    say(f"{count} answers in {len(methods)} cells, {len(kept)} are there")

    def advance():
      show("answers", len(kept), count)

    answer = Answerer(pair, settings, questions, results, advance)
    # All before the first answer: what is wrong is said at once.
    configs = {method: answer.config(method) for method in methods}
    for i, (method, config) in enumerate(configs.items(), 1):
      begin, before = time.perf_counter(), len(kept)
      answer(method, config)
      if len(kept) > before:
        seconds = time.perf_counter() - begin
        line = _summary(method, kept.values())
        say(f"{i}/{len(methods)} {line} ({seconds:.0f} s)")
    if settings.timing.per_task and not results.timed:
      results.save_timing(timing.measure(pair, settings, questions, say))
    results.finish()


def unchanged(folder: pathlib.Path) -> bool:
  """Returns whether a finished run's sources are what they were."""
  settings = from_config(store.load(folder / store.CONFIG))
  now = sources.hashes(settings, read_questions(settings), finished=True)
  return not store.changed(store.load(folder / store.SOURCES), now)


def _summary(method: Method, answers: Iterable[Answer]) -> str:
  """Returns a line about a method that is done with."""
  cell = metrics.cell(answer for answer in answers if answer.method == method)
  line = f"{method}: {cell.by_item:.2f} tokens a cycle"
  if cell.failed:
    line += f", {cell.failed} FAILED"
  if cell.faults:
    line += f", FAULTS IN {cell.faults} CYCLES"
  return line
