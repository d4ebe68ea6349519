"""What a run runs on, and the programs that were compiled for it."""

import datetime
import functools
import hashlib
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
    **_processes(),
    "cpu": cpu(),
    "cores": cores(),
    "date": datetime.date.today().isoformat(),
  }


def _processes() -> dict:
  """How many there are, of a run on several."""
  count = jax.process_count()
  return {"processes": count} if count > 1 else {}


def keep_programs(folder: str | None = None) -> None:
  """Lets jax keep compiled programs from one start to the next.

  Args:
    folder: Where; "" for nowhere. By default what JAX_COMPILATION_CACHE_DIR
      says, or a folder of this kind of machine in the user's cache: programs
      for one processor may crash on another that shares the home.
  """
  if folder is None:
    if jax.config.jax_compilation_cache_dir:
      return
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    kind = f"{jax.__version__} {cpu()} {_told('flags')}"
    digest = hashlib.sha256(kind.encode()).hexdigest()[:12]
    folder = str(pathlib.Path(home).expanduser() / "tv_jax" / digest)
  jax.config.update("jax_compilation_cache_dir", folder or None)
  # A start compiles many small programs: together they take as long as a large.
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cores() -> int:
  """The cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 0


def cpu() -> str:
  """The processor's name, where the system tells it."""
  return _told("model name") or platform.processor() or "unknown CPU"


def _told(name: str) -> str:
  """A field of the first processor."""
  path = pathlib.Path("/proc/cpuinfo")
  for line in path.read_text().splitlines() if path.exists() else ():
    if line.startswith(name):
      return line.partition(":")[2].strip()
  return ""


@functools.cache
def _revision() -> str:
  """The commit of the sources, where they are a git checkout.

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
