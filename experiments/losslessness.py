"""Is it lossless? The certificate, optimality on chains, and whole outputs.

  python -m experiments.losslessness
  python -m experiments.losslessness --config=configs/llama3_1b_8b.py

Three views of one claim. The certificate enumerates small vocabularies, and is
the proof. On chains the traversal takes block verification's decisions, which
are optimal. Whole answers are compared with those of plain decoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments import command, comparing, experiment, outputs
from experiments.experiment import Artefact, Group
from tv_jax.runs import metrics
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import Table

CHAIN = "chain:5"
RULES = ("token_level", "traversal", "block")
AT_ONE = Method(tree=CHAIN, proposal=comparing.PROPOSAL, temperature=1.0)
# The test of outputs needs several answers by each method to each question.
SEEDS = tuple(range(8))


def render(groups: Sequence[Group]) -> Artefact:
  """Makes the certificate once, and the other tables for each group."""
  table, line = _certificate()
  made = Artefact(reading=[line], tables=[table])
  for group in groups:
    chains, told = _chains(group)
    found = outputs.tested(group)
    if found:
      least = min(one.chance for one in found.values())
      bound = min(1.0, least * len(found))  # of any dependent tests
      told.append(
        f"whole outputs of {len(found)} methods against plain decoding: the"
        f" smallest p-value is {least:.3f}; corrected for {len(found)} tests"
        f" (Bonferroni) it is {bound:.2f}."
      )
    made.tables += [chains, outputs.table(group, found)]
    made.reading += [f"{group.models}: {one}" for one in told]
    made.notes += comparing.notes(group)
  made.notes.append(outputs.DEFINITION)
  return made


def certify(rule: str, tree: str, proposal: str = comparing.PROPOSAL):
  """Certifies a rule on small vocabularies."""
  # Imported here, because a launcher of sweeps does without jax.
  import jax

  from tv_jax import certify, verifiers

  with jax.enable_x64(True):
    settings = certify.Settings(cases=9)
    return certify.check(verifiers.resolve(rule), proposal, tree, settings)


def _certificate() -> tuple[Table, str]:
  """Certifies every rule with every proposal on small trees."""
  from tv_jax import tree as tree_lib
  from tv_jax.proposals import PROPOSALS
  from tv_jax.verifiers import VERIFIERS, misfit

  rows, worst, faults = [], 0.0, 0
  for name in RULES:
    for tree in ("chain:2", "kary:2x2"):
      for proposal, drawn in PROPOSALS.items():
        if misfit(VERIFIERS[name], tree_lib.parse(tree), drawn):
          continue
        found = certify(name, tree, proposal)
        own = [found.verdict, f"{found.distance:.1e}", f"{found.gain:+.1%}"]
        rows.append([name, tree, proposal, *own])
        worst = max(worst, found.distance)
        faults += not found.lossless
  header = ["rule", "tree", "proposal", "verdict", "distance", "gain"]
  line = (
    f"By enumeration {len(rows) - faults} of {len(rows)} combinations are"
    f" lossless; the largest total variation from the target's law is"
    f" {worst:.1e}."
  )
  return Table("The certificate", [], header, rows), line


def _chains(group: Group) -> tuple[Table, list[str]]:
  """Compares what rules expect on the same drafts, and what they accept."""
  own = {
    rule: comparing.of(
      group.answers, dataclasses.replace(AT_ONE, verifier=rule)
    )
    for rule in RULES
  }
  rows, told = [], []
  for rule, answers in own.items():
    cell = metrics.cell(answers, comparing.BASELINE) if answers else None
    rows.append(
      [
        rule,
        tables.estimate(cell and cell.by_item),
        tables.estimate(cell and cell.expected, ".3f"),
        tables.estimate(cell and cell.gain, "+.3f"),
        tables.estimate(cell and cell.check, "+.3f"),
      ]
    )
    if cell and cell.gain:
      told.append(
        f"on {CHAIN} {rule} expects {cell.gain:+.3f} tokens a cycle over"
        " token-level on the same drafts."
      )
  first, second = (_lengths(own[rule]) for rule in ("traversal", "block"))
  if both := {*first} & {*second}:
    same = sum(first[key] == second[key] for key in both)
    told.append(
      f"block verification and the traversal gained the same lengths in {same}"
      f" of {len(both)} answers on {CHAIN}."
    )
  header = ["rule", "by item", "expected", "less token-level, same drafts"]
  title = f"{group.name}: {CHAIN}"
  return Table(title, [], [*header, "check"], rows), told


def _lengths(answers: Sequence[Answer]) -> dict[tuple, list[int]]:
  return {
    (a.question, a.turn, a.method.seed): [*a.accepted]
    for a in answers
    if a.error is None
  }


EXPERIMENT = experiment.Experiment(
  name="losslessness",
  title="Losslessness: by enumeration, on chains, and of whole outputs",
  sweep=lambda config, smoke: experiment.by_seed(
    config, 4 if smoke else None, SEEDS
  ),
  render=render,
  base={
    "temperatures": (1.0,),
    "trees": f"{CHAIN} eagle",
    "verifiers": " ".join(RULES),
    **experiment.LENGTHS_ALONE,
  },
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
