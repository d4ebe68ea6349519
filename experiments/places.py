"""The trees of each size, and what rules do on them: for frontier."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments import comparing
from experiments.experiment import Group
from tv_jax.edge import reading
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import Method

# The tree of each number of drafted nodes that others are compared with: the
# paper's with five levels.
BASES = {
  8: "chain:5",
  25: "eagle",
  62: "kary:2x5",
}
PAPERS = 62  # nodes of the paper's largest tree
# Nodes by level of the adaptive trees: as even as may be.
PLACES = {
  8: "2,2,2,1,1",
  25: "5,5,5,5,5",
  62: "6,14,14,14,14",
}
BASE = "traversal"
RAN = "ot_traversal"
RULES = (BASE, RAN)  # both expect a length on the drafts of RAN
TREES = "bundled/trees/"
CALIBRATIONS = "bundled/calibrations/"


def trees(draft: str, nodes: int) -> dict[str, float]:
  """Returns a size's trees: the base, and those that were tuned for a draft.

  Each comes with the draft's temperature over the target's that it was tuned
  for; a run that names the tree draws so.
  """
  found = {BASES[nodes]: 1.0}
  for folder in ("trees", "calibrations"):
    for path in sorted((reading.BUNDLED / folder).iterdir()):
      tuned = reading.json_object(path)
      if tuned["draft"] == draft and tuned.get("nodes", nodes) == nodes:
        tree = f"{TREES}{path.name}"
        if folder == "calibrations":
          tree = f"adaptive:{PLACES[nodes]}@{CALIBRATIONS}{path.name}"
        found[tree] = tuned["draft_temperature"] / tuned["temperature"]
  return found


def known_at(config, nodes: int) -> dict[str, float]:
  """Returns the trees that a config can use: cooler ones at temperature 1."""
  shares = trees(config.models.draft, nodes)
  at_one = tuple(config.temperatures) == (1.0,)
  return {t: share for t, share in shares.items() if at_one or share == 1}


def coolest(known: Mapping[str, float]) -> list[str]:
  """Returns the base, and of the others those of the coolest draft."""
  least = min(known.values())
  base, *others = known
  return [base, *(tree for tree in others if known[tree] == least)]


def short(tree: str) -> str:
  """Returns a tree's name without its folder."""
  for place in (TREES, CALIBRATIONS):
    tree = tree.replace(place, "")
  return tree.removesuffix(".json")


class Place(NamedTuple):
  """A rule on a tree.

  Attributes:
    nodes: The size.
    tree: As the config names it.
    cooler: The draft's temperature; 0: the target's.
    rule: The rule that expects; RAN is what ran.
    by_item: By question, the tokens a cycle that it expects.
    check: Realised minus expected length, of RAN.
    cycle: By question, the milliseconds a cycle, prompts included, where it was
      timed in turn with the base.
  """

  nodes: int
  tree: str
  cooler: float
  rule: str
  by_item: Mapping[int | str, float]
  check: Estimate | None
  cycle: Mapping[int | str, float]

  @property
  def length(self) -> Estimate:
    """The expected length, over questions."""
    return Estimate.of([*self.by_item.values()])

  @property
  def family(self) -> str:
    """How the tree was made, and for which draft."""
    if CALIBRATIONS in self.tree:
      what = "taking shape"
    elif self.tree.startswith(TREES):
      what = "tuned"
    else:
      what = "full trees" if self.nodes > PAPERS else "the paper's trees"
    return f"{what}, draft at {self.cooler:g}" if self.cooler else what

  def gain(self, base: Place) -> Estimate | None:
    """Compares lengths: in percent of the base, paired by question."""
    return over(self.by_item, base.by_item)

  def slower(self, base: Place) -> Estimate | None:
    """Compares the time of a cycle, in percent; None if one was not timed."""
    return over(self.cycle, base.cycle)

  def net(self, base: Place) -> Estimate | None:
    """Compares tokens a second, in percent; None if one was not timed."""
    length, time = self.gain(base), self.slower(base)
    return metrics.net(length, time) if length and time else None


def over(ours, theirs) -> Estimate | None:
  """Divides one mapping's values by the other's, key by key."""
  both = sorted({*ours} & {*theirs})
  if not both:
    return None
  own, other = (
    np.array([one[item] for item in both]) for one in (ours, theirs)
  )
  return metrics.relative(own, other, both)


class Size(NamedTuple):
  """All places of one number of drafted nodes.

  Attributes:
    nodes: The number.
    places: Rules on trees, in order.
    base: BASE on the size's first tree; None if it is missing.
  """

  nodes: int
  places: Sequence[Place]
  base: Place | None

  @property
  def best(self) -> Place | None:
    """The place of the largest gain: lengths may be of other questions."""
    if not self.base:
      return None
    gains = [(one.gain(self.base), one) for one in self.places]
    known = [(gain.mean, one) for gain, one in gains if gain]
    return max(known, key=lambda both: both[0])[1]


def sizes(group: Group, temperature: float) -> Iterator[Size]:
  """Reads a group's places at a temperature, size by size."""
  fixed = Method(proposal=comparing.PROPOSAL, temperature=temperature)
  everything, cycles = group.answers, _cycles(group, fixed)
  for nodes, first in BASES.items():
    own, base = [], None
    for tree, share in trees(group.config["models"]["draft"], nodes).items():
      drawn = group.config.get("draft_temperature") or share * temperature
      method = dataclasses.replace(fixed, tree=tree, verifier=RAN)
      answers = comparing.of(everything, method)
      for rule in RULES:
        if by_item := metrics.expected_by_item(answers, rule):
          place = Place(
            nodes=nodes,
            tree=tree,
            cooler=0.0 if drawn == temperature else drawn,
            rule=rule,
            by_item=by_item,
            check=metrics.cell(answers).check if rule == RAN else None,
            cycle=cycles.get((tree, rule), {}),
          )
          own.append(place)
          base = place if (tree, rule) == (first, BASE) else base
    if own:
      yield Size(nodes, own, base)


def _cycles(group, fixed) -> dict[tuple, dict[int | str, float]]:
  """Returns milliseconds a cycle by question, of each tree and rule.

  They are the first run's that has timed a base: times of several runs are not
  compared.
  """
  for unit in group.units:
    found = {}
    for one in (unit.timing or {"methods": []})["methods"]:
      method = Method.of(one)
      if method.pooled("tree", "verifier", "seed") == fixed:
        asked, seconds, cycles = (
          np.array(one[name]) for name in ("questions", "seconds", "cycles")
        )
        found[method.tree, method.verifier] = {
          item.item(): float(
            1e3 * seconds[asked == item].sum() / cycles[asked == item].sum()
          )
          for item in np.unique(asked)
        }
    if any((tree, BASE) in found for tree in BASES.values()):
      return found
  return {}
