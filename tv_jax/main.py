"""Runs a config's grid: `python -m tv_jax.main --config=configs/quickstart.py`.

The same command again goes on where it was.
"""

import functools
import os
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from tv_jax import config_flag, endings

_CONFIG = config_flags.DEFINE_config_file("config", None, config_flag.HELP)
_WORKDIR = flags.DEFINE_string(
  "workdir",
  None,
  "For results and the report; by default runs/ and the experiment's name.",
)
_CACHE = flags.DEFINE_string(
  "compilation_cache",
  None,
  "Where compiled programs are kept for the next start; by default"
  " ~/.cache/tv_jax, or JAX_COMPILATION_CACHE_DIR. Empty: nowhere.",
)


def main(heard, argv):
  """Runs; the exit status is 2, after one line, for what the user can mend."""
  logging.set_verbosity(logging.WARNING)
  try:
    if argv[1:]:
      raise ValueError(f"unexpected argument {argv[1]!r}; flags start with --")
    with heard.deaf():
      # Slow to import: a bad flag is answered before.
      from tv_jax import evaluate
    settings = evaluate.from_config(_CONFIG.value)
    workdir = _WORKDIR.value or os.path.join("runs", settings.experiment)
    evaluate.keep_programs(_CACHE.value)
    return _run(heard, settings, workdir)
  except (ValueError, OSError) as error:
    if heard.status:
      raise
    return _complain(error)


def _run(heard, settings, workdir) -> int:
  """The run and its report; one that was told to end has a report too."""
  with heard.deaf():
    from tv_jax import evaluate, report, store
    from tv_jax.report import progress
  try:
    with progress.shown() as shown:
      evaluate.run(settings, workdir, shown.say, shown.advance)
  except BaseException:
    if not heard.status:
      raise
    endings.tell(f"{heard.word()}: the same command goes on")
  # The next signal is of those who do not want to wait for the report.
  heard.leave = functools.partial(store.clear, workdir)
  heard.at_once = True
  try:
    made = report.write(workdir)
    progress.show(made)
  except (ValueError, OSError) as error:
    if not heard.status:
      raise
    endings.tell(f"no report: {error}")
    return heard.status
  return heard.status or int(made.all_failed)


def _parse(argv):
  """Reads the flags; a config file runs as it is read, and may raise."""
  default = config_flag.folder() / "quickstart.py"
  try:
    return config_flag.parse(argv, str(default))
  except Exception as error:
    # What a config file raised comes with its traceback for a message.
    while "Traceback" in str(error) and error.__context__:
      error = error.__context__
    sys.exit(_complain(error))


def _complain(error) -> int:
  """Prints one line, and returns the exit status of a bad command."""
  print("tv_jax.main:", " ".join(str(error).split()), file=sys.stderr)
  return 2


if __name__ == "__main__":
  endings.run(
    lambda heard: app.run(functools.partial(main, heard), flags_parser=_parse)
  )
