"""How far past the paper: rules and trees at equal nodes and draft passes.

Each number of drafted nodes has the paper's tree, the trees that `tv_jax.tune`
found for the bundled drafts, and an adaptive tree with a calibration. All have
five levels at most; they were tuned on other questions (bundled/README.md):
those of SmolLM2's head on half of the everyday ones, so use
--config=configs/smollm2.py:paper.

Each tree is decoded once, by `ot_traversal`, and the traversal expects its
length on the same drafts. At EAGLE's number of nodes both rules are also timed
in turn. Pairs for which nothing was tuned have the paper's trees alone.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from experiments import comparing, paper, sweeps
from experiments.comparing import ByItem, over, percent
from experiments.experiment import Artefact, Experiment, Group, Shard
from tv_jax.edge import reading
from tv_jax.edge.tables import NOTHING, Table
from tv_jax.engine.results import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import Method
from tv_jax.runs.report import canvas, tables

# By drafted nodes: the tree that others are compared with, the paper's with
# five levels; and the adaptive tree's nodes by level, as even as may be.
SIZES = {
  8: ("chain:5", "2,2,2,1,1"),
  25: ("eagle", "5,5,5,5,5"),
  62: ("kary:2x5", "6,14,14,14,14"),
}
TIMED = 25  # nodes: two more programs for each tree
ROUNDS = 3  # of each question
BASE, RAN = RULES = ("traversal", "examples.rules.ot_traversal:rule")
TREES, CALIBRATIONS = "bundled/trees/", "bundled/calibrations/"
HEADER = ["drafted", "tree", "rule", "gain", "net gain", "length", "check"]
HEADER += ["ms a cycle"]
NOTE = (
  f"Gain: over the {BASE} on the size's first tree, paired by question; other"
  " trees have other drafts. Length: the tokens that a rule expects to gain in"
  " a cycle, computed without sampling, in each question first with its seeds"
  " pooled, then over questions; ± is the standard error over questions."
  f" ot_traversal runs, and the {BASE}'s length is for the same drafts. The"
  " best is the best on these very questions. Check: realised minus expected"
  " length, which must be 0 within its error. Net gain: in tokens/s, the gain"
  " in length less the extra time of a cycle: the time of whole answers,"
  " prompts included, over their cycles, one question at a time, methods in"
  f" turn on the same questions, {ROUNDS} times each, clustered by question."
  " All trees have five levels at most, so no more passes of the draft; with"
  " eight nodes the paper has no such tree, and its chain of five is the first."
)


def trees(draft: str, nodes: int) -> dict[str, float]:
  """Returns a size's trees: the base, and those that were tuned for a draft.

  Each comes with the draft's temperature over the target's that it was tuned
  for; a run that names the tree draws so.
  """
  base, levels = SIZES[nodes]
  trees = {base: 1.0}
  for folder in (TREES, CALIBRATIONS):
    for path in sorted((reading.BUNDLED.parent / folder).iterdir()):
      tuned = reading.json_object(path)
      if tuned["draft"] == draft and tuned.get("nodes", nodes) == nodes:
        tree = f"{folder}{path.name}"
        if folder == CALIBRATIONS:
          tree = f"adaptive:{levels}@{tree}"
        trees[tree] = tuned["draft_temperature"] / tuned["temperature"]
  return trees


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each tree, and one for what is timed.

  What is compared in time has to be one run; it asks no more questions than it
  times. Trees of a cooler draft are for temperature 1.
  """
  times = config.timing.per_task
  # Where nothing is timed the config's own 0 stands, and is not refused.
  untimed = {"timing.per_task": 0} if times else {}
  at_one = tuple(config.temperatures) == (1.0,)
  for nodes in (TIMED,) if smoke else SIZES:
    known = {
      tree: cooler
      for tree, cooler in trees(config.models.draft, nodes).items()
      if at_one or cooler == 1
    }
    for tree in known if not smoke else ():
      yield Shard(re.sub("[:,@]", "-", short(tree)), {"trees": tree, **untimed})
    if nodes == TIMED and (smoke or times):
      base, *others = known
      others = [
        tree
        for tree in others
        if known[tree] == min(known.values()) and f"-{short(RAN)}." not in tree
      ]
      yield Shard(
        f"timed-{nodes}",
        {
          "trees": " ".join([base, *others[-1 if smoke else 0 :]]),
          "verifiers": " ".join(RULES),
          "per_task": 1 if smoke else min(times, config.per_task or times),
          "seeds": (config.seeds[0],),
        },
      )


def short(name: str) -> str:
  """Returns the name of a tree or a rule without its folder."""
  outside = f"{TREES}|{CALIBRATIONS}|[.]json$|^examples[.]rules[.]|:rule$"
  return re.sub(outside, "", name)


class Place(NamedTuple):
  """A rule on a tree."""

  tree: str
  rule: str
  cooler: float  # the draft's temperature; 0: the target's
  by_item: ByItem  # tokens a cycle that it expects
  check: Estimate | None  # realised minus expected length, of RAN
  cycle: ByItem  # milliseconds a cycle, where it was timed

  @property
  def length(self) -> Estimate:
    """The expected length, over questions."""
    return Estimate.of([*self.by_item.values()])

  @property
  def line(self) -> str:
    """The rule, how the tree was made, and for which draft."""
    what = "tuned" if self.tree.startswith(TREES) else "the paper's trees"
    what = "taking shape" if CALIBRATIONS in self.tree else what
    cooler = f", draft at {self.cooler:g}" if self.cooler else ""
    return f"{short(self.rule)}, {what}{cooler}"

  def gain(self, base: Place) -> Estimate | None:
    """Compares lengths: in percent of the base, paired by question."""
    return over(self.by_item, base.by_item) if self is not base else None

  def net(self, base: Place) -> Estimate | None:
    """Compares tokens a second, in percent; None if one was not timed."""
    length, time = self.gain(base), over(self.cycle, base.cycle)
    return metrics.net(length, time) if length and time else None


def places(group: Group, nodes: int, temperature: float) -> list[Place]:
  """Returns a size's rules on trees, BASE on its first tree before all."""
  result = []
  fixed = Method(proposal=paper.PROPOSAL, temperature=temperature)
  first = dataclasses.replace(fixed, tree=SIZES[nodes][0])
  # Times of several runs are not compared.
  runs = [group._replace(units=(unit,)) for unit in group.units]
  timed = [run for run in runs if comparing.times_of(run, first)]
  for tree, share in trees(group.config["models"]["draft"], nodes).items():
    method = dataclasses.replace(fixed, tree=tree)
    ran = dataclasses.replace(method, verifier=RAN)
    answers = comparing.of(group.answers, ran)
    drawn = group.config.get("draft_temperature") or share * temperature
    times = comparing.times_of(timed[0], method) if timed else {}
    for rule in RULES:
      if by_item := metrics.expected_by_item(answers, rule):
        place = Place(
          tree=tree,
          rule=rule,
          cooler=0.0 if drawn == temperature else drawn,
          by_item=by_item,
          check=metrics.cell(answers).check if rule == RAN else None,
          cycle=_cycle(times[rule]) if rule in times else {},
        )
        result.append(place)
  return result if result and result[0].tree == first.tree else []


def _cycle(times: metrics.Times) -> ByItem:
  """Returns milliseconds a cycle by question, prompts included."""
  result = {}
  for item in np.unique(times.questions):
    chosen = times.questions == item
    cycles = times.cycles[chosen].sum()
    result[item.item()] = float(1e3 * times.seconds[chosen].sum() / cycles)
  return result


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table of each group, and draws lengths against nodes."""
  artefact, figure = Artefact(), {}
  for group in groups:
    for hot in sorted({a.method.temperature or 0 for a in group.answers}):
      title = f"{group.name}, T = {hot:g}"
      rows, lines = [], figure.setdefault(title, {})
      for nodes in SIZES:
        of_size = places(group, nodes, hot)
        if of_size:
          line = f"{title}, {nodes} nodes: {_best(of_size)}."
          artefact.reading.append(line)
        for place in of_size:
          rows.append([str(nodes), *_row(place, of_size[0])])
          line, size = (
            lines.setdefault(place.line, {}),
            sweeps.nodes(place.tree),
          )
          if size not in line or line[size].mean < place.length.mean:
            line[size] = place.length
      artefact.tables.append(Table(title, [], HEADER, rows))
    artefact.notes += group.notes
  names = "-".join(group.name for group in groups)
  artefact.figures[f"frontier-{names}"] = canvas.lines(
    figure, x="drafted nodes", y="tokens a cycle", height=4.0
  )
  artefact.notes.append(NOTE)
  return artefact


def _row(place: Place, base: Place) -> list[str]:
  cycle = f"{np.mean([*place.cycle.values()]):.2f}" if place.cycle else NOTHING
  return [
    short(place.tree),
    short(place.rule),
    percent(place.gain(base)),
    percent(place.net(base)),
    tables.estimate(place.length, ".3f"),
    tables.estimate(place.check, "+.3f"),
    cycle,
  ]


def _best(places: Sequence[Place]) -> str:
  """Says what of a size is longest, and what was timed fastest."""
  base, *others = places
  sentences = []
  for name, compare in (("longer", Place.gain), ("faster, net,", Place.net)):
    gains = [(compare(place, base), place) for place in others]
    known = [(gain, place) for gain, place in gains if gain]
    if not known:
      continue
    gain, best = max(known, key=lambda pair: pair[0].mean)
    subject = f"{short(best.rule)} on {short(best.tree)} is {percent(gain)}"
    certainty = f" ({comparing.sigmas(gain)})"
    if gain.mean <= 0:
      subject, certainty = "nothing is", ""
    sentences.append(
      f"{subject} {name} than the {BASE} on {base.tree}{certainty}"
    )
  return "; ".join(sentences)


FRONTIER = Experiment(
  name="frontier",
  title="Past the paper: rules and trees at equal nodes and draft passes",
  sweep=sweep,
  render=render,
  configs=sweeps.BOTH,
  base={
    "verifiers": RAN,
    "baseline": BASE,
    "proposals": paper.PROPOSAL,
    "plain": False,
    "explorer.per_task": 0,
    "draft_temperature": 0.0,
    "timing.rounds": ROUNDS,
  },
  apart=("per_task",),
)
