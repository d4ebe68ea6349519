"""Speed: what a run's timing says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tv_jax import metrics
from tv_jax.records import Method
from tv_jax.report import formats, tables
from tv_jax.report.tables import NOTHING, Table

STAGES = ("draft", "target", "verify", "commit", "rest")

DEFINITIONS = (
  "Speed: one question at a time (batch 1), prompts included, after warm-up;"
  " compilation is apart, and all methods take turns on each question."
  " Tokens/s: all tokens by all seconds. By question (Spec-Bench's): the mean"
  " of the questions' own speeds. Speed-up: over plain decoding in the same"
  " run.",
  "Shares: of a cycle whose stages are programs of their own, one after the"
  " other; in one program they are faster.",
)


class Speed(NamedTuple):
  """How fast a method is; None where it is not known."""

  method: Method  # of any seed
  tokens_per_second: float
  speedup: float | None
  tokens_per_second_by_question: float
  speedup_by_question: float | None
  tokens_per_cycle: float
  questions: int
  compile_seconds: float
  shares: dict[str, float | None]  # of a cycle, by stage


_COLUMNS = Speed._fields[1:-1]


def speeds(timing: dict) -> list[Speed]:
  """Of each method of a run's timing."""
  timed = [
    (
      Method.of({"seed": None} | one),
      one,
      metrics.speeds(one["tokens"], one["seconds"]),
    )
    for one in timing["methods"]
  ]
  plain = {method: own for method, _, own in timed if method.plain}
  result = []
  for method, one, (ours, theirs) in timed:
    base = plain.get(method.undrafted)
    result.append(
      Speed(
        method=method,
        tokens_per_second=round(ours, 2),
        speedup=base and round(ours / base[0], 4),
        tokens_per_second_by_question=round(theirs, 2),
        speedup_by_question=base and round(theirs / base[1], 4),
        tokens_per_cycle=round(sum(one["tokens"]) / sum(one["cycles"]), 4),
        questions=len(one["seconds"]),
        compile_seconds=round(one["compile_seconds"], 2),
        shares=_shares(one["stages"]),
      )
    )
  return result


def _shares(stages) -> dict[str, float | None]:
  """Of the stages of plain decoding, drawing a token is its verification."""
  if not stages:
    return dict.fromkeys(STAGES)
  stages = {"verify": stages.get("draw"), "draft": 0.0} | stages
  total = sum(stages[name] for name in STAGES)
  return {name: round(stages[name] / total, 4) for name in STAGES}


def comma_separated(found: Iterable[Speed]) -> str:
  """As CSV."""
  header = [*tables.AXES, *_COLUMNS, *(f"{stage}_share" for stage in STAGES)]
  rows = [
    [*one.method.fields.values(), *one[1:-1], *one.shares.values()]
    for one in found
  ]
  return formats.comma_separated(header, rows)


def table(found: Sequence[Speed]) -> Table:
  """The same, to be read."""
  header = [
    "method",
    "tokens/s",
    "speed-up",
    "by question",
    "speed-up",
    "compile s",
    *STAGES,
  ]
  several = len(tables.conditions(one.method for one in found)) > 1
  rows = [
    [
      tables.name(one.method, several),
      f"{one.tokens_per_second:.1f}",
      _times(one.speedup),
      f"{one.tokens_per_second_by_question:.1f}",
      _times(one.speedup_by_question),
      f"{one.compile_seconds:.1f}",
      *(NOTHING if x is None else f"{x:.0%}" for x in one.shares.values()),
    ]
    for one in found
  ]
  return Table("Speed at batch 1, and shares of a cycle", [], header, rows)


def _times(speedup) -> str:
  return NOTHING if speedup is None else f"{speedup:.2f}x"
