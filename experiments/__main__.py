"""Several experiments, one after the other: `python -m experiments [NAME ..]`.

Each is a process of its own, `python -m experiments.NAME`, and is given the
flags; without a name, all are run. One that fails does not keep the others from
running, and the exit status says so.
"""

from __future__ import annotations

import sys

from experiments import names
from tv_jax import cli


def main(arguments: list[str]) -> int:
  """Runs them; the status of the first that failed."""
  if arguments[:1] in (["--help"], ["-h"]):
    print(f"{__doc__}\n{', '.join(names.NAMES)}")
    return 0
  wanted = [one for one in arguments if not one.startswith("-")]
  given = [one for one in arguments if one.startswith("-")]
  try:
    for name in wanted:
      names.check(name)
  except ValueError as error:
    return cli.complain("experiments", error)
  failed = 0
  for name in wanted or names.NAMES:
    command = [sys.executable, "-m", f"experiments.{name}", *given]
    print(f"python -m experiments.{' '.join([name, *given])}", flush=True)
    status = cli.run_child(command)
    if status:
      print(f"experiments.{name} failed: {status}", file=sys.stderr)
    failed = failed or status
  return failed


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv[1:]))
