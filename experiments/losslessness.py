"""Is it lossless? The certificate, optimality on chains, and whole outputs.

  python -m experiments.losslessness
  python -m experiments.losslessness --config=configs/llama3_1b_8b.py

Three views of one claim. The certificate enumerates small vocabularies, and is
the proof; on chains the traversal takes block verification's decisions, which
are optimal; and whole answers are compared with those of plain decoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from experiments import command, comparing, experiment, outputs
from experiments.experiment import Artefact, Group, Shard
from tv_jax.runs import metrics
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import Table

CHAIN = "chain:5"
RULES = ("token_level", "traversal", "block")
AT_ONE = Method(tree=CHAIN, proposal=comparing.PROPOSAL, temperature=1.0)
# Answers of each question by each method: what the test of outputs compares.
SEEDS = tuple(range(8))


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """A shard for each seed."""
  asked = tuple(config.seeds) if len(config.seeds) > 1 else SEEDS
  for seed in asked[: 4 if smoke else None]:
    yield Shard(f"seed-{seed}", {"seeds": (seed,)})


def render(groups: Sequence[Group]) -> Artefact:
  """The certificate once; the rest for each group."""
  table, line = certificate()
  made, told, notes = [table], [line], []
  for group in groups:
    optimal, said = _chains(group)
    made.append(optimal)
    told += [f"{group.models}: {one}" for one in said]
    tested = outputs.tested(group)
    made.append(tested.table)
    told += [f"{group.models}: {one}" for one in tested.reading]
    notes += comparing.notes(group)
  return Artefact(told, made, {}, [*notes, outputs.DEFINITION])


def certificate() -> tuple[Table, str]:
  """Every rule under every proposal on small trees, by enumeration."""
  # Here, as it imports jax, which a launcher of sweeps does without.
  from experiments import certificates

  rows, worst, faults = [], 0.0, 0
  for name in RULES:
    for tree in ("chain:2", "kary:2x2"):
      for proposal in certificates.PROPOSALS:
        if not certificates.fits(name, proposal, tree):
          continue
        found = certificates.check(name, tree, proposal)
        rows.append(
          [
            name,
            tree,
            proposal,
            found.verdict,
            f"{found.distance:.1e}",
            f"{found.gain:+.1%}",
          ]
        )
        worst = max(worst, found.distance)
        faults += not found.lossless
  header = ["rule", "tree", "proposal", "verdict", "distance", "gain"]
  line = (
    f"By enumeration {len(rows) - faults} of {len(rows)} combinations are"
    f" lossless; the largest total variation from the target's law is"
    f" {worst:.1e}."
  )
  return Table("The certificate", [], header, rows), line


def _chains(group) -> tuple[Table, list[str]]:
  """What each rule expects on the same drafts, and whose decisions agree."""
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
  same, count = _alike(own["traversal"], own["block"])
  if count:
    told.append(
      f"block verification and the traversal gained the same lengths in {same}"
      f" of {count} answers on {CHAIN}."
    )
  header = ["rule", "by item", "expected", "less token-level, same drafts"]
  title = f"{group.name}: {CHAIN}"
  return Table(title, [], [*header, "check"], rows), told


def _alike(ours: list[Answer], theirs: list[Answer]) -> tuple[int, int]:
  """Answers of the same question and seed with the same lengths; and all."""

  def lengths(answers):
    return {
      (a.question, a.turn, a.method.seed): [*a.accepted]
      for a in answers
      if a.error is None
    }

  first, second = lengths(ours), lengths(theirs)
  both = set(first) & set(second)
  return sum(first[key] == second[key] for key in both), len(both)


EXPERIMENT = experiment.Experiment(
  name="losslessness",
  title="Losslessness: by enumeration, on chains, and of whole outputs",
  sweep=sweep,
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
