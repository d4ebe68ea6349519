"""Runs a whole grid: first all answers, then speed, into one folder."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Mapping

import jax

from tv_jax.engine import pair as pair_lib
from tv_jax.engine.pair import Pair
from tv_jax.io.errors import UserError
from tv_jax.io.progress import Progress, silent
from tv_jax.models import sharding, templates
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.runs import environment, sources, stats, store, timing
from tv_jax.runs.asking import Answerer
from tv_jax.runs.frame import answers, frame
from tv_jax.runs.questions import read_questions
from tv_jax.runs.settings import Run, from_config, grid, to_dict
from tv_jax.runs.tables import texts


def load(settings: Run) -> Pair:
  """Loads the pair of a run's settings."""
  models, mesh = settings.models, None
  if models.devices > 1:
    if models.devices > (count := jax.device_count()):
      raise UserError(
        f"models.devices={models.devices}: there are only {count} devices"
      )
    mesh = sharding.mesh(jax.devices()[: models.devices])
  return pair_lib.load(
    models.target,
    models.draft or None,
    dtype=models.dtype or None,
    mesh=mesh,
    draft_revision=models.draft_revision or None,
    revision=models.revision or None,
  )


def pinned(settings: Run, begun: Mapping[str, str]) -> Run:
  """Returns settings in which revisions of hub repositories are commits.

  A revision that is not given is the commit with which the run began.

  Args:
    settings: The settings.
    begun: The run's sources.json.
  """
  models = settings.models

  def commit(name: str, place: str, revision: str) -> str:
    revision = revision or begun.get(name, "")
    opened = Checkpoint.open(place, revision or None) if place else None
    return (opened and opened.commit) or ""

  models = dataclasses.replace(
    models,
    revision=commit("target", models.target, models.revision),
    draft_revision=commit("draft", models.draft, models.draft_revision),
  )
  return dataclasses.replace(settings, models=models)


def run(
  config,
  workdir: str | os.PathLike,
  progress: Progress = silent,
  load: Callable[[Run], Pair] = load,
) -> bool:
  """Runs a config's grid, or the missing rest of it.

  Args:
    config: A `Run`, or a config as the files in configs/ return it.
    workdir: The run's folder; an unfinished run is continued.
    progress: Called at each step and after each answer.
    load: Loads the pair; several runs may share it.

  Returns:
    Whether there is an answer that did not fail.

  Raises:
    ValueError: The config, the folder or a checkpoint is invalid.
    OSError: The folder cannot be written to.
  """
  settings = config if isinstance(config, Run) else from_config(config)
  questions = read_questions(settings)
  described = environment.describe()
  with store.Store(workdir, to_dict(settings), described) as results:
    count = len(grid(settings)) * sum(len(asked.turns) for asked in questions)
    finished = results.done and len(results.answers) == count
    if not finished:
      settings = pinned(settings, results.sources if results.answers else {})
    found = sources.hashes(settings, questions, finished)
    results.keep_sources(found)
    if finished:
      progress(f"{count} answers are all there")
    else:
      pair = load(settings)
      # Products with dequantised weights are rounded differently.
      weights = "quantised" if pair.target.is_quantised else "arrays"
      results.keep_sources(found | {"weights": weights})
      _decode(Answerer(pair, settings, questions, results), count, progress)
    return any("error" not in line for line in results.answers.values())


def _decode(answerer: Answerer, count: int, progress: Progress) -> None:
  """Decodes what is missing in a store, and marks it as done."""
  pair, settings = answerer.pair, answerer.settings
  questions, results = answerer.questions, answerer.results
  methods, kept = grid(settings), results.answers
  # An unusable template is refused here, not in each question.
  templates.encode(settings.models.template, pair.tokenizer, ["a"])
  progress(f"{count} answers in {len(methods)} cells, {len(kept)} are there")
  # All configs are checked before the first answer.
  configs = {method: answerer.config(method) for method in methods}
  results.begin(count)
  for i, (method, config) in enumerate(configs.items(), 1):
    begin, before = time.perf_counter(), len(kept)
    for _ in answerer.ask(method, config):
      progress("answers", len(kept), count)
    if len(kept) > before:
      seconds = time.perf_counter() - begin
      axes = vars(method).items()
      own = tuple(x for x in kept.values() if axes <= x.items())
      unit = store.StoredRun(
        folder=results.folder, config=to_dict(settings), items=own
      )
      line = f"{method}: {_summary(unit)} ({seconds:.0f} s)"
      progress(f"{i}/{len(methods)} {line}")
  if settings.timing.per_task and not timing.covers(results.timing, methods):
    results.save_timing(timing.measure(pair, settings, questions, progress))
  results.finish()


def unchanged(folder: pathlib.Path, settings: Run) -> bool:
  """Returns whether a finished run has these settings, and the same inputs."""
  config = store.load(folder / store.CONFIG)
  try:
    kept = from_config(config)
  except UserError:  # another version's
    return False
  if kept != settings:
    return False
  now = sources.hashes(kept, read_questions(kept), finished=True)
  return not store.changed(store.load(folder / store.SOURCES), now, config)


def _summary(unit: store.StoredRun) -> str:
  """Returns the length of answers, and how many of them failed."""
  made = answers(unit)
  (length,) = texts(stats.by_question(frame(unit)))
  line = f"{length} tokens a cycle"
  if failed := made["error"].notna().sum():
    line += f", {failed} FAILED"
  if faults := made["faults"].sum():
    line += f", FAULTS IN {faults} CYCLES"
  return line
