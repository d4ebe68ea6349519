"""The command: `python -m bundled --config=configs/train_bundled.py`."""

import pathlib

from absl import logging
from ml_collections import config_flags

from tv_jax import cli
from tv_jax.cli import config_flag

_CONFIG = config_flags.DEFINE_config_file("config", None, config_flag.HELP)
_WORKDIR = cli.define_folder(
  "workdir",
  "runs/train_bundled",
  "For checkpoints, logs and results; the same command again goes on.",
)


def main(heard, arguments):
  """Trains."""
  del heard
  logging.set_verbosity(logging.INFO)
  cli.no_arguments(arguments)
  if _CONFIG.value is None:
    raise ValueError("--config=configs/train_bundled.py is missing")
  # Slow to import: a bad flag is answered before.
  from bundled import pair, settings

  told = settings.from_config(_CONFIG.value)
  pair.run(told, pathlib.Path(_WORKDIR.value))


if __name__ == "__main__":
  cli.run("bundled", main, config_flag.parse)
