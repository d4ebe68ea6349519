"""The experiments, in the order of the results page."""

from experiments.experiment import Experiment
from tv_jax.io import names
from tv_jax.io.errors import UserError

# The object of each experiment, by name.
NAMES = {
  "main_table": "experiments.sweeps:MAIN_TABLE",
  "temperature": "experiments.sweeps:TEMPERATURE",
  "depth": "experiments.sweeps:DEPTH",
  "quality": "experiments.quality:QUALITY",
  "drafts": "experiments.trees:DRAFTS",
}


def find(name: str) -> Experiment:
  """Returns the experiment of this name, or a user's by `module:name`."""
  if name not in NAMES and ":" not in name:
    raise UserError(
      f"experiment {name!r} is not one of {', '.join(NAMES)}, nor module:name"
    )
  return names.load(NAMES.get(name, name), "experiment")
