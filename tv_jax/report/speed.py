"""Speed: what a run's timing says."""

from __future__ import annotations

from tv_jax import metrics
from tv_jax.report.tables import NOTHING, PLAIN, Table, method_name

STAGES = ("draft", "target", "verify", "commit", "rest")

COLUMNS = (
  "tree",
  "proposal",
  "verifier",
  "temperature",
  "tokens_per_second",
  "speedup",
  "tokens_per_second_by_question",
  "speedup_by_question",
  "tokens_per_cycle",
  "questions",
  "compile_seconds",
  *(f"{stage}_share" for stage in STAGES),
)

DEFINITIONS = (
  "Speed: one question at a time (batch 1), prompts included, after warm-up;"
  " compilation is apart, and all methods take turns on each question."
  " Tokens/s: all tokens by all seconds. By question (Spec-Bench's): the mean"
  " of the questions' own speeds. Speed-up: over plain decoding in the same"
  " run.",
  "Shares: of a cycle whose stages are programs of their own, one after the"
  " other; in one program they are faster.",
)


def rows(timing: dict) -> list[list]:
  """A row of COLUMNS for each method; None where nothing is known."""
  plain = {
    method["temperature"]: metrics.speeds(method)
    for method in timing["methods"]
    if method["verifier"] == PLAIN
  }
  result = []
  for method in timing["methods"]:
    ours, theirs = metrics.speeds(method)
    base = plain.get(method["temperature"])
    result.append(
      [
        *(method[name] for name in COLUMNS[:4]),
        round(ours, 2),
        base and round(ours / base[0], 4),
        round(theirs, 2),
        base and round(theirs / base[1], 4),
        round(sum(method["tokens"]) / sum(method["cycles"]), 4),
        len(method["seconds"]),
        round(method["compile_seconds"], 2),
        *_shares(method["stages"]),
      ]
    )
  return result


def _shares(stages) -> list[float | None]:
  """Of the stages of plain decoding, drawing a token is its verification."""
  if not stages:
    return [None] * len(STAGES)
  stages = {"verify": stages.get("draw"), "draft": 0.0} | stages
  total = sum(stages[name] for name in STAGES)
  return [round(stages[name] / total, 4) for name in STAGES]


def table(timing: dict) -> Table:
  """The same, to be read."""
  header = [
    "method",
    "tokens/s",
    "speed-up",
    "by question",
    "speed-up",
    "compile s",
    *(f"{stage}" for stage in STAGES),
  ]
  made, found = [], rows(timing)
  several = len({(row[1], row[3]) for row in found if row[2] != PLAIN}) > 1
  for row in found:
    tree, proposal, rule, temperature, *numbers = row
    name = method_name(tree, proposal, rule, temperature, several)
    ours, up, theirs, up_theirs, _, _, compiling, *shares = numbers
    made.append(
      [
        name,
        f"{ours:.1f}",
        NOTHING if up is None else f"{up:.2f}x",
        f"{theirs:.1f}",
        NOTHING if up_theirs is None else f"{up_theirs:.2f}x",
        f"{compiling:.1f}",
        *(NOTHING if x is None else f"{x:.0%}" for x in shares),
      ]
    )
  return Table("Speed at batch 1, and shares of a cycle", [], header, made)
