"""What a run runs on, and the programs that were compiled for it."""

import datetime
import functools
import importlib.metadata
import os
import pathlib
import platform
import subprocess

import jax

_PACKAGES = ("jax", "jaxlib", "flax", "transformers", "numpy")


def describe() -> dict:
  """Versions, devices and the date; `date` alone differs from run to run."""
  devices, processes = jax.devices(), jax.process_count()
  return {
    "tv_jax": importlib.metadata.version("tv_jax"),
    "revision": _revision(),
    **{name: importlib.metadata.version(name) for name in _PACKAGES},
    "python": platform.python_version(),
    "system": platform.system(),
    "device": devices[0].device_kind,
    "devices": len(devices),
    **({"processes": processes} if processes > 1 else {}),
    "cpu": cpu(),
    "cores": cores(),
    "date": datetime.date.today().isoformat(),
  }


def cpu() -> str:
  """Returns the processor's name, where the system tells it."""
  path = pathlib.Path("/proc/cpuinfo")
  for line in path.read_text().splitlines() if path.exists() else ():
    if line.startswith("model name"):
      return line.partition(":")[2].strip()
  return platform.processor() or "unknown CPU"


def cores() -> int:
  """Returns the cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 0


@functools.cache
def _revision() -> str:
  """Returns the commit of the sources, where they are a git checkout.

  As it was when this was first asked, soon after they were read.
  """
  here = pathlib.Path(__file__).parents[2]
  if not (here / ".git").exists():
    return ""
  try:
    found = subprocess.run(
      ["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=12"],
      capture_output=True,
      text=True,
      timeout=10,
      check=False,
    )
  except (OSError, subprocess.TimeoutExpired):
    return ""
  return found.stdout.strip()
