"""The paper's tables of acceptance lengths, and sweeps of a user's own.

`sweep` makes an experiment of an axis of the grid. Every table begins with the
gains on the same drafts, and ends with the paper's numbers.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence

import pandas as pd

from experiments import experiment, figures, paper
from experiments.experiment import Experiment, Group
from tv_jax import runs
from tv_jax import tree as tree_lib
from tv_jax.io.errors import UserError
from tv_jax.runs import stats
from tv_jax.runs.frame import with_all
from tv_jax.runs.records import ALL, CONDITION, PLAIN, TASKS, in_words
from tv_jax.runs.stats import by_question, by_token
from tv_jax.runs.tables import NOTHING, Report, Table, texts

BOTH = ("quickstart", "quickstart:weak")
# How the paper's main tables were drawn: titles say what differs.
AS_PRINTED = {"proposal": paper.PROPOSAL, "temperature": 1.0}
NOTE = (
  "Same drafts: how much longer the rule's expected length is than the"
  " baseline's on the drafts of the rule's own run, computed without sampling;"
  " the error is clustered by question. Under a rule's name: its acceptance"
  " length, in each question first with its seeds pooled, then over questions;"
  " ± is the standard error over questions (ddof 1). Check: realised minus"
  " expected length, which must be 0 within its error."
)
PAPER = (
  "The paper (arXiv 2505.12398) has other pairs; the closest of its three"
  " stands beside, as a pattern and not a reference. Its Delta is of separate"
  " runs."
)
BY_TOKEN = "By token: over all cycles of all questions, as in Spec-Bench."
SPEEDS = (
  "Token/s: one"
  " question at a time, prompts included, all methods in turn on the same few"
  " questions of the first seed; ± shows how much these questions differ. Same"
  " drafts is the gain in tokens/s that does not depend on how long these"
  " answers happened to be: the gain in length, over all questions, less the"
  " extra time of a cycle."
)


def sweep(
  name: str, title: str, axis: str, values: Sequence, **fields
) -> Experiment:
  """Makes an experiment with a run for each value of an axis.

  Args:
    name: The name of its folder and files.
    title: A short title.
    axis: A field of the config: trees or temperatures.
    values: The values of the axis.
    **fields: Fields to set in all runs; several temperatures of a sweep over
      trees, for example.
  """
  if axis not in ("trees", "temperatures"):
    raise UserError(f"axis {axis!r}: give trees or temperatures")

  def shards(config, smoke: bool) -> dict[str, dict]:
    del config
    run = (values[0], values[-1]) if smoke else values
    if axis == "temperatures":
      return {f"temperature-{value:g}": {axis: (value,)} for value in run}
    return {re.sub("[:,@/]", "-", value): {axis: value} for value in run}

  return Experiment(
    name=name,
    title=title,
    sweep=shards,
    render=functools.partial(_render, name=name, axis=axis.removesuffix("s")),
    configs=BOTH,
    base={"plain": False, **experiment.LENGTHS_ALONE, **fields},
  )


def nodes(tree: str) -> float:
  """Returns how many nodes of a tree are drafted."""
  return len(tree_lib.parse(tree)) - 1


def _render(groups: Sequence[Group], *, name: str, axis: str) -> Report:
  """Makes a table and two figures of each kind of tree, or of each tree."""
  report, trees = Report(), axis == "tree"
  x, number = ("drafted nodes", nodes) if trees else (axis, float)
  fixed = ["kind", *(part for part in CONDITION if part != axis)]
  for group in groups:
    report.notes += group.notes
    if group.drafted.empty:
      continue
    rules, lengths, gains = group.rules, {}, {}
    kinds = group.drafted["tree"].astype(str)
    if trees:
      kinds = kinds.str.partition(":")[0]
    cycles = group.drafted.assign(kind=pd.Categorical(kinds, kinds.unique()))
    for values, part in cycles.groupby(fixed, observed=True):
      kind, *others = values
      words = in_words(fixed[1:], others)
      rows = sorted(part[axis].unique(), key=number)
      printed = [
        _printed(group, part[part[axis] == value].iloc[0]) for value in rows
      ]
      table = this_run(part, axis, rules).loc[rows]
      table.index = table.index.map(str).rename(axis)
      report.tables.append(
        _table(f"{group.name}, {kind}, {words}", table, printed)
      )
      by, part = ["verifier", "x"], part.assign(x=part[axis].map(number))
      panel = f"{kind}, {words}"
      lengths[panel] = by_question(part, by)
      gains[panel] = stats.gain(part, by, rules[0])
      for value, cells in zip(rows, printed, strict=True):
        if cells is not None and rules[0] == paper.VERIFIERS[0]:
          point = "the paper", number(value)
          gains[panel].loc[point, :] = cells["delta"], math.nan, 1
    report.figures |= {
      f"{name}-{group.name}": figures.lines(lengths, x=x, y="tokens a cycle"),
      f"{name}-gain-{group.name}": figures.lines(
        gains, x=x, y=f"gain over {rules[0]}, %", zero=True
      ),
    }
  report.notes += [NOTE, *_about_paper(groups)]
  return report


def _render_main(groups: Sequence[Group]) -> Report:
  """Makes a table of each group's trees, proposals and temperatures."""
  report = Report()
  for group in groups:
    rules = group.rules
    base, *others = rules
    gains = {}
    places = group.drafted.groupby(["tree", *CONDITION], observed=True)
    for (tree, *values), cycles in places:
      fixed = dict(zip(CONDITION, values, strict=True))
      words = in_words(CONDITION, values)
      title = tree if fixed == AS_PRINTED else f"{tree}, {words}"
      by_task = this_run(with_all(cycles), "task", rules)
      pooled = this_run(cycles.assign(task="By token"), "task", rules, by_token)
      gain = stats.gain(cycles, ["verifier"], base)
      table = pd.concat(
        [by_task, pooled, _speeds(group, str(tree), fixed, gain)]
      ).fillna(NOTHING)
      first = cycles.iloc[0]
      keys: list = [{ALL: "average"}.get(task, task) for task in by_task.index]
      keys += ["by_token", "tokens_per_second", "speedup"]
      printed = [_printed(group, first, key) for key in keys[: len(table)]]
      table.index = [
        {ALL: "Average"}.get(x, TASKS.get(x, x)) for x in table.index
      ]
      table.index.name = "task"
      report.tables.append(_table(f"{group.name}, {title}", table, printed))
      gains[title] = gain.dropna(subset="mean")
    for rule in others:
      parts = {x: y.loc[rule] for x, y in gains.items() if rule in y.index}
      if parts:
        said = _said(pd.DataFrame(parts).T)
        report.findings.append(
          f"{group.models}: on the same drafts {rule} gains {said}."
        )
    report.notes += group.notes
    if pair := paper.closest(group.config["models"]):
      beside = f"the paper's {pair.target} with {pair.draft}"
      report.notes.append(f"Beside {group.name} stands {beside}.")
  report.notes += [NOTE, *_about_paper(groups), BY_TOKEN]
  if any(unit.timing for group in groups for unit in group.units):
    report.notes.append(SPEEDS)
  return report


def this_run(
  cycles: pd.DataFrame,
  row: str,
  rules: Sequence[str],
  mean: Callable[..., pd.DataFrame] = by_question,
) -> pd.DataFrame:
  """Makes this run's part of a table: gains, lengths and checks.

  Args:
    cycles: A frame of cycles.
    row: The column that has the table's rows.
    rules: The baseline, and the other rules.
    mean: `by_question` or `by_token`.
  """
  by, others = [row, "verifier"], rules[1:]
  begin = [f"{rule}, " if others[1:] else "" for rule in others]
  parts = [
    (stats.gain(cycles, by, rules[0]), "+.1f", " %", others, "same drafts"),
    (mean(cycles, by), ".2f", "", rules, ""),
    (stats.check(cycles, by), "+.3f", "", others, "check"),
  ]
  columns = [
    texts(found, spec, unit)
    .unstack("verifier", sort=False)
    .reindex(columns=[*shown])
    .set_axis([x + name for x in begin] if name else [*shown], axis=1)
    for found, spec, unit, shown, name in parts
  ]
  result = pd.concat(columns, axis=1).fillna(NOTHING)
  return result.loc[cycles[row].drop_duplicates().sort_values()]


def _speeds(
  group: Group, tree: str, fixed: dict, gain: pd.DataFrame
) -> pd.DataFrame | None:
  """Makes the rows of tokens a second, and of speed-ups over plain decoding.

  They are of the first run that has timed the tree: times of several runs are
  not compared.
  """
  times = runs.timings(group.units)
  if times.empty:
    return None
  same = times["temperature"] == fixed["temperature"]
  drafted = (times["tree"] == tree) & (times["proposal"] == fixed["proposal"])
  if not (same & drafted).any():
    return None
  first = times["run"] == times.loc[same & drafted, "run"].iloc[0]
  times = times[same & first & (drafted | (times["verifier"] == PLAIN))]
  by, (base, *others) = ["verifier"], group.rules
  tokens, seconds = ["tokens"], ["seconds"]
  speeds = texts(stats.ratio(times, by, tokens, seconds), ".1f")
  over, under = ["tokens", "seconds_base"], ["seconds", "tokens_base"]
  ups = texts(stats.ratio(stats.with_base(times, PLAIN), by, over, under))
  net = texts(stats.net(gain, times, by, base), "+.1f", " %")
  begin = [f"{rule}, " if others[1:] else "" for rule in others]
  longer = {
    f"{x}same drafts": net.get(rule, NOTHING)
    for x, rule in zip(begin, others, strict=True)
  }
  rows = {"Token/s": longer | speeds.to_dict(), "Speed-up": ups.to_dict()}
  return pd.DataFrame(rows).T.drop(columns=PLAIN, errors="ignore")


def _said(gains: pd.DataFrame) -> str:
  """Says how large each gain is and how sure."""
  numbers = texts(gains, "+.1f", " %").to_dict()
  return ", ".join(
    f"{numbers[name]} on {name} ({sigmas(gain)})"
    for name, gain in gains.iterrows()
  )


def sigmas(value: pd.Series) -> str:
  """Says how sure it is that a number is not 0."""
  if not value["error"] > 0:
    return "of an error that is not known"
  far = value["mean"] / value["error"]
  near = "0 within its error, " if math.fabs(far) < 2 else ""
  return f"{near}{far:+.1f} sigma"


def _printed(group: Group, where: pd.Series, row: str = "average"):
  """Returns the paper's result of its closest pair, or None.

  Args:
    group: The runs.
    where: A row of a frame, with its tree, proposal and temperature.
    row: A row of the paper's table.
  """
  pair = paper.closest(group.config["models"])
  if pair is None or where["proposal"] != paper.PROPOSAL:
    return None
  return paper.lengths(pair, where["tree"], where["temperature"], row)


def _about_paper(groups: Sequence[Group]) -> list[str]:
  pairs = [paper.closest(group.config["models"]) for group in groups]
  return [PAPER] if any(pairs) else []


def _beside(cells: pd.Series | None, digits: int) -> list[str]:
  """Returns the paper's part of a row: its delta, and both rules."""
  if cells is None:
    return [NOTHING] * 3
  delta = cells["delta"]
  parts = [NOTHING if math.isnan(delta) else f"{delta:+.1f}%"]
  for rule in paper.VERIFIERS:
    error = cells[f"{rule}_se"]
    error = "" if math.isnan(error) else f" ± {error:.{digits}f}"
    parts.append(f"{cells[rule]:.{digits}f}{error}")
  return parts


def _table(title: str, cells: pd.DataFrame, printed: Sequence) -> Table:
  """Makes a table of this run's columns, and of the paper's if it has any."""
  groups = {"this run": cells}
  if any(row is not None for row in printed):
    rows = [
      _beside(row, 1 if name == "Token/s" else 2)
      for name, row in zip(cells.index, printed, strict=True)
    ]
    names = ["Delta", *paper.VERIFIERS]
    groups["the paper"] = pd.DataFrame(rows, cells.index, names)
  return Table(title, pd.concat(groups, axis=1))


def timed_once(config, smoke: bool) -> dict[str, dict]:
  """Makes a shard for each seed, as `by_seed` does; the first is timed."""
  first, *others = experiment.by_seed(config, smoke).items()
  untimed = {"timing.per_task": 0, "plain": False}
  return dict([first]) | {name: own | untimed for name, own in others}


MAIN_TABLE = Experiment(
  name="main_table",
  title="The paper's main tables: three trees, by task",
  sweep=timed_once,
  render=_render_main,
  configs=(*BOTH, "quickstart:eagle"),
  base={"explorer.per_task": 0},
)
TEMPERATURE = sweep(
  "temperature",
  "Temperatures: the paper's table of them, and the gain as a figure",
  "temperatures",
  (0.2, 0.4, 0.6, 0.8, 1.0),
)
DEPTH = sweep(
  "depth",
  "Depths: chains and binary trees, as in the paper's figure",
  "trees",
  [f"chain:{d}" for d in (2, 4, 6, 8)] + [f"kary:2x{d}" for d in (2, 3, 4, 5)],
)
