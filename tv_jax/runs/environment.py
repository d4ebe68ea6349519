"""The versions and the machine of a run."""

import datetime
import functools
import importlib
import importlib.metadata
import pathlib
import platform
import re
import subprocess

import jax

from tv_jax.io import machine
from tv_jax.models import native

_PACKAGES = ("jax", "jaxlib", "flax", "transformers", "numpy")


def describe() -> dict:
  """Returns the versions, devices and date of this process."""
  devices = jax.devices()
  return {
    "tv_jax": importlib.import_module("tv_jax").__version__,
    "revision": _revision(),
    **{name: importlib.metadata.version(name) for name in _PACKAGES},
    "python": platform.python_version(),
    "system": platform.system(),
    "device": devices[0].device_kind,
    "devices": len(devices),
    "cpu": cpu(),
    "products": "native" if native.used() else "XLA",
    "cores": machine.cores(),
    "date": datetime.date.today().isoformat(),
  }


def cpu() -> str:
  """Returns the processor's name, where the system tells it."""
  path = pathlib.Path("/proc/cpuinfo")
  lines = path.read_text() if path.exists() else ""
  names = re.findall("^model name\\s*: (.*)", lines, re.M)
  return names[0] if names else platform.processor() or "unknown CPU"


@functools.cache
def _revision() -> str:
  """Returns the commit of the sources at the first call, or ""."""
  folder = pathlib.Path(__file__).parents[2]
  if not (folder / ".git").exists():
    return ""
  command = ["git", "-C", folder, "describe", "--always", "--dirty"]
  try:
    done = subprocess.run([*command, "--abbrev=12"], capture_output=True)
  except FileNotFoundError:  # git is not installed
    return ""
  return done.stdout.decode().strip()
