"""The paper's tables of acceptance lengths, and sweeps of a user's own.

`sweep` makes an experiment of an axis of the grid. Every table begins with the
gains on the same drafts, and ends with the paper's numbers.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence

from experiments import comparing, experiment, figures, paper
from experiments.experiment import Artefact, Experiment, Group, Shard
from tv_jax import tree as tree_lib
from tv_jax.engine.results import Estimate
from tv_jax.io.errors import UserError
from tv_jax.io.tables import NOTHING, Table
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Cell
from tv_jax.runs.records import PLAIN, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import TASKS

BOTH = ("quickstart", "quickstart:weak")
# How the paper's main tables were drawn: titles say what differs.
AS_PRINTED = Method(proposal=paper.PROPOSAL, temperature=1.0)
NOTES = (
  "Same drafts: how much longer the rule's expected length is than the"
  " baseline's on the drafts of the rule's own run, computed without sampling;"
  " the error is clustered by question. Under a rule's name: its acceptance"
  " length, in each question first with its seeds pooled, then over questions;"
  " ± is the standard error over questions (ddof 1). Check: realised minus"
  " expected length, which must be 0 within its error.",
  "The paper (arXiv 2505.12398) has other pairs; the closest of its three"
  " stands beside, as a pattern and not a reference. Its Delta is of separate"
  " runs.",
)
SPEEDS = (
  "By token: over all cycles of all questions, as in Spec-Bench. Token/s: one"
  " question at a time, prompts included, all methods in turn on the same few"
  " questions of the first seed; ± shows how much these questions differ. Same"
  " drafts is the gain in tokens/s that does not depend on how long these"
  " answers happened to be: the gain in length, over all questions, less the"
  " extra time of a cycle."
)


def sweep(name: str, title: str, axis: str, values: Sequence) -> Experiment:
  """Makes an experiment with a run for each value of an axis.

  Args:
    name: The name of its folder and files.
    title: A short title.
    axis: A field of the config: trees or temperatures.
    values: The values of the axis.
  """
  if axis not in ("trees", "temperatures"):
    raise UserError(f"axis {axis!r}: give trees or temperatures")
  hot = axis == "temperatures"

  def shards(config, smoke: bool) -> Iterator[Shard]:
    del config
    for value in (values[0], values[-1]) if smoke else values:
      if hot:
        yield Shard(f"temperature-{value:g}", {axis: (value,)})
      else:
        yield Shard(re.sub("[:,@/]", "-", value), {axis: value})

  fixed = {} if hot else {"temperatures": (1.0,)}
  return Experiment(
    name=name,
    title=title,
    sweep=shards,
    render=functools.partial(_render, name=name, axis=axis.removesuffix("s")),
    configs=BOTH,
    base={"plain": False, **fixed, **experiment.LENGTHS_ALONE},
  )


def nodes(tree: str) -> float:
  """Returns how many nodes of a tree are drafted."""
  return len(tree_lib.parse(tree)) - 1


def _render(groups: Sequence[Group], *, name: str, axis: str) -> Artefact:
  """Makes a table and two figures of each kind of tree, or of each tree."""
  artefact, trees = Artefact(), axis == "tree"
  x, number = ("drafted nodes", nodes) if trees else (axis, float)
  for group in groups:
    rules = comparing.rules(group)
    panels: dict[str, list[Method]] = {}
    for place in comparing.places(group):
      tree = str(place.tree)
      kind = tree.partition(":")[0] if trees else tree
      fixed = kind, place.proposal, *place.pooled(axis).conditions
      panels.setdefault(", ".join(map(str, fixed)), []).append(place)
    lengths, gains = {}, {}
    for panel, places in panels.items():
      rows = []
      length = lengths[panel] = {rule: {} for rule in rules}
      gain = gains[panel] = {rule: {} for rule in (*rules[1:], "the paper")}
      for place in sorted(places, key=lambda m: number(getattr(m, axis))):
        answers = comparing.answers_of(group.answers, place)
        cells = comparing.compare(answers, rules)
        value = getattr(place, axis)
        rows.append((str(value), _row(cells), _beside(group, place)))
        position = number(value)
        for rule, cell in cells.items():
          if cell:
            length[rule][position] = cell.by_item
          if cell and cell.relative:
            gain[rule][position] = cell.relative
        printed = _printed(group, place)
        if printed and rules[0] == paper.VERIFIERS[0]:
          delta = Estimate(mean=printed.delta, error=math.nan, n=1)
          gain["the paper"][position] = delta
      title = f"{group.name}, {panel}"
      artefact.tables.append(_table(title, axis, rules, rows))
    artefact.figures |= {
      f"{name}-{group.name}": figures.lines(lengths, x=x, y="tokens a cycle"),
      f"{name}-gain-{group.name}": figures.lines(
        gains, x=x, y=f"gain over {rules[0]}, %", zero=True
      ),
    }
    artefact.notes += group.notes
  artefact.notes += NOTES
  return artefact


def _render_main(groups: Sequence[Group]) -> Artefact:
  """Makes a table of each group's trees, proposals and temperatures."""
  artefact = Artefact()
  for group in groups:
    rules = comparing.rules(group)
    gains: dict[str, dict] = {rule: {} for rule in rules[1:]}
    for place in comparing.places(group):
      title = str(place.tree)
      if place.pooled("tree") != AS_PRINTED:
        title = ", ".join([title, str(place.proposal), *place.conditions])
      answers = comparing.answers_of(group.answers, place)
      rows = []
      for task in dict.fromkeys([*TASKS, *(item.task for item in answers)]):
        if of_task := [item for item in answers if item.task == task]:
          cells = comparing.compare(of_task, rules)
          name = TASKS.get(task, task)
          rows.append((name, _row(cells), _beside(group, place, task)))
      cells = comparing.compare(answers, rules)
      rows += [
        ("Average", _row(cells), _beside(group, place)),
        (
          "By token",
          _row(cells, "by_token"),
          _beside(group, place, "by_token"),
        ),
        *_speeds(group, place, cells),
      ]
      for rule, by_tree in gains.items():
        by_tree[title] = (cell := cells[rule]) and cell.relative
      title = f"{group.name}, {title}"
      artefact.tables.append(_table(title, "task", rules, rows))
    for rule, by_tree in gains.items():
      if text := comparing.gains(by_tree):
        artefact.reading.append(
          f"{group.models}: on the same drafts {rule} gains {text}."
        )
    pair = paper.closest(group.config["models"])
    beside = f"the paper's {pair.target} with {pair.draft}"
    artefact.notes += [*group.notes, f"Beside {group.name} stands {beside}."]
  artefact.notes += [*NOTES, SPEEDS]
  return artefact


def _speeds(
  group: Group, place: Method, cells: dict[str, Cell | None]
) -> Iterator[tuple[str, list[str], list[str]]]:
  """Makes the rows of tokens a second, and of speed-ups over plain decoding."""
  times = comparing.times_of(group, place)
  base, *others = (times.get(rule) for rule in cells)
  if not (base or any(others)):
    return
  net = [
    metrics.net(cell.relative, time.slower(base))
    if base and time and cell and cell.relative
    else None
    for time, cell in zip(others, [*cells.values()][1:], strict=True)
  ]
  every = base, *others
  speeds = [tables.estimate(time and time.speed, ".1f") for time in every]
  nothing = [NOTHING] * len(others)
  beside = _beside(group, place, "tokens_per_second", 1)
  gains = [*map(comparing.percent, net)]
  yield "Token/s", [*gains, *speeds, *nothing], beside
  ups = [comparing.speedup(time, times.get(PLAIN)) for time in every]
  beside = _beside(group, place, "speedup")
  yield "Speed-up", [*nothing, *ups, *nothing], beside


def _row(cells: dict[str, Cell | None], mean: str = "by_item") -> list[str]:
  """Returns this run's part of a row: gains, lengths and checks."""
  _, *others = cells.values()
  return [
    *(comparing.percent(cell and cell.relative) for cell in others),
    *(tables.estimate(cell and getattr(cell, mean)) for cell in cells.values()),
    *(tables.estimate(cell and cell.check, "+.3f") for cell in others),
  ]


def _printed(group: Group, place: Method, row: str = "average"):
  """Returns the paper's result of its closest pair, or None."""
  if place.proposal != paper.PROPOSAL or place.temperature is None:
    return None
  pair = paper.closest(group.config["models"])
  return paper.lengths(pair, str(place.tree), place.temperature, row)


def _beside(
  group: Group, place: Method, row: str = "average", digits: int = 2
) -> list[str]:
  """Returns the paper's part of a row: its delta, and both rules."""
  cells = _printed(group, place, row)
  if cells is None:
    return [NOTHING] * 3
  texts = [NOTHING if math.isnan(cells.delta) else f"{cells.delta:+.1f}%"]
  for cell in (cells.token_level, cells.traversal):
    error = "" if math.isnan(cell.error) else f" ± {cell.error:.{digits}f}"
    texts.append(f"{cell.mean:.{digits}f}{error}")
  return texts


def _table(title: str, first: str, rules: Sequence[str], rows) -> Table:
  """Makes a table of rows: each its name, this run's part, and the paper's."""
  others = rules[1:]
  begin = [f"{rule}, " * (len(others) > 1) for rule in others]
  header = [f"{rule}same drafts" for rule in begin]
  header += [*rules, *(f"{rule}check" for rule in begin)]
  groups, beside = [("", 1), ("this run", len(header))], []
  if any({*printed} != {NOTHING} for *_, printed in rows):
    beside = ["Delta", *paper.VERIFIERS]
    groups.append(("the paper", len(beside)))
  rows = [[name, *run, *printed[: len(beside)]] for name, run, printed in rows]
  return Table(title, groups, [first, *header, *beside], rows)


def timed_once(
  config, smoke: bool, seeds: Sequence[int] = experiment.SEEDS
) -> Iterator[Shard]:
  """Makes a shard for each seed, as `by_seed` does; the first is timed."""
  count = 1 if smoke else None
  for i, shard in enumerate(experiment.by_seed(config, count, seeds)):
    untimed = {"timing.per_task": 0, "plain": False} if i else {}
    yield Shard(shard.name, shard.overrides | untimed)


MAIN_TABLE = Experiment(
  name="main_table",
  title="The paper's main tables: three trees, by task, with speeds",
  sweep=timed_once,
  render=_render_main,
  configs=(*BOTH, "quickstart:eagle"),
  base={"temperatures": (1.0,), "explorer.per_task": 0},
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
