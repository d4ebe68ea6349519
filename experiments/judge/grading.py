"""Grading: asks a judge for all grades that are not there yet."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from experiments.judge import client, grades, kept, parallel, prompts
from experiments.judge.endpoint import Endpoint
from experiments.judge.grades import Exam
from experiments.judge.kept import Grade, GradeKey
from experiments.judge.troubles import EndpointError, UnansweredError
from tv_jax.store import opening
from tv_jax.store.lines import Lines

WORKERS = 4
AGAIN = 2  # how often a reply without a rating is asked for once more
# So many grades in a row without a reply, and the endpoint is given up.
HOPELESS = 8


def grade(
  exams: Sequence[Exam],
  endpoint: Endpoint,
  *,
  runs: int = grades.RUNS,
  workers: int = WORKERS,
  say: Callable[[str], None] = lambda line: None,
  advance: Callable[[int, int], None] = lambda done, count: None,
  sleep: Callable[[float], object] | None = None,
) -> list[str]:
  """Grades what is not graded yet; each grade is on the disk at once.

  Args:
    exams: Of runs.
    endpoint: The judge's.
    runs: How often each answer is graded.
    workers: Requests at a time.
    say: Told what is going on, a line at a time.
    advance: Told how many grades there are, and how many there will be.
    sleep: Waits so many seconds.

  Returns:
    Why grades are missing, a line for each: those had no reply, and the same
    call asks for them again.

  Raises:
    EndpointError: In one line, why the judge is not to be asked.
    ValueError: A file is damaged.
    StoreError: A folder cannot be written to.
  """
  judge = endpoint.model
  wanted = [[*exam.keys(judge, runs)] for exam in exams]
  left = [
    [key for key in keys if key not in there]
    for keys, there in zip(
      wanted, (kept.read(exam.folder) for exam in exams), strict=True
    )
  ]
  count = sum(map(len, wanted))
  done = count - sum(map(len, left))
  say(
    f"{count} grades by {judge}: of {sum(len(e.prompts) for e in exams)}"
    f" answers, {runs} each; {done} are there"
  )
  stop, missing, row = threading.Event(), [], 0

  def wait(seconds):
    (sleep or stop.wait)(seconds)
    if stop.is_set():
      raise UnansweredError("it was not waited for")

  try:
    for exam, keys in zip(exams, left, strict=True):
      for result in _graded(exam, keys, endpoint, workers, wait):
        if isinstance(result, Grade):
          done, row = done + 1, 0
          advance(done, count)
          continue
        missing.append(str(result))
        row += 1
        if row >= HOPELESS:
          raise EndpointError(
            f"{endpoint.place} gave {row} times in a row no reply, the last"
            f" time: {result}"
          )
  finally:
    stop.set()
  return missing


def _graded(exam: Exam, keys: Sequence[GradeKey], endpoint, workers, wait):
  """Yields grades that are on the disk, or why there is none."""
  if not keys:  # then nothing need be there but to be read
    return

  def one(key):
    try:
      return _ask(key, exam.prompts[key.answer], endpoint, wait)
    except UnansweredError as error:
      return error

  with contextlib.ExitStack() as resources:
    opening.lock(exam.folder, resources, "grades.lock", "wait for it")
    lines = Lines.open(exam.folder / kept.FILE, Grade.of, resources)
    # Another process may have been here since they were read.
    left = [key for key in keys if key not in lines.found]
    yield from (lines.found[key] for key in keys if key in lines.found)
    with contextlib.closing(parallel.each(one, left, workers)) as results:
      for _, result in results:
        if isinstance(result, Grade):
          lines.append(result)
        yield result


def _ask(key: GradeKey, chat, endpoint, wait) -> Grade:
  """A grade, with a rating if one is to be had."""
  replies, rating = [], None
  while rating is None and len(replies) <= AGAIN:
    reply = client.ask(endpoint, chat, wait)
    replies.append(reply._asdict())
    rating = prompts.rating(reply.text)
  return Grade(key=key, rating=rating, replies=replies)
