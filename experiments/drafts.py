r"""Which draft: what the rule gives, what the tree gives, and both.

  python -m experiments.drafts
  python -m experiments.drafts --config=configs/smollm2.py \
    --config=configs/smollm2.py:independent

Drafts of 2026 are published with lengths of chains of seven that are verified
token by token. Here each draft has that chain, and the paper's trees of 25 and
62 drafted nodes; the traversal runs, and token-level verification expects its
length on the same drafts. Several configs of one target show its drafts side by
side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from experiments import command, comparing, drawing, experiment, main_table
from experiments.experiment import Artefact, Group, Shard
from experiments.places import over
from tv_jax.engine.estimates import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import PLAIN, Answer
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, Table

# By tree: nodes that are drafted, and its levels.
TREES = {"chain:7": (7, 7), "eagle": (25, 5), "kary:2x5": (62, 5)}
PUBLISHED, RAN = "token_level", "traversal"
RULES = {PUBLISHED: "Tok.V", RAN: "Tra.V"}
CHAIN = next(iter(TREES))
HEADER = ["draft", "passes", "tree", "drafted", *RULES.values()]
HEADER += ["the rule", "the tree", "both", "check", "speed-up"]
NOTE = (
  f"Lengths are expected ones, by question: {RAN} runs, and {PUBLISHED}"
  f" expects its own on the same drafts. The rule: {RAN} over {PUBLISHED}."
  f" The tree: {PUBLISHED} on it over {PUBLISHED} on {CHAIN}. Both: {RAN} on it"
  f" over {PUBLISHED} on {CHAIN}. Gains are paired by question. Passes: of the"
  f" draft, in a cycle. Speed-up: of {RAN} over plain decoding, in turn on the"
  " same few questions, where they were timed."
)

ByItem = Mapping[int | str, float]


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each of the config's own seeds; the first is timed."""
  return main_table.sweep(config, smoke, config.seeds)


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table and a figure of all groups."""
  made, rows, lengths = Artefact(), [], {}
  for group in groups:
    found = _expected(group)
    rows += _rows(group, found)
    lengths[group.name] = {
      name: {
        float(TREES[tree][0]): Estimate.of([*own[rule].values()])
        for tree, own in found.items()
      }
      for rule, name in RULES.items()
    }
    made.reading += _reading(group, found)
    made.notes += comparing.notes(group)
  made.tables.append(Table("Drafts", [], HEADER, rows))
  made.figures["drafts"] = drawing.lines(
    lengths, x="drafted nodes", y="tokens a cycle", doubling=True
  )
  made.notes.append(NOTE)
  return made


def _expected(group: Group) -> dict[str, dict[str, ByItem]]:
  """Returns by tree and rule the length that it expects of each question."""
  found = {}
  for tree in TREES:
    answers = _answers(group, tree)
    own = {rule: metrics.expected_by_item(answers, rule) for rule in RULES}
    if all(own.values()):
      found[tree] = own
  return found


def _answers(group: Group, tree: str) -> list[Answer]:
  method = comparing.on(main_table.AT_ONE, tree)
  return comparing.of(group.answers, dataclasses.replace(method, verifier=RAN))


def _rows(group: Group, found) -> Iterator[list[str]]:
  """Makes a row for each tree of a draft."""
  models = group.config["models"]
  base = found.get(CHAIN, {}).get(PUBLISHED, {})
  for tree, own in found.items():
    nodes, levels = TREES[tree]
    times = main_table.times_of(group, tree)
    cell = metrics.cell(_answers(group, tree), PUBLISHED)
    chain = tree == CHAIN
    yield [
      models["draft"],
      "1" if models["draft_kind"] == "dspark" else str(levels),
      tree,
      str(nodes),
      *(tables.estimate(Estimate.of([*own[rule].values()])) for rule in RULES),
      comparing.percent(over(own[RAN], own[PUBLISHED])),
      NOTHING if chain else comparing.percent(over(own[PUBLISHED], base)),
      comparing.percent(over(own[RAN], base)),
      tables.estimate(cell.check, "+.3f"),
      main_table.speedup(times.get(RAN), times.get(PLAIN)),
    ]


def _reading(group: Group, found) -> Iterator[str]:
  """Says what both give together."""
  if CHAIN not in found:
    return
  base = found[CHAIN][PUBLISHED]
  gains = {
    tree: over(own[RAN], base) for tree, own in found.items() if tree != CHAIN
  }
  if told := comparing.gains_by_tree(gains):
    yield (
      f"{group.models}: over {PUBLISHED} on {CHAIN}, the {RAN} gains {told}."
    )


EXPERIMENT = experiment.Experiment(
  name="drafts",
  title="Which draft: what the rule, the tree and both give",
  sweep=sweep,
  render=render,
  configs=(
    "quickstart",
    "quickstart:eagle",
    "quickstart:eagle3",
    "quickstart:dspark",
  ),
  base={
    "trees": " ".join(TREES),
    "verifiers": RAN,
    "baseline": PUBLISHED,
    "proposals": comparing.PROPOSAL,
    "temperatures": (1.0,),
    "draft_temperature": 0.0,
    "timing.stages": "",
    "explorer.per_task": 0,
  },
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
