"""Checks and times tv_jax on this machine's GPU, at the paper's real shapes.

    python -m benchmarks.gpu --out=results

on a machine with a CUDA GPU of 48 GB or more: no checkpoints, no data. It
writes a JSON file and Markdown tables into the folder. Most of the time it
compiles: with 16 cores and an H100 the default of 440 seconds is about enough,
--seconds=1200 for all of it. On a laptop, for a look at it:

    JAX_PLATFORMS=cpu python -m benchmarks.gpu --toy --out=results

First it checks that both forms of each rule take the same decisions, that whole
generations are the same when repeated and with CUDA graphs on and off, and that
temperature 0 is plain greedy decoding. (`python -m tv_jax.audit` tests the law
of samples, on a GPU too.) Then it times whole cycles, verification and single
passes, each beside the least time in which the chip's memory could move what
must be moved.

Weights are random, so that acceptance means nothing: times are per cycle, and
"tokens/s at the paper's length" is what a cycle of that time would give at the
acceptance length that the paper reports (table 1, the mean over tasks at
temperature 1). It is not a measured speed.

A case that fails is recorded, the others go on, and the exit status is 1.
After --seconds no further case is begun; what was left out is named.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import sys
import time
import traceback
from concurrent import futures
from typing import Any

import jax

from benchmarks import common, gpu_parts, gpu_times
from tv_jax.edge import disk, names

WORKERS = 8  # programs that are compiled at a time


def setting() -> dict:
  """Describes the machine and the versions."""
  chip = gpu_times.bandwidth_of_chip()
  return {
    "date": datetime.date.today().isoformat(),
    "device": jax.devices()[0].device_kind,
    "backend": jax.default_backend(),
    "memory bandwidth by data sheet, TB/s": chip and chip / 1e12,
    "python": platform.python_version(),
    "jax": jax.__version__,
    "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
  }


def run_cases(parts: dict, scale, budget: float, save) -> tuple[list, list]:
  """Runs cases until all are done or the time is up.

  The cases of a part compile side by side; then they are timed one by one.

  Args:
    parts: Functions of `scale` that give cases, by name.
    scale: How large everything is.
    budget: Seconds.
    save: Called with rows and skipped cases after each case, so that a crash
      loses nothing that came before it.

  Returns:
    The rows, each with its part and case, and what was skipped.
  """
  rows, skipped, begin = [], [], time.perf_counter()

  def left():
    return budget - (time.perf_counter() - begin)

  def prepare(case, *arguments):
    return case(*arguments) if left() >= 0 else None

  pool = futures.ThreadPoolExecutor(WORKERS)
  for part, cases in parts.items():
    waiting = [
      (name, pool.submit(prepare, *case)) for name, *case in cases(scale)
    ]
    futures.wait([prepared for _, prepared in waiting], max(0, left()))
    for name, prepared in waiting:
      row = {"part": part, "case": name}
      try:
        found = prepared.result(timeout=0)
        if found is None or left() < 0:
          raise TimeoutError
        own: Any = found() if callable(found) else found
        row |= own
      except TimeoutError:
        skipped.append(f"{part}: {name}")
        continue
      except Exception as error:  # whatever it is, the other cases go on
        traceback.print_exception(error)
        row["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
      common.say(f"[{budget - left():5.0f} s] {part}: {name}")
      rows.append(row)
      save(rows, skipped)
  pool.shutdown(wait=False, cancel_futures=True)
  save(rows, skipped)
  return rows, skipped


def markdown(found: dict) -> str:
  """Writes the results as tables, one for each part."""
  lines = [f"# `python -m benchmarks.gpu`, {found['setting']['date']}", ""]
  lines += [f"- {key}: {value}" for key, value in found["setting"].items()]
  for part in dict.fromkeys(row["part"] for row in found["rows"]):
    rows = [row for row in found["rows"] if row["part"] == part]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns.remove("part")
    lines += ["", f"## {part}", "", _line(columns)]
    lines += [_line(["---"] * len(columns))]
    lines += [_line(_cell(row.get(key)) for key in columns) for row in rows]
  if found["skipped"]:
    lines += ["", "## not run: the time was out", ""]
    lines += [f"- {name}" for name in found["skipped"]]
  return "\n".join(lines) + "\n"


def _line(cells) -> str:
  return "| " + " | ".join(cells) + " |"


def _cell(value) -> str:
  if value is None:
    return ""
  return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(arguments: list[str]) -> int:
  """Runs the command; returns its exit status."""
  parser = common.Parser("gpu", __doc__)
  out = os.environ.get("OUT") or "docs/measurements"
  parser.add_argument("--out", type=pathlib.Path, default=out, help="a folder")
  parser.add_argument("--seconds", type=float, default=440)
  parser.add_argument("--parts", help="some of the parts (default: all)")
  parser.add_argument("--dtype", choices=["bfloat16", "int8"])
  parser.add_argument("--toy", action="store_true", help="without a GPU")
  given = parser.parse_args(arguments)
  parts = {
    name: names.find(gpu_parts.PARTS, name, "--parts")
    for name in names.split(given.parts or ",".join(gpu_parts.PARTS))
  }
  if not gpu_times.on_gpu() and not given.toy:
    raise ValueError("jax sees no GPU here: give --toy to try it out")
  scale = usual = gpu_times.TOY if given.toy else gpu_times.Scale()
  if given.dtype:
    scale = dataclasses.replace(usual, dtype=given.dtype)
  found = {"setting": setting() | {"toy": given.toy, "dtype": scale.dtype}}
  given.out.mkdir(parents=True, exist_ok=True)
  device = re.sub(r"\W+", "-", found["setting"]["device"]).lower()
  # Another dtype's results of the same day stay.
  device += f"-{scale.dtype}" * (scale != usual)
  path = given.out / f"{found['setting']['date']}-gpu-{device}"

  def save(rows, skipped):
    found.update(rows=rows, skipped=skipped)
    text = json.dumps(found, indent=1) + "\n"
    disk.write_atomic(path.with_suffix(".json"), text)
    disk.write_atomic(path.with_suffix(".md"), markdown(found))

  rows, skipped = run_cases(parts, scale, given.seconds, save)
  failed = [f"{row['part']}: {row['case']}" for row in rows if "error" in row]
  lines = [f"FAILED {name}" for name in failed]
  lines += [f"not run, the time was out: {name}" for name in skipped]
  lines.append(f"{len(rows)} cases, {len(failed)} failed: {path}.md")
  print("\n".join(lines), file=sys.stderr)
  return int(bool(failed))


if __name__ == "__main__":
  common.run("gpu", main)
