"""Speed: what a run's timing says."""

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
  " run. Compile: on a CPU others may have decoded meanwhile.",
  "Shares: of a cycle whose stages are programs of their own, one after the"
  " other; in one program they are faster.",
)


def speeds(timing: dict) -> dict[Method, dict[str, float | None]]:
  """What is known of each method's speed, by column of timing.csv."""
  timed = {Method.of(one): one for one in timing["methods"]}
  both = {
    method: metrics.speeds(one["tokens"], one["seconds"])
    for method, one in timed.items()
  }
  found = {}
  for method, one in timed.items():
    ours, theirs = both[method]
    base = both.get(method.undrafted)
    found[method] = {
      "tokens_per_second": round(ours, 2),
      "speedup": base and round(ours / base[0], 4),
      "tokens_per_second_by_question": round(theirs, 2),
      "speedup_by_question": base and round(theirs / base[1], 4),
      "tokens_per_cycle": round(sum(one["tokens"]) / sum(one["cycles"]), 4),
      "questions": len(one["seconds"]),
      "compile_seconds": round(one["compile_seconds"], 2),
      **_shares(one["stages"]),
    }
  return found


def _shares(stages) -> dict[str, float | None]:
  """Of the stages of plain decoding, drawing a token is its verification."""
  shares = dict.fromkeys(STAGES)
  if stages:
    stages = {"verify": stages.get("draw"), "draft": 0.0} | stages
    total = sum(stages[name] for name in STAGES)
    shares = {name: round(stages[name] / total, 4) for name in STAGES}
  return {f"{name}_share": share for name, share in shares.items()}


def comma_separated(found: dict[Method, dict]) -> str:
  """As CSV."""
  header = [*tables.AXES, *next(iter(found.values()), ())]
  rows = [
    [*method.fields.values(), *row.values()] for method, row in found.items()
  ]
  return formats.comma_separated(header, rows)


def table(found: dict[Method, dict]) -> Table:
  """The same, to be read."""
  header = ["method"]
  header += ["tokens/s", "speed-up", "by question", "speed-up", "compile s"]
  several = len(tables.conditions(found)) > 1
  rows = [
    [
      tables.name(method, several),
      f"{row['tokens_per_second']:.1f}",
      _told(row["speedup"], ".2f", "x"),
      f"{row['tokens_per_second_by_question']:.1f}",
      _told(row["speedup_by_question"], ".2f", "x"),
      f"{row['compile_seconds']:.1f}",
      *(_told(row[f"{name}_share"], ".0%") for name in STAGES),
    ]
    for method, row in found.items()
  ]
  title = "Speed at batch 1, and shares of a cycle"
  return Table(title, [], [*header, *STAGES], rows)


def _told(value, spec, unit="") -> str:
  return NOTHING if value is None else f"{value:{spec}}{unit}"
