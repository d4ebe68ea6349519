"""Grades as they are kept: lines of grades.jsonl in a run's folder.

A grade belongs to an answer, a judge, one of the judge's runs, and to what
exactly the judge was shown: where that has changed there is another grade.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tv_jax import records
from tv_jax.records import Key
from tv_jax.store import files, lines

FILE = "grades.jsonl"


class GradeKey(NamedTuple):
  """Which grade it is.

  Attributes:
    answer: Of which answer.
    judge: The model that gave it.
    run: Of the judge's, from 0.
    prompt: The digest of what the judge was shown.
  """

  answer: Key
  judge: str
  run: int
  prompt: str

  @property
  def fields(self) -> dict:
    """By name: with these a line begins."""
    own = {"judge": self.judge, "run": self.run, "prompt": self.prompt}
    return self.answer.fields | own

  def __str__(self) -> str:
    """For messages."""
    return f"grade of {self.answer}, run {self.run} of {self.judge}"


_FIELDS = {
  "judge": str,
  "run": int,
  "prompt": str,
  "rating": (int, float, type(None)),
  "replies": [{"text": str}],
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grade:
  """A grade: a line.

  Attributes:
    key: Which.
    rating: From 1 to 10; None if there is none in any reply.
    replies: All that the judge said, as it came: the last one counts, and those
      before it held no rating.
  """

  key: GradeKey
  rating: float | None
  replies: Sequence[Mapping]

  @classmethod
  def of(cls, line: dict) -> Grade:
    """What `line` was made of; ValueError if it is none."""
    answer = Key.of(line)
    if found := [*dict.fromkeys(records.faults(_FIELDS, line))][:3]:
      raise ValueError(f"the grade of {answer}: {'; '.join(found)}")
    key = GradeKey(answer, *(line[name] for name in GradeKey._fields[1:]))
    return cls(key=key, rating=line["rating"], replies=line["replies"])

  @property
  def line(self) -> dict:
    """As it is kept."""
    own = {"rating": self.rating, "replies": self.replies}
    return self.key.fields | own


def read(folder: str | os.PathLike) -> dict[GradeKey, Grade]:
  """The grades in a run's folder, whether or not a process is writing there.

  Raises:
    ValueError: The file is damaged.
    StoreError: It cannot be read.
  """
  path = pathlib.Path(folder) / FILE
  with files.explained(f"{path} cannot be read"):
    data = path.read_bytes() if path.exists() else b""
  return lines.parse(data, path, Grade.of)[0]
