"""What a run ran on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess

import jax

_PACKAGES = ("jax", "jaxlib", "flax", "transformers", "numpy")


def describe() -> dict:
  """Versions, devices and the date; `date` alone differs from run to run."""
  devices = jax.devices()
  return {
    "tv_jax": importlib.metadata.version("tv_jax"),
    "revision": _revision(),
    **{name: importlib.metadata.version(name) for name in _PACKAGES},
    "python": platform.python_version(),
    "system": platform.system(),
    "device": devices[0].device_kind,
    "devices": len(devices),
    "cpu": cpu(),
    "cores": cores(),
    "date": datetime.date.today().isoformat(),
  }


def cores() -> int:
  """The cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 0


def cpu() -> str:
  """The processor's name, where the system tells it."""
  return _told("model name") or platform.processor() or "unknown CPU"


def features() -> str:
  """What the processor can do, where the system tells it."""
  return _told("flags")


def _told(name: str) -> str:
  """A field of the first processor."""
  path = pathlib.Path("/proc/cpuinfo")
  for line in path.read_text().splitlines() if path.exists() else ():
    if line.startswith(name):
      return line.partition(":")[2].strip()
  return ""


def _revision() -> str:
  """The commit of the sources, where they are a git checkout."""
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
