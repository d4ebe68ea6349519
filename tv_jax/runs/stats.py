"""Means over cycles, questions and answers, and comparisons, with their errors.

Each function takes a frame and the columns to group by. It returns a frame with
a row for each group and the columns mean, error and n. The cycles of a question
share a context and are not independent, so errors are clustered by question,
and n is the number of questions. A number that is not known, such as the
expected length of a rule that was not computed, is NaN and makes its mean NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tv_jax.runs.records import AXES, DRAFTED_AXES, PLAIN

By = Sequence[str] | str  # one or more columns


def by_question(table: pd.DataFrame, by: By = (), of: str = "gained"):
  """Returns the mean over questions, which is the paper's measure.

  A question's turns are pooled in each seed, and then its seeds are averaged.

  Args:
    table: A frame of cycles or of answers.
    by: The columns to group by.
    of: The column to average.
  """
  return independent(questions(table, by, of).reset_index(), by, of)


def questions(table: pd.DataFrame, by: By = (), of: str = "gained"):
  """Returns each question's mean as a series; `by_question` averages these."""
  keys = [*_columns(by), "question"]
  values = table.astype({of: float}).groupby([*keys, "seed"], observed=True)[of]
  seeds = values.mean(skipna=False).groupby(keys, observed=True)
  return seeds.mean(skipna=False)


def by_token(cycles: pd.DataFrame, by: By = (), of: str = "gained"):
  """Returns the mean over all cycles, which is Spec-Bench's measure.

  Args:
    cycles: A frame of cycles.
    by: The columns to group by.
    of: The column to average.
  """
  return ratio(cycles.assign(count=1), by, [of], ["count"])


def difference(cycles: pd.DataFrame, by: By = (), base: str = "token_level"):
  """Returns the tokens that rules expect beyond `base` on the same drafts.

  The cycles of `base` itself and of plain decoding are left out.
  """
  others = cycles[~cycles["verifier"].isin([base, PLAIN])]
  more = others["expected"] - others[f"expected_{base}"]
  return by_token(others.assign(more=more), by, "more")


def gain(cycles: pd.DataFrame, by: By = (), base: str = "token_level"):
  """Returns `difference` in percent of the expected length of `base`."""
  others = cycles[~cycles["verifier"].isin([base, PLAIN])]
  return percent(ratio(others, by, ["expected"], [f"expected_{base}"]))


def check(cycles: pd.DataFrame, by: By = ()):
  """Returns the mean of realised minus expected length: 0 within its error.

  Given the past, each cycle's difference has mean 0, so cycles are independent
  here, and n is their number.
  """
  left = cycles["gained"] - cycles["expected"]
  return independent(cycles.assign(left=left), by, "left")


def reached(cycles: pd.DataFrame, by: By = (), conditional: bool = False):
  """Returns the share of cycles that accepted d drafted tokens or more.

  Args:
    cycles: A frame of cycles.
    by: The columns to group by.
    conditional: Whether the share is among cycles that accepted d - 1 or more.

  Returns:
    A frame by group and `position`, which is d: from 1 to the most that any
    cycle of the group accepted, or 1.
  """
  keys = [*_columns(by), "question", "gained"]
  counts = cycles.groupby(keys, observed=True).size()
  counts, parts = counts.rename("cycles").reset_index(), {}
  for d in range(1, max(2, cycles["gained"].max())):
    among = counts[counts["gained"] >= d] if conditional else counts
    more = among["cycles"].where(among["gained"] > d, 0)
    parts[d] = ratio(among.assign(more=more), by, ["more"], ["cycles"])
  result = pd.concat(parts, axis=1, names=["position", None]).stack("position")
  position = result.index.get_level_values("position")
  result = result[(result["mean"] > 0) | (position == 1)]
  return result if len(by) else result.droplevel(0)


def ratio(
  table: pd.DataFrame, by: By, over: Sequence[str], under: Sequence[str]
):
  """Returns the ratio of two products of sums.

  Its error is the delta method's: all sums vary together, by question.

  Args:
    table: A frame with the column question.
    by: The columns to group by.
    over: Columns; the numerator is the product of their sums.
    under: As many columns; the denominator is the product of their sums.
  """
  keys = _keys(table, by)
  levels = [*range(len(keys))]
  columns = table[[*over, *under]].astype(float)
  each = columns.groupby([*keys, table["question"]], observed=True)
  each = each.sum(skipna=False)
  sums = each.groupby(level=levels, observed=True)
  sums = sums.transform("sum", skipna=False)
  below = sums[under].prod(axis=1, skipna=False)
  mean = sums[over].prod(axis=1, skipna=False) / below
  # The derivative by each sum, times the question's share of this sum.
  change = -mean * sum(each[name] / sums[name] for name in under)
  for name in over:
    others = sums[over].drop(columns=name).prod(axis=1, skipna=False)
    change += each[name] * others / below
  found = pd.DataFrame({"mean": mean, "squares": change**2})
  found = found.groupby(level=levels, observed=True)
  n = found.size()
  error = (n / (n - 1) * found["squares"].sum(skipna=False)) ** 0.5
  return _frame(found["mean"].first(skipna=False), error.where(n > 1), n, by)


def with_base(times: pd.DataFrame, rule: str) -> pd.DataFrame:
  """Adds the times of a rule for the same questions in the same run.

  Args:
    times: A frame of times.
    rule: A rule, which is compared on the same tree; or "plain".

  Returns:
    The rows that have such times, in the columns `tokens_base`, `seconds_base`
    and `cycles_base`.
  """
  plain = rule == PLAIN
  on = [x for x in AXES if x != "seed" and not (plain and x in DRAFTED_AXES)]
  on = ["run", "asked", *(axis for axis in on if axis != "verifier")]
  base = times.loc[
    times["verifier"] == rule, [*on, "tokens", "seconds", "cycles"]
  ]
  return times.merge(base, on=on, suffixes=("", "_base"))


def net(longer: pd.DataFrame, times: pd.DataFrame, by: By, base: str):
  """Returns the gain in tokens per second over a rule, in percent.

  Args:
    longer: The gain in length of a cycle, in percent, by group.
    times: A frame of times.
    by: The columns to group by.
    base: The rule to compare with.
  """
  both = with_base(times, base)
  over, under = ["seconds", "cycles_base"], ["cycles", "seconds_base"]
  slower = ratio(both, by, over, under)
  longer = longer.reindex(slower.index)
  length, time = 1 + longer["mean"] / 100, slower["mean"]
  error = np.hypot(longer["error"], 100 * slower["error"] * length / time)
  return pd.DataFrame(
    {
      "mean": 100 * (length / time - 1),
      "error": error / time,
      "n": np.fmin(longer["n"], slower["n"]),
    }
  )


def minus_plain(table: pd.DataFrame, by: By, of: str) -> pd.DataFrame:
  """Returns how far methods are from plain decoding, paired by question.

  Args:
    table: A frame of answers.
    by: The columns of methods.
    of: The column to average, as `by_question` does.
  """
  each = questions(table, by, of).reset_index()
  on = ["question", *(x for x in _columns(by) if x not in DRAFTED_AXES)]
  plain = each["verifier"] == PLAIN
  both = each[~plain].merge(
    each.loc[plain, [*on, of]], on=on, suffixes=("", "_plain")
  )
  return independent(
    both.assign(less=both[of] - both[f"{of}_plain"]), by, "less"
  )


def percent(ratios: pd.DataFrame) -> pd.DataFrame:
  """Returns how much larger than 1 ratios are, in percent."""
  mean, error = 100 * (ratios["mean"] - 1), 100 * ratios["error"]
  return ratios.assign(mean=mean, error=error)


def independent(table: pd.DataFrame, by: By, of: str) -> pd.DataFrame:
  """Returns the mean of a column whose rows are independent."""
  groups = table[of].groupby(_keys(table, by), observed=True)
  error = groups.sem(skipna=False)
  return _frame(groups.mean(skipna=False), error, groups.size(), by)


def _columns(by: By) -> list[str]:
  return [by] if isinstance(by, str) else [*by]


def _keys(table: pd.DataFrame, by: By) -> list[pd.Series]:
  """Returns the columns to group by; without any, all rows are one group."""
  one = pd.Series(0, table.index)
  return [table[name] for name in _columns(by)] or [one]


def _frame(mean, error, n, by: By) -> pd.DataFrame:
  """Returns estimates by group; without `by` there is one, also of no row."""
  result = pd.DataFrame({"mean": mean, "error": error, "n": n})
  return result if len(by) else result.reindex([0])
