"""How much memory there is, and what does not fit in it."""

from __future__ import annotations

import os
import pathlib
import resource
from collections.abc import Mapping, Sequence

import jax

_CGROUPS = pathlib.Path("/sys/fs/cgroup")
_UNITS = ("kB", "MB", "GB", "TB", "PB")
_OWN = pathlib.Path("/proc/self/cgroup")

# What is to be made smaller, by what takes the most.
REMEDIES = {
  "weights": 'dtype="bfloat16", a smaller model, or more devices (mesh)',
  "caches": "a smaller batch_size, fewer max_new_tokens, shorter prompts"
  " (padded_to)",
  "laws": "a smaller batch_size or tree",
  "masks": "a smaller batch_size or tree, fewer max_new_tokens",
  "records": "fewer max_new_tokens or traced cycles, a smaller batch_size",
}


def available(devices: Sequence) -> int | None:
  """Returns bytes that one of these devices may use; None where nobody knows.

  Devices that are this machine's processors share its memory. Of devices that
  are other machines' nothing is known; they are taken to be alike.
  """
  devices = [one for one in devices if one.process_index == jax.process_index()]
  stats = devices[0].memory_stats() or {}
  if "bytes_limit" in stats:
    return stats["bytes_limit"]
  if devices[0].platform != "cpu":
    return None
  least = host()
  return None if least is None else least // len(devices)


def host() -> int | None:
  """Returns bytes that this process may use, of the machine or a container."""
  limits = [*_group_limits(), resource.getrlimit(resource.RLIMIT_AS)[0]]
  if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(os.sysconf_names):
    limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
  return min((limit for limit in limits if limit > 0), default=None)


def _group_limits():
  """Yields what control groups of either version allow, the own one first."""
  try:
    lines = _OWN.read_text().splitlines()
  except OSError:
    return
  for line in lines:
    _, kinds, path = line.split(":", 2)
    if kinds not in ("", "memory"):
      continue
    own = pathlib.PurePosixPath(path.lstrip("/"))
    name = "memory.limit_in_bytes" if kinds else "memory.max"
    for group in (own, *own.parents):
      try:
        yield int((_CGROUPS / kinds / group / name).read_text())
      except (OSError, ValueError):  # no such group, or "max"
        continue


def check(parts: Mapping[str, int], devices: Sequence, what: str) -> None:
  """Refuses what does not fit, with the estimate and the remedy.

  Args:
    parts: Bytes on each device at least, by kinds of `REMEDIES`.
    devices: The devices.
    what: What errors call it.

  Raises:
    ValueError: The parts together are more than a device has.
  """
  there, needed = available(devices), sum(parts.values())
  if there is None or needed <= there:
    return
  largest = max(parts, key=lambda name: parts[name])
  listed = ", ".join(
    f"{name} {told(size)}" for name, size in parts.items() if size
  )
  where = "each of these devices has" if len(devices) > 1 else "there are"
  raise ValueError(
    f"{what} needs {told(needed)} of memory at least ({listed}), and {where}"
    f" {told(there)}: choose {REMEDIES[largest]}"
  )


def told(size: int) -> str:
  """Returns bytes in words."""
  place = min(max((len(str(size)) - 1) // 3, 1), len(_UNITS))
  amount = size / 1000**place
  digits = ".0f" if 100 <= amount < 1000 else ".3g"
  return f"{amount:{digits}} {_UNITS[place - 1]}"
