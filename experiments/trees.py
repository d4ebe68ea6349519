"""Drafts compared: what the rule, the tree and both give.

`drafts` compares a chain of seven that is verified token by token, as drafts of
2026 are published, with the paper's trees. The traversal decodes each tree, and
the expected length of token-level verification is computed on the same drafts.
Several configs of the same target show its drafts one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from experiments import comparing, experiment, figures, paper, sweeps
from experiments.comparing import ByItem, percent, relative_length
from experiments.experiment import Artefact, Experiment, Group, Shard
from tv_jax.engine.results import Estimate
from tv_jax.io.tables import Table
from tv_jax.runs import metrics
from tv_jax.runs.records import Method
from tv_jax.runs.report import tables

BASE, RAN = RULES = "token_level", "traversal"
TREES = "chain:7", "eagle", "kary:2x5"
HEADER = ["drafted", "tree", "rule", "gain", "length", "check"]
NOTE = (
  "Gain: over the first row, paired by question; other trees have other drafts."
  " Length: the tokens that a rule expects to"
  " gain in a cycle, computed without sampling, in each question first with its"
  " seeds pooled, then over questions; ± is the standard error over questions."
  " One rule runs, and the other's length is for the same drafts. The longest"
  " is the longest on these very questions. Check: realised minus expected"
  " length, which must be 0 within its error."
)


class Place(NamedTuple):
  """A rule on a tree."""

  tree: str
  rule: str
  by_item: ByItem  # tokens a cycle that it expects
  check: Estimate | None  # realised minus expected length, of the rule that ran

  @property
  def length(self) -> Estimate:
    """The expected length, over questions."""
    return Estimate.of([*self.by_item.values()])

  def gain(self, base: Place) -> Estimate | None:
    """Returns how much longer this place is, in percent."""
    return relative_length(self.by_item, base.by_item)


def rules_on_trees(group: Group, temperature: float) -> list[Place]:
  """Returns both rules on trees, the base before all; [] if it has not run."""
  result = []
  for tree in TREES:
    method = Method(
      tree=tree,
      proposal=paper.PROPOSAL,
      temperature=temperature,
      verifier=RAN,
    )
    answers = comparing.answers_of(group.answers, method)
    for rule in RULES:
      if by_item := metrics.expected_by_item(answers, rule):
        place = Place(
          tree=tree,
          rule=rule,
          by_item=by_item,
          check=metrics.cell(answers).check if rule == RAN else None,
        )
        result.append(place)
  return result if result and result[0].tree == TREES[0] else []


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table of each group, and draws lengths against nodes."""
  artefact, figure = Artefact(), {}
  for group in groups:
    for hot in sorted({a.method.temperature or 0 for a in group.answers}):
      title = f"{group.name}, T = {hot:g}"
      rows, lines = [], figure.setdefault(title, {})
      compared = rules_on_trees(group, hot)
      if len(compared) > 1:
        artefact.reading.append(f"{title}: {_longest(compared)}.")
      for place in compared:
        nodes = sweeps.nodes(place.tree)
        gain = None if place is compared[0] else place.gain(compared[0])
        rows.append(
          [
            f"{nodes:g}",
            place.tree,
            place.rule,
            percent(gain),
            tables.estimate(place.length, ".3f"),
            tables.estimate(place.check, "+.3f"),
          ]
        )
        lines.setdefault(place.rule, {})[nodes] = place.length
      artefact.tables.append(Table(title, [], HEADER, rows))
    artefact.notes += group.notes
  names = "-".join(group.name for group in groups)
  artefact.figures[f"drafts-{names}"] = figures.lines(
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
  than = f"longer than {base.rule} on {base.tree}"
  if gain.mean <= 0:
    return f"nothing is {than}"
  return (
    f"{best.rule} on {best.tree} is {percent(gain)} {than}"
    f" ({comparing.sigmas(gain)})"
  )


def _shards(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each of the config's own seeds."""
  return experiment.by_seed(config, 1 if smoke else None, config.seeds)


DRAFTS = Experiment(
  name="drafts",
  title="Which draft: what the rule, the tree and both give",
  sweep=_shards,
  render=render,
  configs=(
    "quickstart",
    *(f"quickstart:{kind}" for kind in ("eagle", "eagle3", "dspark")),
  ),
  base={
    "trees": " ".join(TREES),
    "verifiers": RAN,
    "baseline": BASE,
    "proposals": paper.PROPOSAL,
    "temperatures": (1.0,),
    "plain": False,
    "draft_temperature": 0.0,
    **experiment.LENGTHS_ALONE,
  },
)
