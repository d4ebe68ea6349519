"""The command: `python -m bundled --config=configs/train_bundled.py`."""

import pathlib
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from tv_jax import config_flag, endings

_CONFIG = config_flags.DEFINE_config_file("config", None, config_flag.HELP)
_WORKDIR = flags.DEFINE_string(
  "workdir",
  "runs/train_bundled",
  "For checkpoints, logs and results; the same command again goes on.",
)


def main(argv):
  """Trains; exits with 2 and one line on a bad path or field."""
  logging.set_verbosity(logging.INFO)
  try:
    if argv[1:]:
      raise ValueError(f"unexpected argument {argv[1]!r}; flags start with --")
    if _CONFIG.value is None:
      raise ValueError("--config=configs/train_bundled.py is missing")
    # Slow to import: a bad flag is answered before.
    from bundled import pair, settings

    told = settings.from_config(_CONFIG.value)
    pair.run(told, pathlib.Path(_WORKDIR.value))
  except (ValueError, OSError) as error:
    sys.exit(_complain(error))


def _parse(argv):
  """Reads the flags; a config file runs as it is read, and may raise."""
  try:
    return config_flag.parse(argv)
  except Exception as error:
    sys.exit(_complain(error))


def _complain(error):
  """Prints one line, and returns the exit status of a bad command."""
  print("bundled:", " ".join(str(error).split()), file=sys.stderr)
  return 2


if __name__ == "__main__":
  endings.run(lambda heard: app.run(main, flags_parser=_parse))
