"""What it does to draw the bonus token without temperature. NOT LOSSLESS.

  python -m experiments.as_published

EAGLE-1's and Spec-Bench's code does so (experiments/published.py). The
certificate says what it is. Whole outputs are compared beside the sound rule's
at temperature 0.6, where it matters, and at 1, where it does not; of a few
seeds of the bundled pair they need not show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments import command, comparing, experiment, outputs
from experiments.experiment import Artefact, Group, Shard
from tv_jax.runs import metrics
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import Table

RULES = {0.6: "experiments.published:AT_0_6", 1.0: "experiments.published:AT_1"}
SEEDS = tuple(range(4))
SMALL = "branching:2,1"


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """A shard for each temperature, of all seeds."""
  asked = tuple(config.seeds) if len(config.seeds) > 1 else SEEDS
  for temperature, rule in RULES.items():
    own = {
      "temperatures": (temperature,),
      "verifiers": f"token_level {rule}",
      "seeds": asked,
    }
    if smoke:
      own["trees"] = "chain:5"
    yield Shard(f"temperature-{temperature:g}", own)


def render(groups: Sequence[Group]) -> Artefact:
  """The certificate, lengths, and whole outputs."""
  table, told = certificate()
  made, notes = [table], []
  for group in groups:
    made.append(_lengths(group))
    tested = outputs.tested(group)
    made.append(tested.table)
    told += _reading(group, tested.found)
    notes += comparing.notes(group)
  notes.append(outputs.DEFINITION)
  return Artefact(told, made, {}, notes)


def certificate() -> tuple[Table, list[str]]:
  """Both rules at both temperatures, by enumeration."""
  # Here, as it imports jax, which a launcher of sweeps does without.
  from experiments import certificates

  rows, told = [], []
  for temperature, rule in RULES.items():
    for name in ("token_level", rule):
      found = certificates.check(name, SMALL)
      own = [f"{temperature:g}", name, found.verdict, f"{found.distance:.1e}"]
      rows.append(own)
      if not found.lossless:
        told.append(
          f"The certificate: {name} is {found.verdict}; on small vocabularies"
          f" its output is up to {found.distance:.3f} from the target's law, in"
          " total variation."
        )
  header = ["temperature", "rule", "verdict", "distance"]
  return Table(f"The certificate, on {SMALL}", [], header, rows), told


def _lengths(group) -> Table:
  rows = []
  for method in outputs.methods(group.answers):
    cell = metrics.cell(comparing.of(group.answers, method))
    rows.append(
      [
        f"{method.temperature:g}",
        method.tree,
        method.verifier,
        tables.estimate(cell.by_item),
        tables.estimate(cell.exact_match),
      ]
    )
  header = ["temperature", "tree", "rule", "by item", "exact match"]
  return Table(f"{group.name}: lengths", [], header, rows)


def _reading(group, found) -> Iterator[str]:
  """How the outputs of the faulty rule, and of the sound one, differ."""
  for method, one in found.items():
    seen = "differ" if one.chance < outputs.SMALL else "do not differ"
    yield (
      f"{group.models}: {method}: whole outputs {seen} from plain decoding's"
      f" (chance {one.chance:.3f})."
    )


EXPERIMENT = experiment.Experiment(
  name="as_published",
  title="As published: the bonus token without temperature, NOT LOSSLESS",
  sweep=sweep,
  render=render,
  base={
    "trees": "chain:5 eagle",
    "baseline": "token_level",
    **experiment.LENGTHS_ALONE,
  },
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
