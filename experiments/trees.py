"""Trees and rules compared with one rule on one tree: `frontier` and `drafts`.

A rule decodes each tree, and the expected length of a second rule is computed
on the same drafts. Both are compared with the second rule on the first tree of
a list.

`frontier` goes past the paper, at equal numbers of drafted nodes and at most
five levels. It has the paper's tree, and the trees that `tv_jax.tune` chose for
the bundled drafts on other questions (the README.md in their folder). The trees
of SmolLM2's head were tuned on half of the everyday questions, so use
--config=configs/smollm2.py:paper.

`drafts` compares a chain of seven that is verified token by token, as drafts of
2026 are published, with the paper's trees. Several configs of the same target
show its drafts one after the other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from experiments import comparing, experiment, figures, paper, sweeps
from experiments.comparing import ByItem, percent, relative_length
from experiments.experiment import TREES, Artefact, Experiment, Group, Shard
from tv_jax.edge import reading
from tv_jax.edge.tables import Table
from tv_jax.engine.results import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import Method
from tv_jax.runs.report import tables

# By drafted nodes: the paper's tree of five levels that others are compared
# with.
SIZES = {8: "chain:5", 25: "eagle", 62: "kary:2x5"}
BASE, RAN = FRONTIER_RULES = "traversal", "examples.rules.ot_traversal:rule"
DRAFTS_RULES = "token_level", "traversal"
DRAFTS_TREES = "chain:7", "eagle", "kary:2x5"
HEADER = ["drafted", "tree", "rule", "gain", "length", "check"]
NOTE = (
  "Gain: over the nearest row above that has none, paired by question; other"
  " trees have other drafts. Length: the tokens that a rule expects to"
  " gain in a cycle, computed without sampling, in each question first with its"
  " seeds pooled, then over questions; ± is the standard error over questions."
  " One rule runs, and the other's length is for the same drafts. The longest"
  " is the longest on these very questions. Check: realised minus expected"
  " length, which must be 0 within its error."
)

# The trees of each comparison, the base's first, for a draft by its name.
Lists = Callable[[str], Iterable[Collection[str]]]


def frontier_trees(draft: str) -> list[dict[str, float]]:
  """Returns each size's trees: the paper's, and those tuned for a draft.

  Each comes with the draft's temperature over the target's that it was tuned
  for.
  """
  lists = []
  for nodes, base in SIZES.items():
    trees = {base: 1.0}
    for path in sorted((reading.BUNDLED.parent / TREES).iterdir()):
      tuned = reading.json_object(path)
      if (tuned["draft"], len(tuned["parents"]) - 1) == (draft, nodes):
        share = tuned["draft_temperature"] / tuned["temperature"]
        trees[f"{TREES}{path.name}"] = share
    lists.append(trees)
  return lists


def short(name: str) -> str:
  """Returns the name of a tree or a rule without its folder."""
  outside = f"{TREES}|[.]json$|^examples[.]rules[.]|:rule$"
  return re.sub(outside, "", name)


class Place(NamedTuple):
  """A rule on a tree."""

  tree: str
  rule: str
  cooler: float  # the draft's temperature, where it is not the target's, or 0
  by_item: ByItem  # tokens a cycle that it expects
  check: Estimate | None  # realised minus expected length, of the rule that ran

  @property
  def length(self) -> Estimate:
    """The expected length, over questions."""
    return Estimate.of([*self.by_item.values()])

  def gain(self, base: Place) -> Estimate | None:
    """Returns how much longer this place is, in percent."""
    return relative_length(self.by_item, base.by_item)

  @property
  def line(self) -> str:
    """The rule, with remarks on a tuned tree and a cooler draft."""
    tuned = ", tuned" if TREES in self.tree else ""
    cooler = f", draft at {self.cooler:g}" if self.cooler else ""
    return f"{short(self.rule)}{tuned}{cooler}"


def rules_on_trees(
  group: Group,
  trees: Iterable[str],
  rules: tuple[str, str],
  temperature: float,
) -> list[Place]:
  """Returns both rules on trees, the base before all; [] if it has not run."""
  result = []
  drawn_at = {
    tree: unit.config.get("draft_temperature")
    for unit in group.units
    for tree in unit.config["trees"]
  }
  for tree in trees:
    method = Method(
      tree=tree,
      proposal=paper.PROPOSAL,
      temperature=temperature,
      verifier=rules[1],
    )
    answers = comparing.answers_of(group.answers, method)
    cooler = drawn_at.get(tree) or temperature
    for rule in rules:
      if by_item := metrics.expected_by_item(answers, rule):
        place = Place(
          tree=tree,
          rule=rule,
          cooler=0.0 if cooler == temperature else cooler,
          by_item=by_item,
          check=metrics.cell(answers).check if rule == rules[1] else None,
        )
        result.append(place)
  return result if result and result[0].tree == next(iter(trees)) else []


def render(
  groups: Sequence[Group], *, name: str, rules: tuple[str, str], lists: Lists
) -> Artefact:
  """Makes a table of each group, and draws lengths against nodes."""
  artefact, figure = Artefact(), {}
  for group in groups:
    for hot in sorted({a.method.temperature or 0 for a in group.answers}):
      title = f"{group.name}, T = {hot:g}"
      rows, lines = [], figure.setdefault(title, {})
      for trees in lists(group.config["models"]["draft"]):
        compared = rules_on_trees(group, trees, rules, hot)
        if len(compared) > 1:
          artefact.reading.append(f"{title}: {_longest(compared)}.")
        for place in compared:
          nodes = sweeps.nodes(place.tree)
          gain = None if place is compared[0] else place.gain(compared[0])
          rows.append(
            [
              f"{nodes:g}",
              short(place.tree),
              short(place.rule),
              percent(gain),
              tables.estimate(place.length, ".3f"),
              tables.estimate(place.check, "+.3f"),
            ]
          )
          line = lines.setdefault(place.line, {})
          if nodes not in line or line[nodes].mean < place.length.mean:
            line[nodes] = place.length
      artefact.tables.append(Table(title, [], HEADER, rows))
    artefact.notes += group.notes
  names = "-".join(group.name for group in groups)
  artefact.figures[f"{name}-{names}"] = figures.lines(
    figure, x="drafted nodes", y="tokens a cycle", height=4.0
  )
  artefact.notes.append(NOTE)
  return artefact


def _longest(compared: Sequence[Place]) -> str:
  """Says which rule and tree of a list are longest."""
  base, *others = compared
  gains = [(place.gain(base), place) for place in others]
  known = [(gain, place) for gain, place in gains if gain]
  subject = "no question was asked of both"
  if not known:
    return subject
  gain, best = max(known, key=lambda pair: pair[0].mean)
  than = f"longer than {short(base.rule)} on {short(base.tree)}"
  if gain.mean <= 0:
    return f"nothing is {than}"
  return (
    f"{short(best.rule)} on {short(best.tree)} is {percent(gain)} {than}"
    f" ({comparing.sigmas(gain)})"
  )


def _frontier_shards(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each tree; trees of a cooler draft are for T = 1."""
  at_one = tuple(config.temperatures) == (1.0,)
  for trees in frontier_trees(config.models.draft)[: 1 if smoke else None]:
    known = [tree for tree, cooler in trees.items() if at_one or cooler == 1]
    for tree in dict.fromkeys(known[:1] + known[-1:]) if smoke else known:
      drawn = 0.0 if trees[tree] == 1 else trees[tree]
      overrides = {"trees": tree, "draft_temperature": drawn}
      yield Shard(re.sub("[:,]", "-", short(tree)), overrides)


def _drafts_shards(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each of the config's own seeds."""
  return experiment.by_seed(config, 1 if smoke else None, config.seeds)


def _comparison(
  name: str, rules: tuple[str, str], lists: Lists, **fields
) -> Experiment:
  """Makes an experiment that compares with `rules[0]` on each first tree."""
  base = {
    "verifiers": rules[1],
    "baseline": rules[0],
    "proposals": paper.PROPOSAL,
    "plain": False,
    "draft_temperature": 0.0,
    **experiment.LENGTHS_ALONE,
  }
  return Experiment(
    name=name,
    render=functools.partial(render, name=name, rules=rules, lists=lists),
    base=base | fields.pop("base", {}),
    **fields,
  )


FRONTIER = _comparison(
  "frontier",
  FRONTIER_RULES,
  frontier_trees,
  title="Past the paper: rules and trees at equal nodes and draft passes",
  sweep=_frontier_shards,
  configs=sweeps.BOTH,
)
DRAFTS = _comparison(
  "drafts",
  DRAFTS_RULES,
  lambda draft: [DRAFTS_TREES],
  title="Which draft: what the rule, the tree and both give",
  sweep=_drafts_shards,
  configs=(
    "quickstart",
    *(f"quickstart:{kind}" for kind in ("eagle", "eagle3", "dspark")),
  ),
  base={"trees": " ".join(DRAFTS_TREES), "temperatures": (1.0,)},
)
