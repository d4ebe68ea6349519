"""Grading: asks a judge for all grades that are not there yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from experiments.judge import client, grades, prompts
from experiments.judge.client import Endpoint, EndpointError, UnansweredError
from experiments.judge.grades import Exam, Grade, GradeKey
from tv_jax.edge import disk
from tv_jax.edge.reading import shown
from tv_jax.runs.store.lines import Lines

WORKERS = 4
AGAIN = 2  # how often a reply without a rating is asked for once more
# After so many grades in a row without a reply, the endpoint is given up.
HOPELESS = 8


def grade(
  exams: Sequence[Exam],
  endpoint: Endpoint,
  *,
  runs: int = grades.RUNS,
  workers: int = WORKERS,
  say: Callable[[str], None] = lambda line: None,
  advance: Callable[[int, int], None] = lambda done, count: None,
) -> list[str]:
  """Grades what is not graded yet; each grade is on the disk at once.

  Args:
    exams: Of runs.
    endpoint: The judge's.
    runs: How often each answer is graded.
    workers: Requests at a time.
    say: Told what is going on, a line at a time.
    advance: Told how many grades there are, and how many there will be.

  Returns:
    Why grades are missing, a line for each: those had no reply, and the same
    call asks for them again.

  Raises:
    EndpointError: In one line, why the judge is not to be asked.
    ValueError: A file is damaged, or openai is not installed.
    StoreError: A folder cannot be written to.
  """
  left, count = [], 0
  for exam in exams:
    wanted, there = [*exam.keys(endpoint.model, runs)], grades.read(exam.folder)
    count += len(wanted)
    left.append([key for key in wanted if key not in there])
  done = count - sum(map(len, left))
  answers = sum(len(exam.prompts) for exam in exams)
  say(
    f"{count} grades by {shown(endpoint.model)}: of {answers} answers, {runs}"
    f" each; {done} are there"
  )
  missing, row = [], 0

  async def work(exam: Exam, keys: Iterator[GradeKey], lines: Lines, judge):
    nonlocal done, row
    # Another key is taken when the last one's grade is on the disk: a kill
    # loses as many replies as there are workers, at most.
    for key in keys:
      # Another process may have been here since they were read.
      if key not in lines.found:
        try:
          found = await _rated(judge, endpoint, exam.prompts[key.answer])
        except UnansweredError as error:
          missing.append(str(error))
          row += 1
          if row < HOPELESS:
            continue
          raise EndpointError(
            f"{endpoint.place} gave {row} times in a row no reply, the last"
            f" time: {error}"
          ) from None
        lines.append(Grade(key=key, **found))
      done, row = done + 1, 0
      advance(done, count)

  async def work_on(exam: Exam, keys: Iterator[GradeKey], lines: Lines):
    async with endpoint.connect() as judge:
      try:
        async with asyncio.TaskGroup() as group:
          for _ in range(workers):
            group.create_task(work(exam, keys, lines, judge))
      except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None

  for exam, keys in zip(exams, left, strict=True):
    if keys:  # else the folder needs only to be read
      with contextlib.ExitStack() as resources:
        disk.lock(exam.folder, resources, "grades.lock", "wait for it")
        path = exam.folder / grades.FILE
        lines = Lines.open(path, Grade.of, resources)
        asyncio.run(work_on(exam, iter(keys), lines))  # the workers share it
  return missing


async def _rated(judge, endpoint: Endpoint, chat: Sequence[dict]) -> dict:
  """Returns a grade's rating, if one is to be had, and the replies."""
  replies, rating = [], None
  while rating is None and len(replies) <= AGAIN:
    reply = await client.ask(judge, endpoint, chat)
    replies.append(reply._asdict())
    rating = prompts.rating(reply.text)
  return {"rating": rating, "replies": replies}
