"""The numbers of a run, and the tables that show them.

`measures` computes all numbers without speeds once; cells.csv is its content.
Each table is a selection of them as text. Without speeds the same answers give
the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable

import pandas as pd

from tv_jax.runs import stats
from tv_jax.runs.frame import with_all
from tv_jax.runs.records import ALL, AXES, CONDITION, METHOD, PLAIN, TASKS
from tv_jax.runs.tables import NOTHING, Table, by_method, texts

# Seeds are pooled in all tables.
BY = ["task", *METHOD]

DEFINITIONS = (
  "Acceptance length: tokens gained per cycle. The bonus token counts; an end"
  " token or the limit cuts only afterwards. By item (the paper): the mean of"
  " each question first (its turns pooled, then the mean over its seeds), then"
  " over questions. By token (Spec-Bench): the mean over all cycles, which"
  " engines print as 1 + accepted / drafts. docs/reproduce.md compares"
  " systems.",
  "By position: reached d is the share of cycles that accept at least d drafted"
  " tokens; conditional d is that share among the cycles that accept d - 1."
  " Drafted: nodes that a cycle really drafted, without the root.",
  "±: one standard error over questions (ddof 1). For means over cycles it is"
  " clustered by question.",
  "Expected: the acceptance length that a rule expects on a given draft,"
  " computed without sampling. Same drafts: how much more the rule expects than"
  " the baseline on the same drafts. This is the gain of one cycle in the"
  " contexts that the running rule reaches, not a difference of long runs."
  " Gain: the same in percent of what the baseline expects.",
  "Check: realised minus expected length, by cycle. It must be 0 within its"
  " error. More than four errors from 0 is a bug.",
  "Exact match: the share of answers whose last line equals the reference.",
)
SPEED_DEFINITIONS = (
  "Speed: one question at a time (batch 1), prompts included, after warm-up,"
  " without compilation; all methods take turns on each question. Tokens/s:"
  " all tokens over all seconds. By question (Spec-Bench's): the mean of the"
  " questions' own speeds. Speed-up: over plain decoding in the same run. ±:"
  " one standard error over the timed questions.",
  "Net gain: in tokens per second, over the baseline on the same tree. It is"
  " (1 + gain) / (1 + extra time of a cycle) - 1. The gain is on the same"
  " drafts of all questions, the time is of the timed questions, with prompts.",
)


def measures(
  cycles: pd.DataFrame, answers: pd.DataFrame, baseline: str
) -> pd.DataFrame:
  """Computes a run's numbers, by task and method.

  Args:
    cycles: A frame of cycles.
    answers: A frame of answers.
    baseline: The rule to compare with on the same drafts.

  Returns:
    A frame with the index `BY`. Each of its estimates has the columns mean,
    error and n; `items`, `cycles`, `faults` and `failed` are counts.
  """
  cycles, answers = with_all(cycles), with_all(answers)
  scored = answers[answers["right"].notna()]
  failed = answers["error"].notna()
  counts = answers.assign(failed=failed).groupby(BY, observed=True)
  estimates = {
    "acceptance_by_item": stats.by_question(cycles, BY),
    "acceptance_by_token": stats.by_token(cycles, BY),
    "drafted": stats.by_token(cycles, BY, "drafted"),
    "expected": stats.by_token(cycles, BY, "expected"),
    "exact_match": stats.by_question(scored, BY, "right"),
    "gain": stats.difference(cycles, BY, baseline),
    "gain_percent": stats.gain(cycles, BY, baseline),
    "check": stats.check(cycles, BY),
  }
  sums = counts[["cycles", "faults", "failed"]].sum()
  sums = sums.set_axis(pd.MultiIndex.from_product([sums.columns, [""]]), axis=1)
  result = pd.concat(estimates, axis=1).reindex(sums.index)
  return pd.concat([result, sums], axis=1)


def as_csv(measured: pd.DataFrame) -> str:
  """Returns all numbers as CSV, with mean, error and n of each estimate."""
  result = measured.reorder_levels(["task", *(x for x in AXES if x != "seed")])
  columns: list = [*measured.columns]
  for name, kind in columns:
    if kind == "n":  # nothing was averaged
      known = result[name, "mean"].notna()
      result[name, kind] = result[name, kind].where(known, 0).astype(int)
  ends = {"error": "_se", "n": "_n"}
  result.columns = [f"{name}{ends.get(kind, '')}" for name, kind in columns]
  return result.round(6).to_csv()


def _estimates(measured: pd.DataFrame, name: str) -> pd.DataFrame:
  """Returns the mean, the error and the n of a measure."""
  return pd.DataFrame(measured[name])


def conditions(measured: pd.DataFrame) -> dict[tuple, pd.DataFrame]:
  """Returns the numbers of each condition, by task, tree and rule."""
  rule = measured.index.get_level_values("verifier")
  parts = measured[rule != PLAIN].groupby(level=CONDITION, sort=False)
  return {
    values: part.droplevel(list[Hashable](CONDITION)) for values, part in parts
  }


def lengths(title: str, part: pd.DataFrame, baseline: str) -> Table:
  """Makes the paper's main table: lengths by item, trees side by side."""
  by_item = texts(_estimates(part, "acceptance_by_item"))
  gains = texts(_estimates(part, "gain_percent"), "+.2f", " %")
  columns = {}
  for tree, methods in part.loc[ALL].groupby(level="tree", sort=False):
    rules = methods.index.get_level_values("verifier")
    others = [rule for rule in rules if rule != baseline]
    for rule in rules:
      columns[tree, rule] = by_item.xs((tree, rule), level=(1, 2))
    for rule in others if baseline in rules else []:
      name = f"gain {rule}" if others[1:] else "gain"
      columns[tree, name] = gains.xs((tree, rule), level=(1, 2))
  cells = pd.DataFrame(columns).reindex(_tasks(part)).fillna(NOTHING)
  heading = "Acceptance length by item, gains on the same drafts"
  return Table(f"{heading}: {title}", _named(cells))


def paired(title: str, part: pd.DataFrame, baseline: str) -> Table:
  """Makes the table of expected lengths, paired gains and checks."""
  shown = pd.DataFrame(part.loc[ALL])
  cells = pd.DataFrame(
    {
      "by item": texts(_estimates(shown, "acceptance_by_item"), ".3f"),
      "by token": texts(_estimates(shown, "acceptance_by_token"), ".3f"),
      "expected": texts(_estimates(shown, "expected"), ".3f"),
      f"minus {baseline}": texts(_estimates(shown, "gain"), "+.3f"),
      "gain": texts(_estimates(shown, "gain_percent"), "+.2f", " %"),
      "check": texts(_estimates(shown, "check"), "+.3f"),
      "items": shown["acceptance_by_item", "n"].fillna(0).map("{:.0f}".format),
      "cycles": shown["cycles"].map(str),
      "drafted": texts(_estimates(shown, "drafted"), ".1f"),
    }
  )
  silent = shown.index[shown["expected", "mean"].isna() & (shown["cycles"] > 0)]
  notes = tuple(
    f"{rule} has no stopping distribution, and so no expected lengths. To have"
    " them, give a Verifier(offers=..) and name that (docs/rules.md,"
    " section 5)."
    for rule in silent.get_level_values("verifier").unique()
  )
  return Table(f"The same drafts: {title}", cells, notes)


def positions(title: str, cycles: pd.DataFrame) -> Table:
  """Makes the table of how deep drafts are accepted: shares of cycles.

  A dash stands where no cycle on the tree came so far.
  """
  by = ["tree", "verifier"]
  reached = texts(stats.reached(cycles, by)).unstack("position", sort=False)
  deep = reached.notna().groupby(level="tree", sort=False).transform("any")
  conditional = texts(stats.reached(cycles, by, conditional=True))
  parts = {
    "reached": reached.mask(deep & reached.isna(), f"{0:.2f} ± {0:.2f}"),
    "conditional": conditional.unstack("position", sort=False),
  }
  cells = pd.concat(parts, axis=1).loc[reached.index]
  cells.columns = pd.MultiIndex.from_tuples(
    [(part, str(d)) for part, d in cells.columns]
  )
  return Table(f"By position: {title}", cells.fillna(NOTHING))


def exact_match(measured: pd.DataFrame) -> Table | None:
  """Makes the table of right answers; None if nothing has a reference."""
  shares = _estimates(measured, "exact_match")
  if shares["mean"].isna().all():
    return None
  cells = texts(shares).unstack("task").reindex(columns=_tasks(shares))
  # In the order of the methods, plain decoding first.
  cells = cells.loc[measured.loc[ALL].index].fillna(NOTHING)
  return Table("Exact match", by_method(_named(cells.T).T))


def speeds(times: pd.DataFrame, measured: pd.DataFrame, baseline: str) -> Table:
  """Makes the table of speeds.

  Args:
    times: A frame of times.
    measured: The output of `measures`.
    baseline: The rule to compare with.
  """
  by = METHOD
  each = times.assign(
    speed=times["tokens"] / times["seconds"], ms=1e3 * times["seconds"]
  )
  beside = stats.with_base(each, PLAIN)
  beside["base"] = beside["tokens_base"] / beside["seconds_base"]
  speed, base = (
    stats.by_token(table, by, of)["mean"]
    for table, of in ((each, "speed"), (beside, "base"))
  )
  over, under = ["tokens", "seconds_base"], ["seconds", "tokens_base"]
  longer = _estimates(pd.DataFrame(measured.loc[ALL]), "gain_percent")
  net = stats.net(longer, times, by, baseline)
  compiling = each.groupby(by, observed=True)["compile_seconds"].first()
  cells = {
    "tokens/s": texts(stats.ratio(each, by, ["tokens"], ["seconds"]), ".1f"),
    "speed-up": texts(stats.ratio(beside, by, over, under)),
    "by question": speed.map("{:.1f}".format),
    "its speed-up": (speed / base).dropna().map("{:.2f}".format),
    "ms a cycle": texts(stats.ratio(each, by, ["ms"], ["cycles"])),
    "net gain": texts(net, "+.1f", " %"),
    "compile s": compiling.map("{:.1f}".format),
  }
  result = pd.DataFrame(cells).loc[speed.index].fillna(NOTHING)
  return Table("Speed at batch 1", by_method(result))


def _tasks(part: pd.DataFrame) -> list[str]:
  return [*part.index.get_level_values("task").unique()]


def _named(cells: pd.DataFrame) -> pd.DataFrame:
  """Names tasks as Spec-Bench does, if all are tasks of Spec-Bench."""
  names = {ALL: "All"} | (TASKS if {*cells.index} <= {*TASKS, ALL} else {})
  return cells.rename(index=names)
