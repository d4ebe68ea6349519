"""Measures the time and memory that loading a target and its draft takes.

  python -m benchmarks.loading TARGET [DRAFT] --code=../before --code=.

Each round loads the models once with each copy of the code, every time in a new
process. Read the files once before, so that they are in the system's cache.
Processor seconds are sums over threads, in the program and in the system. The
peak is the memory (`VmHWM`) that loading adds to the process. It is shown
beside the size of the weights.
"""

import argparse
import json
import statistics
import subprocess
import sys

from benchmarks import common

# Runs in a separate process, in the folder of one copy of the code.
_LOAD = """
import json, os, sys, time
sys.path.insert(0, ".")
import jax
from tv_jax import models
target, draft, dtype = sys.argv[1:]

def taken():
  lines = [x.split() for x in open("/proc/self/status")]
  return {x[0]: 1024 * int(x[1]) for x in lines if x[0] in ("VmHWM:", "VmRSS:")}

before, start, ran = taken()["VmRSS:"], time.perf_counter(), os.times()
loaded = [models.load(x, dtype) for x in (target, draft) if x]
params = jax.block_until_ready([x.params for x in loaded])
seconds, now = time.perf_counter() - start, os.times()
weights = sum(x.nbytes for x in jax.tree.leaves(params))
peak = taken()["VmHWM:"] - before
print(json.dumps({
  "seconds": seconds,
  "user": now.user - ran.user,
  "system": now.system - ran.system,
  "weights": weights,
  "peak": peak,
}))
"""


def load(code: str, *arguments: str) -> dict:
  """Loads the models with a copy of the code; returns seconds and bytes."""
  command = [sys.executable, "-c", _LOAD, *arguments]
  ended = subprocess.run(command, cwd=code, check=True, stdout=subprocess.PIPE)
  return json.loads(ended.stdout)


def main() -> None:
  """Runs the command."""
  parser = argparse.ArgumentParser(prog="python -m benchmarks.loading")
  parser.add_argument("target", help="absolute path of a checkpoint")
  parser.add_argument("draft", nargs="?", default="", help="likewise")
  parser.add_argument("--dtype", default="float32")
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--code", action="append", help="folders, default: .")
  options = parser.parse_args()
  common.setting("loading")
  rest = options.target, options.draft, options.dtype
  methods = {
    code: lambda _, code=code: load(code, *rest) for code in options.code or "."
  }
  rows = []
  for code, runs in common.race(methods, options.rounds, seed=0).items():
    seconds, user, system = (
      [x[name] for x in runs] for name in ("seconds", "user", "system")
    )
    rows.append(
      [
        code,
        f"{statistics.median(seconds):.1f}",
        f"{min(seconds):.1f} to {max(seconds):.1f}",
        f"{statistics.median(user):.1f}",
        f"{statistics.median(system):.1f}",
        f"{runs[0]['weights'] / 2**30:.2f}",
        f"{max(x['peak'] for x in runs) / 2**30:.2f}",
      ]
    )
  header = ["code", "seconds", "range", "in program", "in system"]
  header += ["weights, GiB", "peak, GiB"]
  common.show(f"Loading in {options.dtype}", header, rows)


if __name__ == "__main__":
  main()
