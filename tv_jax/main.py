"""Runs a config's grid: `python -m tv_jax.main --config=configs/quickstart.py`.

The same command again goes on where it was.
"""

import _thread
import contextlib
import os
import pathlib
import signal
import sys
import threading

from absl import app, flags, logging
from ml_collections import config_flags

from tv_jax import config_flag

_ROOT = pathlib.Path(__file__).parents[1]
_INTERRUPTED = 128 + signal.SIGINT

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


def main(argv):
  """Runs; exits with 2 and one line for what the user can mend."""
  logging.set_verbosity(logging.WARNING)
  sys.unraisablehook = raise_again
  try:
    if argv[1:]:
      raise ValueError(f"unexpected argument {argv[1]!r}; flags start with --")
    with _deaf():
      # Slow to import: a bad flag is answered before.
      from tv_jax import evaluate
    settings = evaluate.from_config(_CONFIG.value)
    workdir = _WORKDIR.value or os.path.join("runs", settings.experiment)
    evaluate.keep_programs(_CACHE.value)
    status = _run(settings, workdir)
  except (ValueError, OSError) as error:
    status = _complain(error)
  except KeyboardInterrupt:
    status = _INTERRUPTED
    print("interrupted", file=sys.stderr)
  # All is done: one more Ctrl-C must not change how it ended.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  sys.exit(status)


@contextlib.contextmanager
def _deaf():
  """A Ctrl-C waits: one amid an import of jaxlib crashes the process."""
  before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def raise_again(unraisable) -> None:
  """A hook: a Ctrl-C that came where nothing can be raised comes once more.

  In a destructor or a callback of the garbage collector it would be printed,
  and forgotten.
  """
  if isinstance(unraisable.exc_value, KeyboardInterrupt):
    threading.Timer(0.1, _thread.interrupt_main).start()
  else:
    sys.__unraisablehook__(unraisable)


def _run(settings, workdir) -> int:
  """The run and its report; an interrupted one has a report too."""
  from tv_jax import evaluate, report
  from tv_jax.report import progress

  status = 0
  with progress.shown() as shown:
    try:
      evaluate.run(settings, workdir, shown.say, shown.advance)
    except KeyboardInterrupt:
      # A second one is for those who do not want to wait for the report.
      status = _INTERRUPTED
  if status:
    print("interrupted: the same command goes on", file=sys.stderr)
  try:
    made = report.write(workdir)
  except ValueError as error:
    if not status:
      raise
    print(f"no report: {error}", file=sys.stderr)
    return status
  progress.show(made)
  return status


def _parse(argv):
  """Reads the flags; a config file runs as it is read, and may raise."""
  sys.path.insert(0, str(_ROOT))  # config files may import one another
  default = _ROOT / "configs" / "quickstart.py"
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
  app.run(main, flags_parser=_parse)
