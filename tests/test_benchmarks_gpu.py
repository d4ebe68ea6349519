"""The GPU benchmark, at toy shapes on a CPU."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from benchmarks import gpu, gpu_shapes
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
  "more cycles",
]


@pytest.mark.parametrize(
  "parts", quick.shorter([["bandwidth", "passes"], PARTS]), ids=len
)
def test_from_end_to_end(tmp_path, parts):
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
    ],
    env=env,
    capture_output=True,
    text=True,
    check=False,
    cwd=ROOT,
  )
  assert run.returncode == 0, run.stderr
  (path,) = tmp_path.glob("*.json")
  found = json.loads(path.read_text())
  assert not found["skipped"]
  done = [row["part"] for row in found["rows"]]
  assert list(dict.fromkeys(done)) == parts
  table = path.with_suffix(".md").read_text()
  for row in found["rows"]:
    assert f"| {row['case']} |" in table


def test_a_case_that_fails_is_recorded_and_others_go_on(capsys):
  def fail():
    raise ZeroDivisionError("by zero\nand more")

  def part(scale):
    yield "one", fail
    yield "two", lambda: {"ms": 1.5}

  saved = []
  rows, skipped = gpu.run(
    {"part": part}, None, 60, lambda *found: saved.append(found)
  )
  assert [row.get("error") for row in rows] == [
    "ZeroDivisionError: by zero",
    None,
  ]
  assert rows[1]["ms"] == 1.5
  assert not skipped
  assert len(saved) == 3
  assert "by zero" in capsys.readouterr().err


def test_what_the_time_does_not_suffice_for_is_named():
  def part(scale):
    yield "one", dict

  rows, skipped = gpu.run({"part": part}, None, -1, lambda *found: None)
  assert not rows
  assert skipped == ["part: one"]
  found = {"setting": {"date": "today"}, "rows": rows, "skipped": skipped}
  assert "- part: one" in gpu.markdown(found)


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
