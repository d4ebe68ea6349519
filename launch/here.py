"""Units one after the other, on this machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from launch.units import Unit


def run(units: Sequence[Unit]) -> list[Unit]:
  """Runs units, and returns those that failed."""
  failed = []
  for i, unit in enumerate(units, 1):
    print(f"{i}/{len(units)} {unit.name}", flush=True)
    begin = time.monotonic()
    unit.folder.mkdir(parents=True, exist_ok=True)
    with unit.log.open("ab") as log:
      status = subprocess.run(unit.command, stdout=log, stderr=log).returncode
    print(f"{unit.progress}, {time.monotonic() - begin:.0f} s", flush=True)
    if status:
      failed.append(unit)
  return failed
