"""What it does to draw the bonus token without temperature. NOT LOSSLESS.

  python -m experiments.as_published

The code of EAGLE-1 and Spec-Bench does so (experiments/published.py). The
certificate shows that this is not lossless. Whole outputs are compared with
plain decoding's at temperature 0.6, where it matters, and at 1, where it does
not. A few seeds of the bundled pair may not be enough to show a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments import command, comparing, experiment, losslessness, outputs
from experiments.experiment import Artefact, Group, Shard
from tv_jax.runs import metrics
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import Table

RULES = {0.6: "experiments.published:AT_0_6", 1.0: "experiments.published:AT_1"}
SEEDS = tuple(range(4))
SMALL = "branching:2,1"


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each temperature, with all seeds."""
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
  """Makes the certificate, and each group's lengths and whole outputs."""
  made = Artefact()
  _certificate(made)
  for group in groups:
    found = outputs.tested(group)
    made.tables += [_lengths(group), outputs.table(group, found)]
    for method, one in found.items():
      seen = "differ" if one.chance < outputs.SMALL else "do not differ"
      made.reading.append(
        f"{group.models}: {method}: whole outputs {seen} from plain decoding's"
        f" (chance {one.chance:.3f})."
      )
    made.notes += comparing.notes(group)
  made.notes.append(outputs.DEFINITION)
  return made


def _certificate(made: Artefact) -> None:
  """Certifies both rules at both temperatures."""
  rows = []
  for temperature, rule in RULES.items():
    for name in ("token_level", rule):
      found = losslessness.certify(name, SMALL)
      own = [f"{temperature:g}", name, found.verdict, f"{found.distance:.1e}"]
      rows.append(own)
      if not found.lossless:
        made.reading.append(
          f"The certificate: {name} is {found.verdict}; on small vocabularies"
          f" its output is up to {found.distance:.3f} from the target's law, in"
          " total variation."
        )
  header = ["temperature", "rule", "verdict", "distance"]
  made.tables.append(Table(f"The certificate, on {SMALL}", [], header, rows))


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
