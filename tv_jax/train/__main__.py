"""The command: `python -m tv_jax.train --config=configs/train_bundled.py`."""

import pathlib
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from tv_jax.train import pair, settings

_CONFIG = config_flags.DEFINE_config_file(
  "config", None, "A file with get_config(), and overrides of its fields."
)
_WORKDIR = flags.DEFINE_string(
  "workdir",
  "runs/train_bundled",
  "For checkpoints, logs and results; the same command again goes on.",
)


def main(argv):
  """Trains; exits with one line on a bad flag, path or field."""
  logging.set_verbosity(logging.INFO)
  try:
    if argv[1:]:
      raise ValueError(f"unexpected argument {argv[1]!r}; flags start with --")
    if _CONFIG.value is None:
      raise ValueError("give --config=configs/train_bundled.py")
    told = settings.from_config(_CONFIG.value)
    pair.run(told, pathlib.Path(_WORKDIR.value))
  except (ValueError, OSError) as error:
    print(f"tv_jax.train: {error}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
  app.run(main)
