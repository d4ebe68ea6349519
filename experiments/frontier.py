"""How far past the paper: rules and trees at equal nodes and draft passes.

  python -m experiments.frontier
  python -m experiments.frontier --config.seeds="0 1 2"
  python -m experiments.frontier --config.temperatures="0.6 1.0"
  python -m experiments.frontier --config.timing.per_task=4
  python -m experiments.frontier --config=configs/python_bundled.py

At each number of drafted nodes the paper's tree of as many, and those that
`tv_jax.tune` found for the bundled drafts (bundled/README.md has how), on
questions that are none of these, and one that takes shape as it is drafted, by
what `tv_jax.tune --calibrate` measured on such questions; all of five levels.
More nodes than the paper has are experiments/wide.py's.
Lengths are of one decode for each tree, by `ot_traversal`, of whose drafts the
traversal expects its own. At EAGLE's number of nodes both rules run, on the
paper's tree, on what was tuned for the traversal and on what takes shape, and
are timed in turn: what a longer cycle is worth in tokens a second is its
length's gain less what it takes longer. By default one seed: the other lines
take more. Of another pair there is nothing tuned, and only the paper's trees
are asked.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments import command, comparing, drawing, experiment
from experiments.experiment import Artefact, Group, Shard
from tv_jax.edge import reading
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, Table

# By the most drafted nodes, the tree that others are compared with: the paper's
# of five levels; of more than 62 nodes it has none, and a full tree below a
# wider root stands for it.
BASES = {
  8: "chain:5",
  25: "eagle",
  62: "kary:2x5",
  128: "branching:4,2,2,2,2",
  256: "branching:8,2,2,2,2",
  768: "branching:6,3,3,3,3",
}
SIZES = (8, 25, 62)
BASE = "traversal"
RAN = "ot_traversal"
RULES = (BASE, RAN)  # both expect a length of the drafts of RAN
GOAL = 10  # percent, over the paper's rule on the paper's tree
TREES = "bundled/trees/"
CALIBRATIONS = "bundled/calibrations/"
# Of so many nodes cycles are timed: two more programs for each such tree.
TIMED = 25
ROUNDS = 3  # of each question
# Places by level of the trees that take shape: as even as may be.
PLACES = {
  8: "2,2,2,1,1",
  25: "5,5,5,5,5",
  62: "6,14,14,14,14",
  128: "6,30,30,31,31",
  256: "6,36,71,71,72",
  768: "6,36,216,255,255",
}


class Place(NamedTuple):
  """A rule on a tree, asked of all questions.

  Attributes:
    nodes: The budget.
    tree: As the config names it.
    cooler: The draft's temperature; 0: the target's.
    rule: That expects; RAN is what ran.
    by_item: By question, the tokens a cycle that it expects.
    check: Of the run: realised less expected length.
    cycle: By question, the milliseconds that a cycle takes, prompts included;
      of what was timed in turn with the paper's.
  """

  nodes: int
  tree: str
  cooler: float
  rule: str
  by_item: Mapping[int, float]
  check: Estimate | None
  cycle: Mapping[int, float]

  @property
  def length(self) -> Estimate:
    """Expected, over questions."""
    return Estimate.of([*self.by_item.values()])

  @property
  def family(self) -> str:
    """Whether it was tuned, and for a cooler draft."""
    if CALIBRATIONS in self.tree:
      what = "taking shape"
    elif self.tree.startswith(TREES):
      what = "tuned"
    elif self.nodes > max(SIZES):
      what = "full trees"
    else:
      what = "the paper's trees"
    return f"{what}, draft at {self.cooler:g}" if self.cooler else what


def trees(draft: str, nodes: int) -> dict[str, float]:
  """The trees of so many nodes, with the draft's share of the temperature.

  What is tuned for a draft, some of it for a cooler one, comes with the
  package; its files say how cool, and whoever names them draws so.
  """
  found = {BASES[nodes]: 1.0}
  for path in sorted((reading.BUNDLED / "trees").iterdir()):
    tuned = reading.json_object(path)
    if tuned["draft"] == draft and tuned["nodes"] == nodes:
      found[f"{TREES}{path.name}"] = _share(tuned)
  for path in sorted((reading.BUNDLED / "calibrations").iterdir()):
    table = reading.json_object(path)
    if table["draft"] == draft:
      own = f"adaptive:{PLACES[nodes]}@{CALIBRATIONS}{path.name}"
      found[own] = _share(table)
  return found


def _share(tuned):
  """The draft's temperature over the target's that something is tuned for."""
  return tuned["draft_temperature"] / tuned["temperature"]


def known_at(config, nodes: int) -> dict[str, float]:
  """Of `trees` those that a config may ask: cooled ones at temperature 1."""
  shares = trees(config.models.draft, nodes)
  at_one = tuple(config.temperatures) == (1.0,)
  return {t: share for t, share in shares.items() if at_one or share == 1}


def coolest(known: Mapping[str, float]) -> list[str]:
  """The first of them, and of the others those of the coolest draft."""
  least = min(known.values())
  base, *others = known
  return [base, *(tree for tree in others if known[tree] == least)]


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """A shard for each tree; at temperature 1 also those of a cooler draft.

  And one for what is timed, which has to be one run's; it asks no more
  questions than it times, which are as many as the config wants timed.
  """
  times = config.timing.per_task
  # Where nothing is timed the config's own 0 stands, and is not refused.
  untimed = {"timing.per_task": 0} if times else {}
  for nodes in (TIMED,) if smoke else SIZES:
    known = known_at(config, nodes)
    for tree in known if not smoke else ():
      yield Shard(folder(tree), {"trees": tree, **untimed})
    if nodes == TIMED and (smoke or times):
      timed = [tree for tree in coolest(known) if RAN not in tree]
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


def render(groups: Sequence[Group], name: str = "frontier") -> Artefact:
  """The winners, everything that was asked, and lengths against nodes.

  Args:
    groups: What there is.
    name: Which experiment it is of.
  """
  told, winners, everything, notes = [], [], [], []
  lines, largest = {}, 0
  for group in groups:
    for hot in sorted({a.method.temperature for a in group.answers}):
      title = f"{group.name}, T = {hot:g}"
      found = [*_places(group, hot)]
      bases = {p.nodes: p for p in found if _is_base(p)}
      winners += _winners(title, found, bases)
      everything.append(_table(title, found, bases))
      told += _reading(f"{group.models}, T = {hot:g}", found, bases)
      lines[title] = _lines(found)
      largest = max([largest, *(place.nodes for place in found)])
    notes += comparing.notes(group)
  header = ["drafted", "compared with", "length", "best rule", "tree", "length"]
  header = ["pair", *header, "gain", "net gain"]
  first = Table("The best of each size", [], header, winners)
  figure = drawing.lines(
    lines,
    x="drafted nodes",
    y="tokens a cycle",
    alike=False,
    height=4.0,
    doubling=largest > max(SIZES),
  )
  notes += [
    "Lengths: what a rule expects of each cycle, no coin tossed, in each"
    " question first, its seeds pooled, then over questions; ± is the standard"
    f" error over questions (ddof 1). {RAN} runs, and the traversal expects of"
    " the same drafts. Gain: over the traversal on the size's first tree,"
    " question by question; of another tree drafts are others. The best"
    " is the best on these very questions. Check: realised less expected"
    " length, by cycle: 0 within its error, or there is a bug. All trees have"
    " five levels: as many passes of the draft. Of eight nodes and five levels"
    " the paper has no tree: its chain has five. Net gain: in tokens a second,"
    " the gain in length less what a cycle takes longer: the time of whole"
    " answers, prompts included, over their cycles, one row at a time, methods"
    f" in turn on the same questions, {ROUNDS} times each, clustered by"
    " question. What is not timed so has none.",
  ]
  if largest > max(SIZES):
    notes.append(
      f"Of more than {max(SIZES)} nodes the paper has no tree: full trees below"
      " a wider root stand for it, which have some nodes less (124, 248, 726)."
    )
  own = f"{name}-{'-'.join(group.name for group in groups)}"
  return Artefact(told, [first, *everything], {own: figure}, notes)


def folder(tree: str) -> str:
  """The name of the shard that asks this tree."""
  return re.sub("[:,@]", "-", _short(tree))


def _short(tree):
  """Without the folders that all of them are in."""
  for place in (TREES, CALIBRATIONS):
    tree = tree.replace(place, "")
  return tree.removesuffix(".json")


def _is_base(place):
  return place.rule == BASE and place.tree == BASES[place.nodes]


def _places(group, hot) -> Iterator[Place]:
  """Everything that was asked, size by size."""
  fixed = Method(proposal=comparing.PROPOSAL, temperature=hot)
  everything, cycles = group.answers, _cycles(group, hot)
  for nodes in BASES:
    known = trees(group.config["models"]["draft"], nodes)
    for tree, share in known.items():
      drawn = group.config.get("draft_temperature") or share * hot
      cooler = 0.0 if drawn == hot else drawn
      method = dataclasses.replace(fixed, tree=tree, verifier=RAN)
      answers = comparing.of(everything, method)
      for rule in RULES:
        if by_item := metrics.expected_by_item(answers, rule):
          check = metrics.cell(answers, BASE).check if rule == RAN else None
          cycle = cycles.get((tree, rule), {})
          yield Place(nodes, tree, cooler, rule, by_item, check, cycle)


def _cycles(group, hot) -> dict[tuple[str, str], dict[int | str, float]]:
  """By tree and rule the milliseconds a cycle, question by question.

  Of the first run that has timed the traversal on the paper's tree of the size:
  times of several runs are not compared.
  """
  for unit in group.units:
    found = {}
    for one in (unit.timing or {"methods": []})["methods"]:
      method = Method.of(one)
      if method.temperature == hot and method.proposal == comparing.PROPOSAL:
        found[method.tree, method.verifier] = _by_question(one)
    if (BASES[TIMED], BASE) in found:
      return found
  return {}


def _by_question(timed):
  asked, seconds, cycles = (
    np.array(timed[name]) for name in ("questions", "seconds", "cycles")
  )
  return {
    item.item(): float(
      1e3 * seconds[asked == item].sum() / cycles[asked == item].sum()
    )
    for item in np.unique(asked)
  }


def gain(place: Place, base: Place) -> Estimate | None:
  """In percent of the base, by the questions that both have; None: none."""
  return _over(place.by_item, base.by_item)


def slower(place: Place, base: Place) -> Estimate | None:
  """What a cycle takes longer, in percent; None where either is not timed."""
  return _over(place.cycle, base.cycle)


def _over(ours, theirs) -> Estimate | None:
  """One mapping's values over the other's, key by key."""
  both = sorted({*ours} & {*theirs})
  if not both:
    return None
  own, other = (
    np.array([one[item] for item in both]) for one in (ours, theirs)
  )
  return metrics.relative(own, other, both)


def net(place: Place, base: Place) -> Estimate | None:
  """The gain in tokens a second, in percent; None where it is not known."""
  length, time = gain(place, base), slower(place, base)
  return metrics.net(length, time) if length and time else None


def _best(found, base) -> Place:
  """By its gain: lengths may be of other questions, where some are missing."""
  own = [place for place in found if place.nodes == base.nodes]
  gains = [(gain(place, base), place) for place in own]
  return max((one for one in gains if one[0]), key=lambda one: one[0].mean)[1]


def _winners(title, found, bases):
  """A row for each size."""
  for nodes, base in bases.items():
    best = _best(found, base)
    yield [
      title,
      str(nodes),
      base.tree,
      tables.estimate(base.length),
      best.rule,
      _short(best.tree),
      tables.estimate(best.length),
      NOTHING if best is base else comparing.percent(gain(best, base)),
      NOTHING if best is base else comparing.percent(net(best, base)),
    ]


def _table(title, found, bases) -> Table:
  """A row for each rule on each tree."""
  rows = []
  for place in found:
    base = bases.get(place.nodes)
    other = base if place is not base else None
    rows.append(
      [
        str(place.nodes),
        _short(place.tree),
        _levels(place.tree),
        place.rule,
        tables.estimate(place.length, ".3f"),
        comparing.percent(other and gain(place, other)),
        tables.estimate(place.check, "+.3f"),
        f"{np.mean([*place.cycle.values()]):.2f}" if place.cycle else NOTHING,
        comparing.percent(other and net(place, other)),
      ]
    )
  header = ["drafted", "tree", "by level", "rule", "length", "gain", "check"]
  return Table(title, [], [*header, "ms a cycle", "net gain"], rows)


def _levels(name):
  """Nodes of each level."""
  # Here, as it imports jax, which a launcher of sweeps does without.
  from tv_jax import tree

  return " ".join(str(len(level)) for level in tree.parse(name).levels[1:])


def _reading(title, found, bases) -> Iterator[str]:
  """What the best is worth, what of it is the rule's, and the check."""
  for nodes, base in bases.items():
    own = {(p.tree, p.rule): p for p in found if p.nodes == nodes}
    best = _best(found, base)
    over = gain(best, base)
    if best is base:
      yield (
        f"{title}, {nodes} nodes: nothing is longer than {BASE} on {base.tree}."
      )
      yield from _worth(f"{title}, {nodes} nodes", own.values(), best, base)
      continue
    parts = [
      f"{what} {comparing.percent(gain(other, base))}"
      for what, other in (
        (_alone(best), own.get((best.tree, BASE))),
        ("that rule alone", own.get((base.tree, best.rule))),
      )
      if other and other is not base and other is not best
    ]
    short = GOAL - over.mean
    goal = "reached" if short <= 0 else f"missed by {short:.1f}"
    yield (
      f"{title}, {nodes} nodes: {best.rule} on {_short(best.tree)} is"
      f" {comparing.percent(over)} longer than {BASE} on {base.tree}"
      f" ({comparing.word(over)}); the goal of {GOAL} % is {goal}."
      + (f" Of it, {', '.join(parts)}." if parts else "")
    )
    yield from _worth(f"{title}, {nodes} nodes", own.values(), best, base)
  checks = [place.check for place in found if place.check]
  if checks:
    far = max(checks, key=_sigmas)
    yield (
      f"{title}: realised - expected is farthest from 0 at {far:+.3f}, in"
      f" {len(checks)} runs ({comparing.word(far)})."
    )


def _worth(title, places, best, base) -> Iterator[str]:
  """What the best's length is worth in time, and what is the fastest."""
  if best is not base and (worth := net(best, base)):
    yield (
      f"{title}: a cycle of it takes"
      f" {comparing.percent(slower(best, base))} longer; net, in tokens a"
      f" second, {comparing.percent(worth)} ({comparing.word(worth)})."
    )
  known = [
    (found, one)
    for one in places
    if one is not base and (found := net(one, base))
  ]
  if known:
    most, one = max(known, key=lambda both: both[0].mean)
    what = f"{one.rule} on {_short(one.tree)}, net {comparing.percent(most)}"
    if most.mean <= 0:
      yield (
        f"{title}: nothing that was timed is faster than {BASE} on {base.tree};"
        f" nearest is {what} ({comparing.word(most)})."
      )
    elif one is not best:
      yield (
        f"{title}: the fastest of what was timed is {what}"
        f" ({comparing.word(most)})."
      )


def _sigmas(check):
  """How far from 0 it is, by its error."""
  if not check.mean:
    return 0.0
  return abs(check.mean) / check.error if check.error > 0 else np.inf


def _alone(place):
  """What but the rule is another than the paper's."""
  if not place.cooler:
    return "that tree alone"
  return f"that tree and its draft at {place.cooler:g} alone"


def _lines(found):
  """By rule and family, the longest of each number of drafted nodes."""
  lines = {}
  for place in found:
    own = lines.setdefault(f"{place.rule}, {place.family}", {})
    nodes = _drafted(place.tree)
    if nodes not in own or own[nodes].mean < place.length.mean:
      own[nodes] = place.length
  return lines


def _drafted(name):
  from tv_jax import tree

  return len(tree.parse(name)) - 1


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
