"""What the command does once its flags are read."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence

import rich.console

from experiments.judge import grades, grading, rendering
from experiments.judge.client import Endpoint
from experiments.judge.grades import Exam
from tv_jax.edge import cli
from tv_jax.runs import store
from tv_jax.runs.report import formats, progress

_WIDTH = 150  # where nobody says how wide the place is


def run(
  heard: cli.Heard,
  folder: str | os.PathLike,
  endpoint: Endpoint,
  *,
  tasks: Sequence[str] = grades.TASKS,
  **options,
) -> int:
  """Grades the runs in a folder, and prints the ratings.

  Args:
    heard: What is heard of signals.
    folder: A run's, or one above several.
    endpoint: The judge's.
    tasks: Whose answers.
    **options: `grading.grade`'s.

  Returns:
    The exit status: 1 if grades are missing in the end.
  """
  found = find(folder, tasks)
  try:
    with progress.shown("grades") as (say, advance):
      missing = grading.grade(
        [exam for _, exam in found],
        endpoint,
        say=say,
        advance=advance,
        **options,
      )
  except BaseException:
    if not heard.status:
      raise
    cli.tell(f"{heard.word()}: the same command continues")
    return heard.status
  show(found, endpoint.model, options.get("runs", grades.RUNS), tasks)
  if missing:
    cli.tell(
      f"{len(missing)} GRADES ARE MISSING: the same command asks for them"
      f" again; the last one because: {missing[-1]}"
    )
  return int(bool(missing))


def find(
  folder: str | os.PathLike, tasks: Sequence[str]
) -> list[tuple[dict, Exam]]:
  """Returns the config and the exam of each run with answers of the tasks."""
  folder = pathlib.Path(folder)
  found = [*store.read_many(folder)]
  if not found:
    raise ValueError(f"{folder}: there is no run in it")
  pairs = [(unit.config, Exam.of(unit, tasks)) for unit in found]
  if not any(exam.methods for _, exam in pairs):
    there = {answer.task for unit in found for answer in unit.items}
    raise ValueError(
      f"{folder}: there are no answers of {' '.join(tasks)}, but of"
      f" {' '.join(sorted(there)) or 'nothing'}: give --judge_tasks"
    )
  for unit in found:
    if not unit.done:
      cli.tell(f"{unit.folder}: THE RUN IS NOT FINISHED")
  return [(config, exam) for config, exam in pairs if exam.methods]


def show(
  found: Sequence[tuple[dict, Exam]], judge: str, runs: int, tasks
) -> None:
  """Prints a table for each group of runs, and what its columns are."""
  console = rich.console.Console(
    width=None if sys.stdout.isatty() else _WIDTH, highlight=False
  )
  for config, own in rendering.groups(found):
    title = f"{config['models']['target']} by {judge}"
    rows = grades.table(own, judge, runs)
    for table in rendering.rendered(rows, title, [*tasks] == [*grades.TASKS]):
      for part in formats.terminal(table, console.width):
        console.print(part)
  for line in rendering.DEFINITIONS:
    console.print(line, style="dim", markup=False)
