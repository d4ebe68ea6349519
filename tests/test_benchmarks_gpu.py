"""The GPU benchmark, at toy shapes on a CPU."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

from benchmarks import gpu, gpu_scale, gpu_shapes, gpu_trace
from tests import quick
from tv_jax import tree

ROOT = pathlib.Path(__file__).parents[1]


PARTS = [
  "bandwidth",
  "forms",
  "certificate",
  "engine",
  "cycles",
  "verification",
  "passes",
  "stages",
  "more cycles",
  "rows",
  "options",
  "another pair",
  "large",
]
NONE = {"options", "another pair"}  # where no GPU is, and there is one pair


@pytest.mark.parametrize(
  ("parts", "dtype"),
  quick.shorter(
    [
      (["bandwidth", "passes"], "bfloat16"),
      (["cycles", "passes"], "int8"),
      (PARTS, ""),
    ]
  ),
)
def test_from_end_to_end(tmp_path, parts, dtype):
  env = os.environ | {
    "JAX_PLATFORMS": "cpu",
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "XLA_FLAGS": quick.flags(),
  }
  run = subprocess.run(
    [
      sys.executable,
      "-m",
      "benchmarks.gpu",
      "--toy",
      f"--parts={','.join(parts)}",
      f"--out={tmp_path}",
      *([f"--dtype={dtype}"] if dtype else []),
    ],
    env=env,
    capture_output=True,
    text=True,
    check=False,
    cwd=ROOT,
  )
  assert run.returncode == 0, run.stderr
  (path,) = tmp_path.glob("*.json")
  # Another dtype's results of the same day stay.
  kept = dtype or gpu_scale.TOY.dtype
  assert path.stem.endswith(dtype)
  found = json.loads(path.read_text())
  assert found["setting"]["dtype"] == kept
  assert not found["skipped"]
  done = {row["part"] for row in found["rows"]}
  assert done == set(parts) - NONE
  table = path.with_suffix(".md").read_text()
  for row in found["rows"]:
    assert f"| {row['case']} |" in table


def test_a_case_that_fails_is_recorded_and_others_go_on(capsys):
  def fail():
    raise ZeroDivisionError("by zero\nand more")

  def part(scale):
    yield "one", fail
    yield "two", lambda: {"ms": 1.5}
    yield "three", lambda: fail

  saved = []
  rows, skipped = gpu.run(
    {"part": part}, gpu_scale.TOY, 60, lambda *found: saved.append(found)
  )
  assert [row.get("error") for row in rows] == [
    "ZeroDivisionError: by zero",
    None,
    "ZeroDivisionError: by zero",
  ]
  assert rows[1]["ms"] == 1.5
  assert not skipped
  assert len(saved) == 4
  assert "by zero" in capsys.readouterr().err


def test_what_the_time_does_not_suffice_for_is_named():
  def part(scale):
    yield "one", dict

  rows, skipped = gpu.run(
    {"part": part}, gpu_scale.TOY, -1, lambda *found: None
  )
  assert not rows
  assert skipped == ["part: one"]
  found = {"setting": {"date": "today"}, "rows": rows, "skipped": skipped}
  assert "- part: one" in gpu.markdown(found)


def test_what_takes_long_to_compile_keeps_nothing_else_waiting():
  timed, compiled = [], threading.Event()

  def slow():
    compiled.wait(60)
    return lambda: timed.append("slow") or {}

  def first(scale):
    yield "slow", slow
    yield "quick", lambda: lambda: timed.append("quick") or {}

  def second(scale):
    yield "next", lambda: lambda: timed.append("next") or compiled.set() or {}

  scale = dataclasses.replace(gpu_scale.TOY, patience=0.2)
  rows, skipped = gpu.run(
    {"first": first, "second": second}, scale, 60, lambda *found: None
  )
  assert timed == ["quick", "next", "slow"]
  assert [row["case"] for row in rows] == timed
  assert [row.get("compiling beside") for row in rows] == [1, 1, None]
  assert not skipped


def test_no_time_is_taken_while_its_part_compiles():
  compiled = []

  def case(name):
    compiled.append(name)
    return lambda: {"compiled": len(compiled)}

  def part(scale):
    yield "one", case, "one"
    yield "two", case, "two"

  rows, _ = gpu.run({"part": part}, gpu_scale.TOY, 60, lambda *found: None)
  assert [row["compiled"] for row in rows] == [2, 2]


def test_kernels_are_counted_by_stage(monkeypatch):
  generation = gpu_trace.Stages(
    gpu_scale.TOY, ("toy draft", "toy"), "branching:2,1"
  )
  found = dict(
    re.findall(
      r'%?([\w.-]+) = .*?op_name="[^"]*while/body/'
      "(draft|target|verify|commit)/",
      generation.program.as_text(),
    )
  )
  launched = [(name, 1000.0) for name in found] + [("no such kernel", 5000.0)]
  monkeypatch.setattr(gpu_trace, "_kernels", lambda folder: launched)
  row = generation()
  for stage in ("draft", "target", "verify", "commit"):
    count = list(found.values()).count(stage)
    assert count
    assert row[f"{stage} kernels"] * row["cycles"] == pytest.approx(count)
    assert row[f"{stage} us"] * row["cycles"] == pytest.approx(count)
  assert row["other us"] * row["cycles"] == pytest.approx(5)


def test_a_machine_without_a_gpu_is_told_so(capsys):
  assert gpu.main([]) == 2
  assert "give --toy" in capsys.readouterr().err


def test_an_unknown_part_is_refused(capsys):
  assert gpu.main(["--toy", "--parts=forms,speed"]) == 2
  assert "speed is not one of bandwidth, forms" in capsys.readouterr().err


def test_missing_packages_are_named(capsys, monkeypatch):
  monkeypatch.setattr(gpu, "NEEDED", ("jax", "no_such_package"))
  assert gpu.main([]) == 2
  assert "missing: no_such_package: install" in capsys.readouterr().err


def test_bytes_of_a_pass():
  # GB a pass as published parameter counts give them, less an embedding that
  # is not the unembedding.
  for name, gigabytes in {
    "Llama-3.1-8B": 2 * (8.030261248 - 128256 * 4096 / 1e9),
    "Llama-3.2-1B": 2 * 1.2358144,
    "Llama-2-7B": 2 * (6.738415616 - 32000 * 4096 / 1e9),
  }.items():
    config = gpu_shapes.config(name, "bfloat16")
    model = gpu_shapes.model(config, gpu_shapes.shapes_on(config))
    assert gpu_shapes.bytes_of_pass(model, slots=0) == round(gigabytes * 1e9)


def test_bytes_of_a_cycle():
  config = gpu_shapes.config("toy", "float32")
  model = gpu_shapes.model(config, gpu_shapes.shapes_on(config))
  chain = tree.chain(5)
  once = gpu_shapes.bytes_of_pass(model, slots=8)
  laws = 4 * 64 * (6 + 5)
  assert gpu_shapes.bytes_of_cycle(model, model, chain, 8) == 6 * once + laws
