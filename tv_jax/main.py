"""Runs a config's grid: `python -m tv_jax.main --config=configs/quickstart.py`.

The same command again continues where it was.
"""

import contextlib
import functools
import importlib
import os
import pathlib

from absl import flags, logging
from ml_collections import config_flags

from tv_jax.edge import cli, config_flag

_CONFIG = config_flags.DEFINE_config_file("config", None, config_flag.HELP)
_WORKDIR = cli.define_folder(
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
_DISTRIBUTED = flags.DEFINE_string(
  "distributed",
  None,
  "Runs as one of several processes, each given the same command: auto, as jax"
  " finds them under SLURM or Open MPI, or HOST:PORT,COUNT,INDEX: where process"
  " 0 is to be found, how many there are, and which this is.",
)

# Of a process that is not the first of several.
_SILENT = (lambda line: None), (lambda done, count: None)


def main(heard, arguments):
  """Runs; 1 if every answer failed."""
  logging.set_verbosity(logging.WARNING)
  cli.no_arguments(arguments)
  with heard.deaf():
    # Slow to import: a bad flag is answered before.
    from tv_jax import runs

    importlib.import_module("tv_jax.runs.running")
  heard.abrupt = _DISTRIBUTED.value is not None
  hosts = runs.join(_DISTRIBUTED.value, lambda: bool(heard.status))
  with hosts.ending():
    settings = runs.from_config(_CONFIG.value)
    workdir = _WORKDIR.value or os.path.join("runs", settings.experiment)
    _keep(settings.questions, workdir)
    runs.keep_programs(_CACHE.value)
    return _run(heard, hosts, settings, workdir)


def _keep(questions, workdir):
  """Refuses what the report may be written over: it has no .jsonl."""
  path = pathlib.Path(questions.removeprefix("spec_bench:"))
  own = (
    path.is_file() and path.parent.resolve() == pathlib.Path(workdir).resolve()
  )
  if own and path.suffix != ".jsonl":
    raise ValueError(
      f"questions={questions}: the run's files are written there: give another"
      " --workdir, or a name that ends in .jsonl"
    )


def _run(heard, hosts, settings, workdir) -> int:
  """Runs, and writes the report, also when told to end; the exit status."""
  with heard.deaf():
    from tv_jax import runs
    from tv_jax.edge import disk
    from tv_jax.runs import report
    from tv_jax.runs.report import progress
  try:
    with contextlib.ExitStack() as held:
      if hosts.several:  # a signal is for where they meet
        held.enter_context(heard.deaf())
      say, advance = _SILENT
      if not hosts.index:
        say, advance = held.enter_context(progress.shown())
      runs.run(settings, workdir, say, advance, opened=hosts.store)
      hosts.leave()
  except BaseException:
    if not heard.status:
      raise
    cli.tell(f"{heard.word()}: the same command continues")
  if hosts.index:
    return heard.status
  # The next signal is of those who do not want to wait for the report.
  heard.leave = functools.partial(disk.clear, workdir)
  heard.at_once = True
  try:
    made = report.write(workdir)
    progress.show(made)
  except (ValueError, OSError) as error:
    if not heard.status:
      raise
    cli.tell(f"no report: {error}")
    return heard.status
  return heard.status or int(made.all_failed)


def _parse(argv):
  default = config_flag.folder() / "quickstart.py"
  return config_flag.parse(argv, str(default))


if __name__ == "__main__":
  cli.run("tv_jax.main", main, _parse)
