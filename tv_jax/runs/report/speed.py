"""Makes the table of speeds of a run's timing."""

import dataclasses
from collections.abc import Mapping

from tv_jax.engine.results import Estimate
from tv_jax.io.tables import NOTHING, Table
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Times
from tv_jax.runs.records import Method
from tv_jax.runs.report import tables

DEFINITIONS = (
  "Speed: one question at a time (batch 1), prompts included, after warm-up,"
  " without compilation; all methods take turns on each question. Tokens/s:"
  " all tokens over all seconds. By question (Spec-Bench's): the mean of the"
  " questions' own speeds. Speed-up: over plain decoding in the same run. ±:"
  " one standard error over the timed questions.",
  "Net gain: in tokens per second, over the baseline on the same tree. It is"
  " (1 + gain) / (1 + extra time of a cycle) - 1. The gain is on the same"
  " drafts of all questions, the time is of the timed questions, with prompts.",
)


def table(
  timing: dict, baseline: str, gains: Mapping[Method, Estimate | None]
) -> Table:
  """Makes the table of speeds.

  Args:
    timing: The content of a run's timing.json.
    baseline: The rule to compare with.
    gains: Each method's gain over the baseline on the same drafts, in percent.
  """
  timed = {Method.of(fields): fields for fields in timing["methods"]}
  times = {method: Times.of(fields) for method, fields in timed.items()}
  several, rows = len(tables.conditions(times)) > 1, []
  for method, ours in times.items():
    plain = times.get(method.undrafted)
    base = times.get(dataclasses.replace(method, verifier=baseline))
    gain, mean = gains.get(method), ours.speed_by_question.mean
    net = gain and base and metrics.net(gain, ours.slower(base))
    rows.append(
      [
        tables.row_name(method, several),
        tables.estimate(ours.speed, ".1f"),
        tables.estimate(plain and ours.speedup(plain)),
        f"{mean:.1f}",
        f"{mean / plain.speed_by_question.mean:.2f}" if plain else NOTHING,
        tables.estimate(ours.cycle),
        tables.percent(net, "+.1f"),
        f"{timed[method]['compile_seconds']:.1f}",
      ]
    )
  header = ["method", "tokens/s", "speed-up", "by question", "speed-up"]
  header += ["ms a cycle", "net gain", "compile s"]
  return Table("Speed at batch 1", [], header, rows)
