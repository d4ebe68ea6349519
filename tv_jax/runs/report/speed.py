"""Makes speeds of a run's timing."""

import dataclasses
import math
from collections.abc import Mapping

from tv_jax.edge.tables import NOTHING, Table, comma_separated
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Times
from tv_jax.runs.records import Method
from tv_jax.runs.report import tables

_ESTIMATES = (
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


def speeds(
  timing: dict, baseline: str, gains: Mapping[Method, Estimate | None]
) -> Speeds:
  """Returns what is known of each method's speed; None: it is not.

  Args:
    timing: A run's timing.json.
    baseline: The rule that net gains are over.
    gains: Each method's gain over the baseline on the same drafts, in percent.
  """
  timed = {Method.of(one): one for one in timing["methods"]}
  times = {method: Times.of(one) for method, one in timed.items()}
  found = {}
  for method, own in times.items():
    plain = times.get(method.undrafted)
    base = times.get(dataclasses.replace(method, verifier=baseline))
    gain = gains.get(method)
    mean = own.speed_by_question.mean
    found[method] = {
      "tokens_per_second": own.speed,
      "speedup": plain and own.speedup(plain),
      "tokens_per_second_by_question": mean,
      "speedup_by_question": plain and mean / plain.speed_by_question.mean,
      "tokens_per_cycle": own.tokens.sum() / own.cycles.sum(),
      "milliseconds_per_cycle": own.cycle,
      "net_gain": gain and base and metrics.net(gain, own.slower(base)),
      "questions": len(own.seconds),
      "compile_seconds": timed[method]["compile_seconds"],
    }
  return found


def as_csv(found: Speeds) -> str:
  """Returns timing.csv: an estimate is a mean and its error."""
  header, rows = [*tables.AXES], [[*m.fields.values()] for m in found]
  for name in next(iter(found.values()), ()):
    header += [name, f"{name}_se"] if name in _ESTIMATES else [name]
    for row, own in zip(rows, found.values(), strict=True):
      value = own[name]
      numbers = [value]
      if name in _ESTIMATES:
        numbers = [value.mean, value.error] if value else [None, None]
      # Of one question there is no error: a NaN, which is left empty.
      row += [
        None if x is None or math.isnan(x) else round(float(x), 4)
        for x in numbers
      ]
  return comma_separated(header, rows)


def made(found: Speeds) -> list[Table]:
  """Returns the table of speeds."""
  several = len(tables.conditions(found)) > 1
  rows = []
  for method, own in found.items():
    name, gain = tables.name(method, several), own["net_gain"]
    rows.append(
      [
        name,
        tables.estimate(own["tokens_per_second"], ".1f"),
        tables.estimate(own["speedup"]),
        f"{own['tokens_per_second_by_question']:.1f}",
        _number(own["speedup_by_question"], ".2f"),
        tables.estimate(own["milliseconds_per_cycle"]),
        tables.percent(gain, "+.1f"),
        f"{own['compile_seconds']:.1f}",
      ]
    )
  header = ["method", "tokens/s", "speed-up", "by question", "speed-up"]
  header += ["ms a cycle", "net gain", "compile s"]
  return [Table("Speed at batch 1", [], header, rows)]


def _number(value: float | None, spec: str) -> str:
  return NOTHING if value is None else f"{value:{spec}}"
