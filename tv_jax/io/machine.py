"""The cores and the memory that this process may use.

A container or a job of SLURM may have less than the machine.
"""

import os
import pathlib

_CGROUPS = pathlib.Path("/sys/fs/cgroup")
_GROUP = pathlib.Path("/proc/self/cgroup")


def cores() -> int:
  """Returns the number of cores."""
  count = os.cpu_count() or 1
  if hasattr(os, "sched_getaffinity"):
    count = len(os.sched_getaffinity(0))
  return min(count, int(os.environ.get("SLURM_CPUS_ON_NODE", count)))


def memory() -> int:
  """Returns the memory in bytes."""
  limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
  for variable, count in (("NODE", 1), ("CPU", cores())):  # in MB
    if megabytes := int(os.environ.get(f"SLURM_MEM_PER_{variable}", 0)):
      limits.append((megabytes << 20) * count)
  # The line of version 2 is "0::/outer/inner"; each group may have a limit.
  lines = _GROUP.read_text().splitlines() if _GROUP.exists() else ()
  for line in lines:
    if line.startswith("0::/"):
      group = pathlib.PurePosixPath(line.removeprefix("0::/"))
      for place in (group, *group.parents):
        path = _CGROUPS / place / "memory.max"
        limit = path.read_text().strip() if path.exists() else ""
        if limit.isdigit():  # not "max"
          limits.append(int(limit))
  return min(limits)
