"""The paper's tables of acceptance lengths: an experiment each, one renderer.

`sweep` makes an experiment of any axis of the grid:

  WIDTH = sweeps.sweep(
    "width", "Width", "trees", ["branching:2,1", "branching:4,1"]
  )
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from experiments import comparing, drawing, experiment, paper
from experiments.experiment import Artefact, Experiment, Group, Shard
from tv_jax import tree as tree_lib
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Cell
from tv_jax.runs.records import PLAIN, Answer, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, TASKS, Table

BOTH = ("quickstart", "quickstart:weak")
GAIN = "gain over {}, %"
DEFINITIONS = (
  "Same drafts: how much longer the rule's expected length is than the"
  " baseline's on the drafts of the rule's own run, computed without sampling;"
  " the error is clustered by question. Under a rule's name: its acceptance"
  " length, in each question first with its seeds pooled, then over questions;"
  " ± is the standard error over questions (ddof 1). Check: realised minus"
  " expected length, which must be 0 within its error.",
  "The paper (arXiv 2505.12398) has another pair, the closest of its three: its"
  " numbers show a pattern, not a reference. Its Delta is of separate runs.",
)
SPEEDS = (
  "By token: over all cycles of all questions, as in Spec-Bench. Token/s: one"
  " question at a time, prompts included, all methods in turn on the same few"
  " questions of the first seed; ± shows how much these questions differ. Same"
  " drafts is the gain in tokens/s that does not depend on how long these"
  " answers happened to be: the gain in length, over all questions, less the"
  " extra time of a cycle."
)


def sweep(
  name: str,
  title: str,
  axis: str,
  values: Sequence,
  *,
  configs: Sequence[str] = BOTH,
  x: str = "",
  number: Callable[[Any], float] | None = None,
) -> Experiment:
  """Makes an experiment with a run for each value of an axis.

  Args:
    name: Of its folder and its files.
    title: One line.
    axis: A field of the config: trees, proposals or temperatures.
    values: The axis's.
    configs: The bundled configs to run by default.
    x: What the figures' horizontal axis is called; by default as the axis.
    number: Of a value: its place there; by default a tree's nodes.
  """
  field = axis.removesuffix("s")
  if number is None and field != "proposal":
    number = nodes if field == "tree" else float

  def shards(config, smoke: bool) -> Iterator[Shard]:
    del config
    for value in (values[0], values[-1]) if smoke else values:
      if axis == "temperatures":
        yield Shard(f"temperature-{value:g}", {axis: (value,)})
      else:
        yield Shard(re.sub("[:,@/]", "-", value), {axis: value})

  fixed = {} if axis == "temperatures" else {"temperatures": (1.0,)}
  return Experiment(
    name=name,
    title=title,
    sweep=shards,
    render=functools.partial(
      _render, name=name, field=field, x=x or field, number=number
    ),
    configs=tuple(configs),
    base={"plain": False, **fixed, **experiment.LENGTHS_ALONE},
  )


def nodes(tree: str) -> float:
  """Returns how many nodes of a tree are drafted."""
  return len(tree_lib.parse(tree)) - 1


def depth(tree: str) -> float:
  """Returns a tree's depth."""
  return tree_lib.parse(tree).max_depth


def _render(groups: Sequence[Group], *, name, field, x, number) -> Artefact:
  """Makes a table of each panel, and draws lengths and gains."""
  made = Artefact()
  for group in groups:
    rules = comparing.rules(group)
    base, *others = rules
    pair = paper.closest(group.config["models"])
    panels: dict[str, list[Method]] = {}
    for place in comparing.places(group):
      panels.setdefault(_panel(place, field), []).append(place)
    lengths, gains = {}, {}
    for panel, places in panels.items():
      rows, by_rule, over = [], {}, {}
      places.sort(key=lambda one: number(getattr(one, field)) if number else 0)
      for place in places:
        cells = comparing.compare(comparing.of(group.answers, place), rules)
        printed = _printed(pair, place)
        value = getattr(place, field)
        rows.append([f"{value}", *_row(cells), *_paper(printed)])
        if not number:
          continue
        at = number(value)
        for rule, cell in cells.items():
          if cell:
            by_rule.setdefault(rule, {})[at] = cell.by_item
          if cell and cell.relative:
            over.setdefault(rule, {})[at] = cell.relative
        if printed and "traversal" in others:
          over.setdefault("the paper", {})[at] = Estimate(
            mean=printed.delta, error=math.nan, n=1
          )
      made.tables.append(_table(f"{group.name}, {panel}", field, rules, rows))
      lengths[panel], gains[panel] = by_rule, over
      for rule in others:
        made.reading += _growth(group, panel, rule, over.get(rule, {}), x)
    made.notes += group.notes
    if number:
      made.figures |= {
        f"{name}-{group.name}": drawing.lines(lengths, x=x, y="tokens a cycle"),
        f"{name}-gain-{group.name}": drawing.lines(
          gains, x=x, y=GAIN.format(base), zero=True
        ),
      }
  made.notes += DEFINITIONS
  return made


def _panel(place: Method, field: str) -> str:
  """Returns what places of one table have in common, in words."""
  parts = [] if field == "proposal" else [place.proposal]
  if place.tree:
    kind = place.tree.partition(":")[0]
    parts.insert(0, kind if field == "tree" else place.tree)
  return ", ".join([*parts, *place.pooled(field).numbers])


def _growth(group, panel, rule, found, x) -> Iterator[str]:
  """Says how a gain changes along an axis; nothing if there are few points."""
  if line := comparing.slope(found):
    low, high = (
      f"{comparing.percent(found[at])} at {at:g}"
      for at in (min(found), max(found))
    )
    yield (
      f"{group.models}, {panel}: on the same drafts {rule} gains {low}, {high}:"
      f" {comparing.percent(line)} for each 1 of {x}"
      f" ({comparing.sigmas(line)})."
    )


def _main_render(groups: Sequence[Group]) -> Artefact:
  """Makes a table for each tree and condition of each group."""
  made = Artefact()
  for group in groups:
    rules = comparing.rules(group)
    gains = {rule: {} for rule in rules[1:]}
    for place in comparing.places(group):
      answers = comparing.of(group.answers, place)
      whole = comparing.compare(answers, rules)
      title = f"{place.tree}, {place.proposal}, {', '.join(place.numbers)}"
      rows = _main_rows(group, place, rules, answers, whole)
      made.tables.append(_table(f"{group.name}, {title}", "task", rules, rows))
      for rule, own in gains.items():
        if cell := whole[rule]:
          own[title if place.temperature != 1 else place.tree] = cell.relative
    for rule, own in gains.items():
      if told := comparing.gains(own):
        made.reading.append(
          f"{group.models}: on the same drafts {rule} gains {told}."
        )
    pair = paper.closest(group.config["models"])
    made.notes += [
      *group.notes,
      f"Beside {group.name} are the paper's numbers of {pair.target} with"
      f" {pair.draft}.",
    ]
  made.notes += [*DEFINITIONS, SPEEDS]
  return made


def _main_rows(
  group: Group,
  place: Method,
  rules: Sequence[str],
  answers: Sequence[Answer],
  whole: dict[str, Cell | None],
) -> Iterator[list[str]]:
  """Makes a row of each task, of the averages, and of speeds."""
  pair = paper.closest(group.config["models"])
  there = dict.fromkeys([*TASKS, *(one.task for one in answers)])
  for task in there:
    if own := [one for one in answers if one.task == task]:
      cells = comparing.compare(own, rules)
      printed = _paper(_printed(pair, place, task))
      yield [TASKS.get(task, task), *_row(cells), *printed]
  yield ["Average", *_row(whole), *_paper(_printed(pair, place))]
  yield [
    "By token",
    *_row(whole, "by_token"),
    *_paper(_printed(pair, place, "by_token")),
  ]
  times = comparing.times_of(group, place)
  speeds = [times.get(rule) for rule in rules]
  if not any(speeds):
    return
  base, *others = speeds
  net = [
    metrics.net(cell.relative, one.slower(base))
    if base and one and (cell := whole[rule]) and cell.relative
    else None
    for rule, one in zip(rules[1:], others, strict=True)
  ]
  nothing = [NOTHING] * len(others)
  yield [
    "Token/s",
    *map(comparing.percent, net),
    *(tables.estimate(one and one.speed, ".1f") for one in speeds),
    *nothing,
    *_paper(_printed(pair, place, "tokens_per_second"), 1),
  ]
  ups = (comparing.speedup(one, times.get(PLAIN)) for one in speeds)
  yield ["Speed-up", *nothing, *ups, *nothing, *_paper_speedup(pair, place)]


def _paper_speedup(pair: paper.Pair, place: Method) -> list[str]:
  printed, plain = _printed(pair, place, "speedup"), 1.0
  if pair.plain:
    printed, plain = _printed(pair, place, "tokens_per_second"), pair.plain
  if printed is None:
    return _paper(None)
  both = printed.token_level, printed.traversal
  return [NOTHING, *(f"{one.mean / plain:.2f}x" for one in both)]


def _printed(
  pair: paper.Pair, place: Method, row: str = "average"
) -> paper.Comparison | None:
  """Returns what the paper prints of a place."""
  if place.proposal != paper.PROPOSAL:
    return None
  return paper.lengths(pair, str(place.tree), place.temperature or 0.0, row)


def _table(title: str, first: str, rules: Sequence[str], rows) -> Table:
  """Makes a table: this run's numbers, and the paper's where it has any."""
  others = rules[1:]
  several = len(others) > 1
  header = [
    *(f"{rule}, same drafts" if several else "same drafts" for rule in others),
    *rules,
    *(f"{rule}, check" if several else "check" for rule in others),
  ]
  beside = ["Delta", *paper.VERIFIERS]
  rows = [*rows]
  groups = [("", 1), ("this run", len(header)), ("the paper", len(beside))]
  if all({*row[-len(beside) :]} == {NOTHING} for row in rows):
    groups, beside = [], []
    rows = [row[: 1 + len(header)] for row in rows]
  return Table(title, groups, [first, *header, *beside], rows)


def _row(cells: dict[str, Cell | None], mean: str = "by_item") -> list[str]:
  """Returns this run's cells: gains, lengths and checks."""
  _, *others = cells.values()
  return [
    *(comparing.percent(cell and cell.relative) for cell in others),
    *(tables.estimate(cell and getattr(cell, mean)) for cell in cells.values()),
    *(tables.estimate(cell and cell.check, "+.3f") for cell in others),
  ]


def _paper(cells: paper.Comparison | None, digits: int = 2) -> list[str]:
  """Returns the paper's cells: its delta, and both rules."""
  if cells is None:
    return [NOTHING] * 3
  delta = NOTHING if math.isnan(cells.delta) else f"{cells.delta:+.1f} %"
  return [
    delta,
    *(
      f"{one.mean:.{digits}f}"
      + ("" if math.isnan(one.error) else f" ± {one.error:.{digits}f}")
      for one in (cells.token_level, cells.traversal)
    ),
  ]


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
  render=_main_render,
  configs=(*BOTH, "quickstart:eagle"),
  base={"temperatures": (1.0,), "timing.stages": "", "explorer.per_task": 0},
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
  x="depth",
  number=depth,
)
