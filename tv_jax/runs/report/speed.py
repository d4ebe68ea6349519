"""Makes speeds of a run's timing."""

import dataclasses
from collections.abc import Mapping

from tv_jax.edge.tables import NOTHING, Table
from tv_jax.engine.results import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Times
from tv_jax.runs.records import Method
from tv_jax.runs.report import tables

ESTIMATES = (
  "tokens_per_second",
  "speedup",
  "milliseconds_per_cycle",
  "net_gain",
)

DEFINITIONS = (
  "Speed: one question at a time (batch 1), prompts included, after warm-up,"
  " without compilation; all methods take turns on each question. Tokens/s:"
  " all tokens over all seconds. By question (Spec-Bench's): the mean of the"
  " questions' own speeds. Speed-up: over plain decoding in the same run. ±:"
  " how far the timed questions differ.",
  "Net gain: in tokens per second, over the baseline on the same tree. It is"
  " the gain on the same drafts, over all questions, minus the extra time of a"
  " cycle, over the timed ones with their prompts.",
)

Speeds = dict[Method, dict]  # by column of timing.csv


def speeds_of(
  timing: dict, baseline: str, gains: Mapping[Method, Estimate | None]
) -> Speeds:
  """Returns what is known of each method's speed; None: it is not.

  Args:
    timing: A run's timing.json.
    baseline: The rule that net gains are over.
    gains: Each method's gain over the baseline on the same drafts, in percent.
  """
  timed = {Method.of(fields): fields for fields in timing["methods"]}
  times = {method: Times.of(fields) for method, fields in timed.items()}
  speeds = {}
  for method, ours in times.items():
    plain = times.get(method.undrafted)
    base = times.get(dataclasses.replace(method, verifier=baseline))
    gain = gains.get(method)
    mean = ours.speed_by_question.mean
    speeds[method] = {
      "tokens_per_second": ours.speed,
      "speedup": plain and ours.speedup(plain),
      "tokens_per_second_by_question": mean,
      "speedup_by_question": plain and mean / plain.speed_by_question.mean,
      "tokens_per_cycle": ours.tokens.sum() / ours.cycles.sum(),
      "milliseconds_per_cycle": ours.cycle,
      "net_gain": gain and base and metrics.net(gain, ours.slower(base)),
      "questions": len(ours.seconds),
      "compile_seconds": timed[method]["compile_seconds"],
    }
  return speeds


def table(speeds: Speeds) -> Table:
  """Makes the table of speeds."""
  several, rows = len(tables.conditions(speeds)) > 1, []
  for method, values in speeds.items():
    by_question = values["speedup_by_question"]
    rows.append(
      [
        tables.name(method, several),
        tables.estimate(values["tokens_per_second"], ".1f"),
        tables.estimate(values["speedup"]),
        f"{values['tokens_per_second_by_question']:.1f}",
        NOTHING if by_question is None else f"{by_question:.2f}",
        tables.estimate(values["milliseconds_per_cycle"]),
        tables.percent(values["net_gain"], "+.1f"),
        f"{values['compile_seconds']:.1f}",
      ]
    )
  header = ["method", "tokens/s", "speed-up", "by question", "speed-up"]
  header += ["ms a cycle", "net gain", "compile s"]
  return Table("Speed at batch 1", [], header, rows)
