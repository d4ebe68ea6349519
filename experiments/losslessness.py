"""Is it lossless? The certificate, and optimality on chains.

The certificate enumerates small vocabularies, and is the proof. On chains the
traversal takes block verification's decisions, which are optimal.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax

from experiments import comparing, experiment, paper
from experiments.experiment import Artefact, Experiment, Group
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.edge.tables import Table
from tv_jax.proposals import PROPOSALS
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report import tables
from tv_jax.verifiers import VERIFIERS, misfit

CHAIN = Method(tree="chain:5", proposal=paper.PROPOSAL, temperature=1.0)
RULES = ("token_level", "traversal", "block")


def render(groups: Sequence[Group]) -> Artefact:
  """Makes the certificate once, and a table of chains for each group."""
  artefact = Artefact()
  _certificate(artefact)
  for group in groups:
    _chains(group, artefact)
    artefact.notes += group.notes
  return artefact


def _certificate(artefact: Artefact) -> None:
  """Certifies every rule with every proposal on small trees."""
  rows, results, base = [], [], {}
  for name in RULES:
    for tree in ("chain:2", "kary:2x2"):
      for proposal, drawn in PROPOSALS.items():
        if misfit(VERIFIERS[name], tree_lib.parse(tree), drawn):
          continue
        with jax.enable_x64(True):
          settings = certify.Settings(cases=9)
          result = certify.check(VERIFIERS[name], proposal, tree, settings)
        # The first rule is what the others gain over.
        gain = result.length / base.setdefault((tree, proposal), result.length)
        numbers = f"{result.distance:.1e}", f"{round(gain - 1, 4) + 0.0:+.1%}"
        rows.append([name, tree, proposal, result.verdict, *numbers])
        results.append(result)
  header = ["rule", "tree", "proposal", "verdict", "distance", "gain"]
  artefact.tables.append(Table("The certificate", [], header, rows))
  count = sum(result.lossless for result in results)
  artefact.reading.append(
    f"By enumeration {count} of {len(results)} combinations are lossless; the"
    " largest total variation from the target's law is"
    f" {max(result.distance for result in results):.1e}."
  )


def _chains(group: Group, artefact: Artefact) -> None:
  """Compares what rules expect on the same drafts, and what they accept."""
  answers = comparing.of(group.answers, CHAIN)
  rows = []
  for rule, cell in comparing.compare(answers, RULES).items():
    numbers = cell and (cell.gain, cell.expected, cell.by_item, cell.check)
    specs = "+.3f", ".3f", ".2f", "+.3f"
    row = map(tables.estimate, numbers or [None] * len(specs), specs)
    rows.append([rule, *row])
  base, *others = RULES
  header = ["rule", f"over {base}, same drafts", "expected", "by item", "check"]
  title = f"{group.name}: {CHAIN.tree}"
  artefact.tables.append(Table(title, [], header, rows))
  first, second = (
    _lengths(comparing.of(answers, Method(verifier=rule))) for rule in others
  )
  both = {*first} & {*second}
  same = sum(first[key] == second[key] for key in both)
  artefact.reading.append(
    f"{group.models}: block verification and the traversal gained the same"
    f" lengths in {same} of {len(both)} answers on {CHAIN.tree}."
  )


def _lengths(answers: Sequence[Answer]) -> dict[tuple, list[int]]:
  return {
    (a.question, a.turn, a.method.seed): [*a.accepted]
    for a in answers
    if a.error is None
  }


LOSSLESSNESS = Experiment(
  name="losslessness",
  title="Losslessness: by enumeration, and on chains",
  sweep=lambda config, smoke: experiment.by_seed(config, 1 if smoke else None),
  render=render,
  base={
    "temperatures": (CHAIN.temperature,),
    "trees": CHAIN.tree,
    "verifiers": " ".join(RULES),
    "plain": False,
    **experiment.LENGTHS_ALONE,
  },
)
