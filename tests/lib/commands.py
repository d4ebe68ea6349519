"""Runs commands as users do, on a small grid."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

from tests.lib import quick
from tests.lib.stores import ROOT

SMALL = (
  "--config=quickstart",
  "--config.per_task=2",
  "--config.tasks=qa mt_bench",
  "--config.trees=chain:2",
  "--config.plain=False",
  "--config.max_new_tokens=24",
  "--config.batch_size=3",
  "--config.timing.per_task=0",
)


# In the child, as preexec_fn would fork under jax's threads. Tests that run in
# the background ignore SIGINT, and so would all that they start.
_PREPARE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def start(
  *arguments, program="tv_jax.main", devices=1, package=ROOT, **options
):
  """Starts a process that receives SIGINT; `package` has tv_jax."""
  # The tests' own devices, or cache, are not a user's.
  added = {
    "PYTHONPATH": str(package),
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": quick.flags(devices),
  }
  dropped = "JAX_COMPILATION_CACHE_DIR"
  kept = {k: v for k, v in os.environ.items() if k != dropped}
  prepare = [sys.executable, "-I", "-S", "-c", _PREPARE]
  defaults = {
    "cwd": ROOT,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
  }
  return subprocess.Popen(
    [*prepare, sys.executable, "-m", program, *map(str, arguments)],
    env=kept | added,
    text=True,
    **defaults | options,
  )


def ended(process):
  """Waits for a process, and returns its status and output."""
  with process:
    out, error = process.communicate(timeout=600)
  return subprocess.CompletedProcess(
    process.args, process.returncode, out, error
  )


def until(look, seconds=800):
  """Calls `look` until it returns something true, and returns that."""
  limit = time.monotonic() + seconds
  while time.monotonic() < limit:
    with contextlib.suppress(OSError, ValueError, IndexError):  # half written
      if seen := look():
        return seen
    time.sleep(0.005)
  raise AssertionError(f"nothing came within {seconds} s")


def run(*arguments, **options):
  """Runs a process to its end."""
  return ended(start(*arguments, **options))


def refused(done):
  """Returns the line with which a command refused to run."""
  last = done.stderr.splitlines()[-1]
  assert done.returncode == 2, done.stderr
  assert "Traceback" not in done.stderr
  assert last.startswith("tv_jax.main: ")
  assert done.stdout == ""
  return last


def contents(folder):
  """Returns the files that must not differ between processes."""
  return {
    path.name: path.read_bytes()
    for path in sorted(pathlib.Path(folder).iterdir())
    if path.name not in ("lock", "env.json", "report.html")
  }
