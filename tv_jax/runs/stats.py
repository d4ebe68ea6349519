"""Means over cycles, questions and answers, and comparisons, with their errors.

Each function takes a frame and the columns to group by. It returns a frame with
a row for each group and the columns mean, error and n. The cycles of a question
share a context and are not independent, so errors are clustered by question. A
number that is not known, such as the expected length of a rule that was not
computed, is NaN and makes its mean NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from tv_jax.engine.results import Estimate
from tv_jax.runs.records import AXES, DRAFTED_AXES, PLAIN

By = Sequence[str]


def by_question(table: pd.DataFrame, by: By = (), of: str = "gained"):
  """Returns the mean over questions, which is the paper's measure.

  A question's turns are pooled in each seed, and then its seeds are averaged.

  Args:
    table: A frame of cycles or of answers.
    by: The columns to group by.
    of: The column to average.
  """
  each = questions(table, by, of).reset_index()
  return _frame(
    {key: Estimate.of(group[of]) for key, group in _groups(each, by)}, by
  )


def questions(table: pd.DataFrame, by: By = (), of: str = "gained"):
  """Returns each question's mean as a series; `by_question` averages these."""
  keys = [*by, "question"]
  seeds = table.groupby([*keys, "seed"], observed=True)[of].mean(skipna=False)
  return seeds.groupby(keys, observed=True).mean(skipna=False)


def by_token(cycles: pd.DataFrame, by: By = (), of: str = "gained"):
  """Returns the mean over all cycles, which is Spec-Bench's measure.

  Args:
    cycles: A frame of cycles.
    by: The columns to group by.
    of: The column to average.
  """
  return _frame(
    {key: _clustered(group, group[of]) for key, group in _groups(cycles, by)},
    by,
  )


def difference(cycles: pd.DataFrame, by: By = (), base: str = "token_level"):
  """Returns the tokens that a rule expects beyond `base` on the same drafts.

  The rows of `base` itself count as 0, so group by verifier or leave them out.
  """
  more = cycles["expected"] - cycles[f"expected_{base}"]
  return by_token(cycles.assign(more=more), by, "more")


def gain(cycles: pd.DataFrame, by: By = (), base: str = "token_level"):
  """Returns `difference` in percent of the expected length of `base`."""
  ours, theirs = "expected", f"expected_{base}"
  return _frame(
    {
      key: relative(group[ours], group[theirs], group["question"])
      for key, group in _groups(cycles, by)
    },
    by,
  )


def check(cycles: pd.DataFrame, by: By = ()):
  """Returns the mean of realised minus expected length: 0 within its error.

  Given the past, each cycle's difference has mean 0, so cycles are independent
  here.
  """
  return _frame(
    {
      key: Estimate.of(group["gained"] - group["expected"])
      for key, group in _groups(cycles, by)
    },
    by,
  )


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
  rows = {}
  for key, group in _groups(cycles, by):
    for d in range(1, max(2, group["gained"].max())):
      among = group[group["gained"] >= d] if conditional else group
      rows[*key, d] = _clustered(among, among["gained"] > d)
  return _frame(rows, [*by, "position"])


def ratio(table: pd.DataFrame, by: By, over: By, under: By):
  """Returns `quotient` of columns.

  Args:
    table: A frame of times.
    by: The columns to group by.
    over: Columns; the numerator is the product of their sums.
    under: As many columns; the denominator is the product of their sums.
  """
  rows = {}
  for key, group in _groups(table, by):
    columns = (group[[*names]].to_numpy().T for names in (over, under))
    rows[key] = quotient(group["question"], *columns)
  return _frame(rows, by)


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


def minus_plain(each: pd.Series) -> pd.DataFrame:
  """Returns how far methods are from plain decoding, paired by question.

  Args:
    each: A mean of each question by method, as `questions` returns it.

  Returns:
    The mean differences by method.
  """
  table = each.rename("value").reset_index()
  columns = map(str, table)
  methods = [name for name in columns if name not in ("value", "question")]
  on = [name for name in methods if name not in DRAFTED_AXES]
  plain = table.loc[table["verifier"] == PLAIN, ["question", *on, "value"]]
  drafted = table[table["verifier"] != PLAIN]
  both = drafted.merge(plain, on=["question", *on], suffixes=("", "_plain"))
  both["less"] = both["value"] - both["value_plain"]
  return _frame(
    {key: Estimate.of(group["less"]) for key, group in _groups(both, methods)},
    methods,
  )


def relative(lengths, base, item) -> Estimate:
  """Returns how much longer `lengths` is than `base`, in percent of the means.

  Args:
    lengths: An array of lengths.
    base: An array of lengths to compare with.
    item: The item of each value, by which the error is clustered.
  """
  found = quotient(item, [lengths], [base])
  mean, error = 100 * (found.mean - 1), 100 * found.error
  return Estimate(mean=mean, error=error, n=found.n)


def quotient(item, over, under) -> Estimate:
  """Returns the ratio of two products of sums, `over` divided by `under`.

  Args:
    item: The item of each value, by which the error is clustered.
    over: Arrays; the numerator is the product of their sums.
    under: As many arrays; the denominator is the product of their sums.

  Returns:
    The quotient. Its error is the delta method's: all sums vary together, by
    item.
  """
  over, under = (np.array([*arrays], np.float64) for arrays in (over, under))
  sums, below = over.sum(1), under.sum(1)
  # The derivative of the quotient with respect to each sum.
  each = [np.delete(sums, k).prod() / below.prod() for k in range(len(sums))]
  value = float(sums.prod() / below.prod())
  influence = each @ over - (value / below) @ under
  error = Estimate.clustered(influence * influence.size, pd.factorize(item)[0])
  return Estimate(mean=value, error=error.error, n=error.n)


def _clustered(table: pd.DataFrame, values) -> Estimate:
  """Estimates a mean over rows, clustered by question."""
  return Estimate.clustered(values, pd.factorize(table["question"])[0])


def _groups(
  table: pd.DataFrame, by: By
) -> Iterable[tuple[tuple, pd.DataFrame]]:
  return table.groupby([*by], observed=True) if by else [((), table)]


def _frame(rows: Mapping[tuple, Estimate], by: By) -> pd.DataFrame:
  """Returns estimates as a frame by group."""
  values = [(x.mean, x.error, x.n) for x in rows.values()]
  result = pd.DataFrame(values, columns=["mean", "error", "n"])
  if by:
    keys = pd.DataFrame([*rows], columns=[*by])
    result.index = pd.MultiIndex.from_frame(keys) if by[1:] else keys[by[0]]
  return result
