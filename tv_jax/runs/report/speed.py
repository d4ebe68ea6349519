"""Makes speeds of a run's timing."""

import dataclasses
from collections.abc import Mapping

from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Times
from tv_jax.runs.records import Method
from tv_jax.runs.report import formats, tables
from tv_jax.runs.report.tables import NOTHING, Table

STAGES = ("draft", "target", "verify", "commit")

DEFINITIONS = (
  "Speed: one question at a time (batch 1), prompts included, after warm-up,"
  " without compilation; all methods take turns on each question. Tokens/s:"
  " all tokens over all seconds. By question (Spec-Bench's): the mean of the"
  " questions' own speeds. Speed-up: over plain decoding in the same run. ±:"
  " how far the timed questions differ. Compile: on a CPU other answers may"
  " have been decoded at the same time.",
  "Net gain: in tokens per second, over the baseline on the same tree. It is"
  " the gain on the same drafts, over all questions, minus the extra time of a"
  " cycle, over the timed ones with their prompts.",
  "Shares of a cycle: measured with each stage as a program of its own. In one"
  " program the stages are faster.",
)


def speeds(
  timing: dict, baseline: str, gains: Mapping[Method, Estimate | None]
) -> dict[Method, dict[str, float | None]]:
  """Returns what is known of each method's speed, by column of timing.csv.

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
    net = gain and base and metrics.net(gain, own.slower(base))
    speedup = plain and own.speedup(plain)
    by_question = own.speed_by_question
    found[method] = {
      **_columns("tokens_per_second", own.speed, 2),
      **_columns("speedup", speedup, 4),
      "tokens_per_second_by_question": round(by_question.mean, 2),
      "speedup_by_question": plain
      and round(by_question.mean / plain.speed_by_question.mean, 4),
      "tokens_per_cycle": round(own.tokens.sum() / own.cycles.sum(), 4),
      **_columns("milliseconds_per_cycle", own.cycle, 4),
      **_columns("net_gain", net, 4),
      "questions": len(own.seconds),
      "compile_seconds": round(timed[method]["compile_seconds"], 2),
      **_shares(timed[method]["stages"]),
    }
  return found


def _columns(name, value: Estimate | None, digits) -> dict[str, float | None]:
  """Returns a mean and its error; what is not known is empty."""
  if value is None:
    return {name: None, f"{name}_se": None}
  error = round(value.error, digits) if value.n > 1 else None
  return {name: round(value.mean, digits), f"{name}_se": error}


def _shares(stages) -> dict[str, float | None]:
  if not stages:
    return {f"{name}_share": None for name in STAGES}
  total = sum(stages[name] for name in STAGES)
  return {f"{name}_share": round(stages[name] / total, 4) for name in STAGES}


def comma_separated(found: dict[Method, dict]) -> str:
  """Returns timing.csv."""
  header = [*tables.AXES, *next(iter(found.values()), ())]
  rows = [
    [*method.fields.values(), *row.values()] for method, row in found.items()
  ]
  return formats.comma_separated(header, rows)


def made(found: dict[Method, dict]) -> list[Table]:
  """Returns the tables of speeds, and of the stages of a cycle if known."""
  several = len(tables.conditions(found)) > 1
  rows, shares = [], []
  for method, row in found.items():
    name = tables.name(method, several)
    rows.append(
      [
        name,
        _estimate(row, "tokens_per_second", ".1f"),
        _estimate(row, "speedup", ".2f", "x"),
        f"{row['tokens_per_second_by_question']:.1f}",
        _told(row["speedup_by_question"], ".2f", "x"),
        _estimate(row, "milliseconds_per_cycle", ".2f"),
        _estimate(row, "net_gain", "+.1f", " %"),
        f"{row['compile_seconds']:.1f}",
      ]
    )
    own = [row[f"{stage}_share"] for stage in STAGES]
    if own != [None] * len(STAGES):
      shares.append([name, *(_told(share, ".0%") for share in own)])
  header = ["method", "tokens/s", "speed-up", "by question", "speed-up"]
  header += ["ms a cycle", "net gain", "compile s"]
  result = [Table("Speed at batch 1", [], header, rows)]
  if shares:
    result.append(Table("Shares of a cycle", [], ["method", *STAGES], shares))
  return result


def _estimate(row, name, spec, unit="") -> str:
  """Returns the text of a mean, and of its error if known."""
  mean, error = row[name], row[f"{name}_se"]
  known = "" if error is None else f" ± {error:{spec.lstrip('+')}}"
  return NOTHING if mean is None else f"{mean:{spec}}{known}{unit}"


def _told(value, spec, unit="") -> str:
  return NOTHING if value is None else f"{value:{spec}}{unit}"
