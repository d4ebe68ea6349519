"""The command, given as a user gives it, on a small grid."""

import os
import pathlib
import resource
import signal
import subprocess
import sys

from tests.stores import ROOT

SMALL = (
  "--config.per_task=2",
  "--config.tasks=qa mt_bench",
  "--config.trees=chain:2",
  "--config.max_new_tokens=24",
  "--config.batch_size=3",
  "--config.timing.per_task=0",
)


def start(*arguments, program="tv_jax.main", limit=None, **options):
  """A process; it hears SIGINT even where the tests run in the background.

  Args:
    *arguments: Of the command.
    program: The module.
    limit: Bytes that no file may outgrow.
    **options: Of Popen.
  """

  def prepare():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if limit is not None:
      hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
      resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))

  told = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
  # The tests' own devices, or cache, are not a user's.
  dropped = ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")
  kept = {k: v for k, v in os.environ.items() if k not in dropped}
  return subprocess.Popen(
    [sys.executable, "-m", program, *map(str, arguments)],
    env=kept | told,
    cwd=options.pop("cwd", ROOT),
    stdout=options.pop("stdout", subprocess.PIPE),
    stderr=options.pop("stderr", subprocess.PIPE),
    text=True,
    preexec_fn=prepare,
    **options,
  )


def ended(process):
  """What a process did, once it ended by itself."""
  with process:
    out, error = process.communicate(timeout=180)
  return subprocess.CompletedProcess(
    process.args, process.returncode, out, error
  )


def run(*arguments, **options):
  """A whole process."""
  return ended(start(*arguments, **options))


def refused(done):
  """The one line that a command ended with."""
  last = done.stderr.splitlines()[-1]
  assert done.returncode == 2, done.stderr
  assert "Traceback" not in done.stderr
  assert last.startswith("tv_jax.main: ")
  assert done.stdout == ""
  return last


def contents(folder):
  """All files but those that tell one process from another."""
  return {
    path.name: path.read_bytes()
    for path in sorted(pathlib.Path(folder).iterdir())
    if path.name not in ("lock", "env.json", "report.html")
  }
