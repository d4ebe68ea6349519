"""Is it lossless? The certificate, optimality on chains, and whole outputs.

  python -m experiments losslessness
  python -m experiments losslessness --config=configs/llama3_1b_8b.py

Three views of one claim. The certificate enumerates small vocabularies, and is
the proof. On chains the traversal takes block verification's decisions, which
are optimal. Whole answers are compared with those of plain decoding.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax

from experiments import comparing, experiment, outputs, paper
from experiments.experiment import Artefact, Experiment, Group
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import NOTHING, Table
from tv_jax.verifiers import VERIFIERS, misfit

CHAIN = "chain:5"
RULES = ("token_level", "traversal", "block")
ON_CHAIN = Method(tree=CHAIN, proposal=paper.PROPOSAL, temperature=1.0)
# The test of outputs needs several answers by each method to each question.
SEEDS = tuple(range(8))
NOTE = (
  "Outputs: answers to the first turn of each question, by each rule and by"
  " plain decoding, several per question, with different seeds. Distance: the"
  f" maximum mean discrepancy of runs of 1 to {outputs.LONGEST} tokens,"
  " unbiased, averaged over questions. Chance: the p-value of the distance if"
  f" both wrote one law, from {outputs.SHUFFLES} shuffles of the labels within"
  " questions."
)


def render(groups: Sequence[Group]) -> Artefact:
  """Makes the certificate once, and the other tables for each group."""
  made = Artefact(notes=[NOTE])
  _certificate(made)
  for group in groups:
    _chains(group, made)
    _outputs(group, made)
    made.notes += group.notes
  return made


def _certificate(made: Artefact) -> None:
  """Certifies every rule with every proposal on small trees."""
  rows, results = [], []
  for name in RULES:
    for tree in ("chain:2", "kary:2x2"):
      for proposal, drawn in PROPOSALS.items():
        if misfit(VERIFIERS[name], tree_lib.parse(tree), drawn):
          continue
        with jax.enable_x64(True):
          settings = certify.Settings(cases=9)
          result = certify.check(VERIFIERS[name], proposal, tree, settings)
        numbers = f"{result.distance:.1e}", f"{result.gain:+.1%}"
        rows.append([name, tree, proposal, result.verdict, *numbers])
        results.append(result)
  header = ["rule", "tree", "proposal", "verdict", "distance", "gain"]
  made.tables.append(Table("The certificate", [], header, rows))
  made.reading.append(
    f"By enumeration {sum(one.lossless for one in results)} of {len(results)}"
    " combinations are lossless; the largest total variation from the target's"
    f" law is {max(one.distance for one in results):.1e}."
  )


def _chains(group: Group, made: Artefact) -> None:
  """Compares what rules expect on the same drafts, and what they accept."""
  answers = comparing.of(group.answers, ON_CHAIN)
  rows = []
  for rule, cell in comparing.compare(answers, RULES).items():
    numbers = cell and (cell.gain, cell.expected, cell.by_item, cell.check)
    specs = "+.3f", ".3f", ".2f", "+.3f"
    row = map(tables.estimate, numbers or [None] * len(specs), specs)
    rows.append([rule, *row])
  base, *others = RULES
  header = ["rule", f"over {base}, same drafts", "expected", "by item", "check"]
  made.tables.append(Table(f"{group.name}: {CHAIN}", [], header, rows))
  first, second = (
    _lengths(comparing.of(answers, Method(verifier=rule))) for rule in others
  )
  if both := {*first} & {*second}:
    same = sum(first[key] == second[key] for key in both)
    made.reading.append(
      f"{group.models}: block verification and the traversal gained the same"
      f" lengths in {same} of {len(both)} answers on {CHAIN}."
    )


def _lengths(answers: Sequence[Answer]) -> dict[tuple, list[int]]:
  return {
    (a.question, a.turn, a.method.seed): [*a.accepted]
    for a in answers
    if a.error is None
  }


def _outputs(group: Group, made: Artefact) -> None:
  """Tests whole outputs of all drafting methods against plain decoding."""
  methods = (a.method.pooled("seed") for a in group.answers)
  tested = {
    method: result
    for method in dict.fromkeys(methods)
    if not method.plain and (result := outputs.test(group.answers, method))
  }
  rows = [
    [
      f"{method.verifier}",
      f"{method.tree}",
      f"{method.temperature:g}",
      f"{one.distance:+.5f}",
      f"{one.chance:.3f}",
      str(one.questions),
      str(one.answers),
    ]
    for method, one in tested.items()
  ]
  header = ["rule", "tree", "temperature", "distance", "chance"]
  header += ["questions", "answers"]
  title = f"{group.name}: whole outputs against plain decoding"
  nothing = [[NOTHING] * len(header)]  # too few seeds
  made.tables.append(Table(title, [], header, rows or nothing))
  if tested:
    least = min(one.chance for one in tested.values())
    bound = min(1.0, least * len(tested))  # of any dependent tests
    made.reading.append(
      f"{group.models}: whole outputs of {len(tested)} methods against plain"
      f" decoding: the smallest p-value is {least:.3f}; corrected for"
      f" {len(tested)} tests (Bonferroni) it is {bound:.2f}."
    )


LOSSLESSNESS = Experiment(
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
