"""The paper's Table 1 and its example of section 3.2, by the package's rules.

  python -m experiments.worked_example

No models are run.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments import command, experiment
from experiments.experiment import Artefact, Group


def render(groups: Sequence[Group]) -> Artefact:
  """Makes the table and the example."""
  del groups
  # Imported here, because a launcher of sweeps does without jax.
  from experiments import example

  return example.render()


EXPERIMENT = experiment.Experiment(
  name="worked_example",
  title="The paper's Table 1 and its worked example",
  sweep=lambda config, smoke: iter(()),
  render=render,
  configs=(),
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
