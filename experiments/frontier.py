"""How far past the paper: rules and trees at equal nodes and draft passes.

  python -m experiments.frontier
  python -m experiments.frontier --config.seeds="0 1 2"
  python -m experiments.frontier --config.temperatures="0.6 1.0"
  python -m experiments.frontier --config.timing.per_task=4
  python -m experiments.frontier --config=configs/python_bundled.py

Each number of drafted nodes has the paper's tree, the trees that `tv_jax.tune`
found for the bundled drafts, and an adaptive tree with what `tv_jax.tune
--calibrate` measured. All have five levels at most; they were tuned on other
questions (bundled/README.md): those of SmolLM2's head on half of the everyday
ones, so use --config=configs/smollm2.py:paper.

Each tree is decoded once, by `ot_traversal`, and the traversal expects its
length on the same drafts. At EAGLE's number of nodes both rules are also timed
in turn, on the paper's tree, the tree tuned for the traversal and the adaptive
tree: the net gain in tokens a second is the gain in length less the extra time
of a cycle. Other pairs have the paper's trees alone: nothing is tuned for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from experiments import command, comparing, drawing, experiment, places
from experiments.experiment import Artefact, Group, Shard
from experiments.places import BASE, PAPERS, RAN, RULES, Place, Size, short
from tv_jax.engine.estimates import Estimate
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, Table

SIZES = (8, 25, 62)
GOAL = 10  # percent, over the paper's rule on the paper's tree
TIMED = 25  # nodes: two more programs for each tree
ROUNDS = 3  # of each question
NOTE = (
  "Length: the tokens that a rule expects to gain in a cycle, computed without"
  " sampling, in each question first with its seeds pooled, then over"
  f" questions; ± is the standard error over questions (ddof 1). {RAN} runs,"
  " and the traversal's length is for the same drafts. Gain: over the traversal"
  " on the size's first tree, paired by question; other trees have other"
  " drafts. The best is the best on these very questions. Check: realised minus"
  " expected length, which must be 0 within its error. All trees have five"
  " levels at most, so no more passes of the draft; with eight nodes the paper"
  " has no such tree, and its chain of five is the first. Net gain: in"
  " tokens/s, the gain in length less the extra time of a cycle: the time of"
  " whole answers, prompts included, over their cycles, one question at a time,"
  f" methods in turn on the same questions, {ROUNDS} times each, clustered by"
  " question."
)
FULL = (
  f"The paper has no tree of more than {PAPERS} nodes: full trees below a wider"
  " root stand for it, with a few nodes less (124, 248, 726)."
)


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each tree, and one for what is timed.

  What is compared in time has to be one run; it asks no more questions than it
  times. Trees of a cooler draft are for temperature 1.
  """
  times = config.timing.per_task
  # Where nothing is timed the config's own 0 stands, and is not refused.
  untimed = {"timing.per_task": 0} if times else {}
  for nodes in (TIMED,) if smoke else SIZES:
    known = places.known_at(config, nodes)
    for tree in known if not smoke else ():
      yield Shard(folder(tree), {"trees": tree, **untimed})
    if nodes == TIMED and (smoke or times):
      timed = [tree for tree in places.coolest(known) if RAN not in tree]
      if smoke:
        timed = [*dict.fromkeys((timed[0], timed[-1]))]
      yield Shard(
        f"timed-{nodes}",
        {
          "trees": " ".join(timed),
          "verifiers": " ".join(RULES),
          "per_task": 1 if smoke else min(times, config.per_task or times),
          "seeds": (config.seeds[0],),
        },
      )


def folder(tree: str) -> str:
  """Returns the name of the shard of a tree."""
  return re.sub("[:,@]", "-", short(tree))


def render(groups: Sequence[Group], name: str = "frontier") -> Artefact:
  """Makes the winners, a table of each group, and lengths against nodes.

  Args:
    groups: What was run.
    name: The experiment's.
  """
  made, winners, lines, largest = Artefact(), [], {}, 0
  for group in groups:
    for hot in sorted({a.method.temperature or 0 for a in group.answers}):
      title = f"{group.name}, T = {hot:g}"
      found = [*places.sizes(group, hot)]
      everything = [place for size in found for place in size.places]
      made.tables.append(_table(title, found))
      lines[title] = _lines(everything)
      largest = max([largest, *(size.nodes for size in found)])
      title = f"{group.models}, T = {hot:g}"
      for size in found:
        if size.base and (best := size.best):
          winners.append(_winner(f"{group.name}, T = {hot:g}", size, best))
          told = f"{title}, {size.nodes} nodes"
          made.reading += _reading(told, size, best)
          made.reading += _worth(told, size, best)
      checks = [place.check for place in everything if place.check]
      if checks:
        far = max(checks, key=_sigmas)
        made.reading.append(
          f"{title}: in {len(checks)} runs, the check that is farthest from 0"
          f" is {far:+.3f} ({comparing.word(far)})."
        )
    made.notes += comparing.notes(group)
  header = ["pair", "drafted", "compared with", "length", "best rule", "tree"]
  header += ["length", "gain", "net gain"]
  made.tables.insert(0, Table("The best of each size", [], header, winners))
  figure = f"{name}-{'-'.join(group.name for group in groups)}"
  made.figures[figure] = drawing.lines(
    lines,
    x="drafted nodes",
    y="tokens a cycle",
    alike=False,
    height=4.0,
    doubling=largest > PAPERS,
  )
  made.notes += [NOTE] + [FULL] * (largest > PAPERS)
  return made


def _winner(title, size: Size, best: Place) -> list[str]:
  """Makes the row of a size."""
  base = size.base
  assert base
  same = best is base
  return [
    title,
    str(size.nodes),
    base.tree,
    tables.estimate(base.length),
    best.rule,
    short(best.tree),
    tables.estimate(best.length),
    NOTHING if same else comparing.percent(best.gain(base)),
    NOTHING if same else comparing.percent(best.net(base)),
  ]


def _table(title, found: Sequence[Size]) -> Table:
  """Makes a table with a row for each rule on each tree."""
  # Imported here, because a launcher of sweeps does without jax.
  from tv_jax import tree

  rows = []
  for size in found:
    for place in size.places:
      other = size.base if place is not size.base else None
      levels = tree.parse(place.tree).levels[1:]
      rows.append(
        [
          str(size.nodes),
          short(place.tree),
          " ".join(str(len(level)) for level in levels),
          place.rule,
          tables.estimate(place.length, ".3f"),
          comparing.percent(other and place.gain(other)),
          tables.estimate(place.check, "+.3f"),
          f"{np.mean([*place.cycle.values()]):.2f}" if place.cycle else NOTHING,
          comparing.percent(other and place.net(other)),
        ]
      )
  header = ["drafted", "tree", "by level", "rule", "length", "gain", "check"]
  return Table(title, [], [*header, "ms a cycle", "net gain"], rows)


def _reading(title, size: Size, best: Place) -> Iterator[str]:
  """Says what the best is worth, and what of it is the rule's."""
  base = size.base
  assert base
  over = best.gain(base)
  if best is base or not over:
    yield f"{title}: nothing is longer than {BASE} on {base.tree}."
    return
  by = {(place.tree, place.rule): place for place in size.places}
  cooler = f" and its draft at {best.cooler:g}" if best.cooler else ""
  parts = [
    f"{comparing.percent(other.gain(base))} with {what} alone"
    for what, other in (
      (f"the tree{cooler}", by.get((best.tree, BASE))),
      ("the rule", by.get((base.tree, best.rule))),
    )
    if other and other is not base and other is not best
  ]
  short_by = GOAL - over.mean
  goal = f"{'reaches' if short_by <= 0 else 'misses'} the goal of {GOAL} %"
  yield (
    f"{title}: {best.rule} on {short(best.tree)} is {comparing.percent(over)}"
    f" longer than {BASE} on {base.tree} ({comparing.word(over)}); this {goal}"
    + (f" by {short_by:.1f}." if short_by > 0 else ".")
    + (f" Of it, {', '.join(parts)}." if parts else "")
  )


def _worth(title, size: Size, best: Place) -> Iterator[str]:
  """Says what the best is worth in time, and what is the fastest."""
  base = size.base
  assert base
  if best is not base and (worth := best.net(base)):
    yield (
      f"{title}: its cycle takes {comparing.percent(best.slower(base))} longer;"
      f" the net gain in tokens/s is {comparing.percent(worth)}"
      f" ({comparing.word(worth)})."
    )
  known = [
    (found, one)
    for one in size.places
    if one is not base and (found := one.net(base))
  ]
  if not known:
    return
  most, one = max(known, key=lambda both: both[0].mean)
  what = f"{one.rule} on {short(one.tree)}, net {comparing.percent(most)}"
  if most.mean <= 0:
    yield (
      f"{title}: nothing that was timed is faster than {BASE} on {base.tree};"
      f" the nearest is {what} ({comparing.word(most)})."
    )
  elif one is not best:
    sure = comparing.word(most)
    yield f"{title}: the fastest that was timed is {what} ({sure})."


def _sigmas(check) -> float:
  """Returns how far from 0 it is, by its error."""
  if not check.mean:
    return 0.0
  return abs(check.mean) / check.error if check.error > 0 else np.inf


def _lines(found: Sequence[Place]) -> dict[str, dict[float, Estimate]]:
  """Returns by rule and family the longest of each number of drafted nodes."""
  from tv_jax import tree

  lines = {}
  for place in found:
    own = lines.setdefault(f"{place.rule}, {place.family}", {})
    nodes = len(tree.parse(place.tree)) - 1
    if nodes not in own or own[nodes].mean < place.length.mean:
      own[nodes] = place.length
  return lines


EXPERIMENT = experiment.Experiment(
  name="frontier",
  title="Past the paper: rules and trees at equal nodes and draft passes",
  sweep=sweep,
  render=render,
  configs=("quickstart", "quickstart:weak"),
  base={
    "verifiers": RAN,
    "baseline": BASE,
    "proposals": comparing.PROPOSAL,
    "plain": False,
    "explorer.per_task": 0,
    "draft_temperature": 0.0,
    "timing.rounds": ROUNDS,
    "timing.stages": "",
  },
  apart=("per_task",),
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
