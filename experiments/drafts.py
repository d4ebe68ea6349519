"""Which draft: what the rule gives, what the tree gives, and both.

Drafts of 2026 are published with lengths of chains of seven that are verified
token by token. Here each draft has that chain, and the paper's trees of 25 and
62 drafted nodes; the traversal runs, and token-level verification expects its
length on the same drafts. Several configs of one target show its drafts side by
side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from experiments import comparing, paper, sweeps
from experiments.comparing import over, percent
from experiments.experiment import Artefact, Experiment, Group, Shard
from tv_jax import tree as tree_lib
from tv_jax.edge.tables import NOTHING, Table
from tv_jax.engine.results import Estimate
from tv_jax.runs import metrics
from tv_jax.runs.records import PLAIN, Method
from tv_jax.runs.report import canvas, tables

CHAIN = "chain:7"
TREES = (CHAIN, "eagle", "kary:2x5")
KINDS = ("eagle", "eagle3", "dspark")  # beside an independent draft
PUBLISHED, RAN = RULES = ("token_level", "traversal")
HEADER = ["draft", "passes", "tree", "drafted", "the rule", "the tree", "both"]
HEADER += [*RULES, "check", "speed-up"]
NOTE = (
  f"Lengths are expected ones, by question: {RAN} runs, and {PUBLISHED}"
  f" expects its own on the same drafts. The rule: {RAN} over {PUBLISHED}."
  f" The tree: {PUBLISHED} on it over {PUBLISHED} on {CHAIN}. Both: {RAN} on it"
  f" over {PUBLISHED} on {CHAIN}. Gains are paired by question. Passes: of the"
  f" draft, in a cycle. Speed-up: of {RAN} over plain decoding, in turn on the"
  " same few questions, where they were timed."
)


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table and a figure of all groups."""
  artefact, rows, lines = Artefact(), [], {}
  for group in groups:
    models = group.config["models"]
    base, both = {}, {}  # what PUBLISHED expects of CHAIN; gains by tree
    line = lines[group.name] = {rule: {} for rule in RULES}
    for tree in TREES:
      place = Method(tree=tree, proposal=paper.PROPOSAL, temperature=1.0)
      answers = comparing.of(group.answers, place)
      ran = comparing.of(answers, Method(verifier=RAN))
      short, long = (metrics.expected_by_item(ran, rule) for rule in RULES)
      if not (short and long):
        continue
      chain, parsed = tree == CHAIN, tree_lib.parse(tree)
      base = short if chain else base
      times, nodes = comparing.times_of(group, place), len(parsed) - 1
      lengths = [Estimate.of([*values.values()]) for values in (short, long)]
      for rule, length in zip(RULES, lengths, strict=True):
        line[rule][nodes] = length
      both[tree] = over(long, base)
      rows.append(
        [
          models["draft"],
          "1" if models["draft_kind"] == "dspark" else str(parsed.max_depth),
          tree,
          str(nodes),
          percent(over(long, short)),
          NOTHING if chain else percent(over(short, base)),
          percent(both[tree]),
          *map(tables.estimate, lengths),
          tables.estimate(metrics.cell(ran).check, "+.3f"),
          comparing.speedup(times.get(RAN), times.get(PLAIN)),
        ]
      )
    both.pop(CHAIN, None)
    if text := comparing.gains(both):
      artefact.reading.append(
        f"{group.models}: over {PUBLISHED} on {CHAIN}, the {RAN} gains {text}."
      )
    artefact.notes += group.notes
  artefact.tables.append(Table("Drafts", [], HEADER, rows))
  artefact.figures["drafts"] = canvas.lines(
    lines, x="drafted nodes", y="tokens a cycle"
  )
  artefact.notes.append(NOTE)
  return artefact


def _shards(config: Any, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each of the config's own seeds."""
  return sweeps.timed_once(config, smoke, config.seeds)


DRAFTS = Experiment(
  name="drafts",
  title="Which draft: what the rule, the tree and both give",
  sweep=_shards,
  render=render,
  configs=("quickstart", *(f"quickstart:{kind}" for kind in KINDS)),
  base={
    "trees": " ".join(TREES),
    "verifiers": RAN,
    "baseline": PUBLISHED,
    "proposals": paper.PROPOSAL,
    "temperatures": (1.0,),
    "draft_temperature": 0.0,
    "explorer.per_task": 0,
  },
)
