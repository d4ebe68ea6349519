"""Checks and times tv_jax on this machine's GPU, at the paper's real shapes.

    python -m benchmarks.gpu --out=results

from the root of a source tree, on a machine with a CUDA GPU of 48 GB or more
and jax[cuda13] or jax[cuda12]: no checkpoints, no data, nothing else to
install. It leaves a JSON file and a Markdown table in the directory. To compile
takes most of its time: with 16 cores and an H100 the 440 seconds after which no
case is begun by default were enough for the checks, cycles of the first pair,
verification and passes; --seconds=1200 is for all of it. On a laptop, for a
look at it:

    JAX_PLATFORMS=cpu python -m benchmarks.gpu --toy --out=results

First it checks: that the forms of each rule take the same decisions, that
rules are lossless by enumeration, that whole generations are the same when
repeated and with CUDA graphs on and off, that temperature 0 is plain greedy
decoding, that samples follow the target's law. Then it times plain decoding,
whole cycles, verification in every form and single passes, each beside the
least time in which the chip's memory could move what must be moved.

Weights are random, and what is accepted of a draft means nothing: times are
per cycle, and "tokens/s at the paper's length" is what a cycle of that time
would give if it gained as many tokens as the paper reports (tables 1 and 2,
the mean over tasks at temperature 1). It is not a measured speed.

A case that fails is recorded, the others go on, and the exit status is 1.
After --seconds no further case is begun; what was left out is named.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib
import importlib.util
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import traceback
from concurrent import futures

NEEDED = ("jax", "numpy", "flax", "safetensors", "rich")


def missing() -> list[str]:
  """The packages that are not here."""
  return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def parse(arguments: list[str] | None) -> argparse.Namespace:
  """The command line."""
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.gpu",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    "--out",
    type=pathlib.Path,
    default=os.environ.get("OUT") or "docs/measurements",
    help="directory for the results (default: $OUT, or docs/measurements)",
  )
  parser.add_argument(
    "--seconds",
    "--budget",
    type=float,
    default=440,
    help="seconds after which no case is begun (default: 440)",
  )
  parser.add_argument(
    "--parts", help="some of the parts, with commas or spaces (default: all)"
  )
  parser.add_argument(
    "--dtype",
    choices=["bfloat16", "int8"],
    help="of the weights that are timed (default: bfloat16; a toy's float32)",
  )
  parser.add_argument(
    "--toy", action="store_true", help="tiny shapes, for a machine without GPU"
  )
  parser.add_argument(
    "--install", action="store_true", help="pip install what is missing"
  )
  return parser.parse_args(arguments)


def setting() -> dict:
  """The machine and the versions."""
  import jax
  import numpy

  from benchmarks import gpu_scale

  device = jax.devices()[0]
  chip = gpu_scale.bandwidth_of_chip()
  return {
    "date": datetime.date.today().isoformat(),
    "device": device.device_kind,
    "backend": jax.default_backend(),
    "memory bandwidth by data sheet, TB/s": chip and chip / 1e12,
    "python": platform.python_version(),
    "jax": jax.__version__,
    "numpy": numpy.__version__,
    "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
  }


def run(parts: dict, scale, budget: float, save) -> tuple[list, list]:
  """Runs cases until they or the time are at an end.

  The cases of a part are prepared side by side, which is to compile; then what
  is left of each is done, which is to time. What takes too long to prepare has
  its turn after all parts; a row says how many were prepared beside it.

  Args:
    parts: By name, functions of `scale` that give cases.
    scale: How large everything is.
    budget: Seconds.
    save: Called with rows and skipped cases after each case, so that a crash
      leaves what was had before it.

  Returns:
    The rows, each with its part and case, and what was skipped.
  """
  rows, skipped, late, begin = [], [], [], time.perf_counter()

  def left():
    return budget - (time.perf_counter() - begin)

  def prepare(case, *arguments):
    return case(*arguments) if left() >= 0 else None

  def finish(part, name, prepared):
    row, started = {"part": part, "case": name}, left()
    try:
      found = prepared.result(timeout=max(0, started))
      if found is None:
        raise TimeoutError
      row |= found() if callable(found) else found
      if still := sum(not other.done() for *_, other in late):
        row["compiling beside"] = still
    except TimeoutError:
      skipped.append(f"{part}: {name}")
      return
    except Exception as error:  # whatever it is: the others are to go on
      traceback.print_exception(error)
      row["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    row["seconds"] = started - left()
    at = f"[{budget - left():5.0f} s]"
    print(f"{at} {part}: {name}", file=sys.stderr, flush=True)
    rows.append(row)
    save(rows, skipped)

  pool = futures.ThreadPoolExecutor(scale.workers)
  for part, cases in parts.items():
    waiting = [
      (part, name, pool.submit(prepare, *case)) for name, *case in cases(scale)
    ]
    patience = max(0, min(scale.patience, left()))
    futures.wait([prepared for *_, prepared in waiting], patience)
    late += [case for case in waiting if not case[2].done()]
    for case in waiting:
      if case not in late:
        finish(*case)
  for case in late:
    finish(*case)
  pool.shutdown(wait=False, cancel_futures=True)
  save(rows, skipped)
  return rows, skipped


def markdown(found: dict) -> str:
  """The results as tables, one a part."""
  lines = [f"# `python -m benchmarks.gpu`, {found['setting']['date']}", ""]
  lines += [f"- {key}: {value}" for key, value in found["setting"].items()]
  lines += [
    "",
    "Random weights: times are per cycle, and tokens at the paper's length are",
    "what a cycle of that time would give with the paper's acceptance. The",
    "limit is the time in which memory could move the GB that must be moved.",
  ]
  for part in dict.fromkeys(row["part"] for row in found["rows"]):
    rows = [row for row in found["rows"] if row["part"] == part]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [key for key in columns if key not in ("part", "seconds")]
    columns.sort(key="error".__eq__)  # last, if there are any
    lines += [
      "",
      f"## {part}",
      "",
      _line(columns),
      _line(["---"] * len(columns)),
    ]
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


def main(arguments: list[str] | None = None) -> int:
  """The command; returns its exit status."""
  flags = parse(arguments)
  if missing() and flags.install:
    subprocess.run(
      [sys.executable, "-m", "pip", "install", *missing()], check=False
    )
    importlib.invalidate_caches()
  if missing():
    print(
      f"missing: {', '.join(missing())}: install them, or give --install",
      file=sys.stderr,
    )
    return 2
  # Only now: they need what was missing.
  from benchmarks import gpu_parts, gpu_scale
  from tv_jax.edge import disk, names

  parts = gpu_parts.PARTS
  if flags.parts:
    wanted = names.split(flags.parts)
    unknown = {*wanted} - {*parts}
    if unknown:
      print(
        f"--parts={flags.parts}: {', '.join(sorted(unknown))} is not one of"
        f" {', '.join(parts)}",
        file=sys.stderr,
      )
      return 2
    parts = {name: parts[name] for name in wanted}
  if not gpu_scale.on_gpu() and not flags.toy:
    print("jax sees no GPU here: give --toy to try it out", file=sys.stderr)
    return 2
  scale = gpu_scale.TOY if flags.toy else gpu_scale.Scale()
  usual = scale.dtype
  if flags.dtype:
    scale = dataclasses.replace(scale, dtype=flags.dtype)
  own = {"toy": flags.toy, "dtype": scale.dtype}
  found = {"setting": setting() | own}
  flags.out.mkdir(parents=True, exist_ok=True)
  device = re.sub(r"\W+", "-", found["setting"]["device"]).lower()
  if scale.dtype != usual:
    device += f"-{scale.dtype}"
  path = flags.out / f"{found['setting']['date']}-gpu-{device}"

  def save(rows, skipped):
    found.update(rows=rows, skipped=skipped)
    text = json.dumps(found, indent=1) + "\n"
    disk.write_atomic(path.with_suffix(".json"), text)
    disk.write_atomic(path.with_suffix(".md"), markdown(found))

  rows, skipped = run(parts, scale, flags.seconds, save)
  failed = [f"{row['part']}: {row['case']}" for row in rows if "error" in row]
  for name in failed:
    print(f"FAILED {name}", file=sys.stderr)
  for name in skipped:
    print(f"not run, the time was out: {name}", file=sys.stderr)
  print(f"{len(rows)} cases, {len(failed)} failed: {path}.md", file=sys.stderr)
  return int(bool(failed))


if __name__ == "__main__":
  status = main()
  for stream in (sys.stdout, sys.stderr):
    stream.flush()
  os._exit(status)  # what is still compiled is not waited for
