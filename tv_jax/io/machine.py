"""The cores and the memory that this process may use.

A container or a job of SLURM may have less than the machine.
"""

import os
import pathlib
from collections.abc import Iterator

_CGROUPS = pathlib.Path("/sys/fs/cgroup")
_GROUPS = pathlib.Path("/proc/self/cgroup")


def cores() -> int:
  """Returns the number of cores."""
  count = os.cpu_count() or 1
  if hasattr(os, "sched_getaffinity"):
    count = len(os.sched_getaffinity(0))
  return min(count, int(os.environ.get("SLURM_CPUS_ON_NODE", count)))


def memory() -> int:
  """Returns the memory in bytes."""
  whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
  return min([whole, *_of_slurm(), *_of_groups()])


def _of_slurm() -> Iterator[int]:
  """Yields the limit of the job, which SLURM gives in MB."""
  if megabytes := int(os.environ.get("SLURM_MEM_PER_NODE", 0)):
    yield megabytes << 20
  if megabytes := int(os.environ.get("SLURM_MEM_PER_CPU", 0)):
    yield (megabytes << 20) * cores()


def _of_groups() -> Iterator[int]:
  """Yields the limits of the cgroups, in version 1 and 2, outer ones too."""
  lines = _GROUPS.read_text().splitlines() if _GROUPS.exists() else ()
  for line in lines:
    _, kind, name = line.split(":", 2)
    if kind not in ("", "memory"):
      continue
    file = "memory.limit_in_bytes" if kind else "memory.max"
    group = pathlib.PurePosixPath(name.lstrip("/"))
    for place in (group, *group.parents):
      path = _CGROUPS / kind / place / file
      limit = path.read_text().strip() if path.exists() else ""
      if limit.isdigit():  # not "max"
        yield int(limit)
