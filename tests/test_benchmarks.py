"""The documents' benchmarks start, and refuse what is wrong in one line."""

import re

import pytest

from benchmarks import gpu_kernels
from tests import commands

BUNDLED = "--draft=bundled/draft_weak", "--target=bundled/target"

# What is given, and what must be printed.
RUNS = [
  (
    "verify",
    ["--vocab=64", "--trees=chain:2 eagle", "--decisions=3"],
    "3 of 3",
  ),
  pytest.param(
    "minibench",
    ["--per_task=1", "--drafts=draft_weak", "--trees=chain:1", "--tokens=8"],
    "| draft_weak | chain:1 | ",
    marks=pytest.mark.long,
  ),
  pytest.param(
    "roofline", ["--rounds=1"], "### Passes of the", marks=pytest.mark.long
  ),
  pytest.param(
    "gpu",
    ["--toy", "--parts=forms,engine,cycles,stages"],
    ", 0 failed: ",
    marks=pytest.mark.long,
  ),
  pytest.param(
    "gpu_transformers",
    ["--toy"],
    "plain, 16 rows: ",
    marks=pytest.mark.parity,
  ),
  pytest.param(
    "peers",
    [*BUNDLED, "--tokens=6", "--rounds=2", "--trees=chain:1", "--rows=2"],
    "tv_jax, plain, 2 rows over tv_jax, plain ",
    marks=pytest.mark.parity,
  ),
]


@pytest.mark.parametrize(("name", "told", "printed"), RUNS)
def test_a_benchmark_runs(name, told, printed, tmp_path):
  out = [f"--out={tmp_path}"] if name == "gpu" else []
  done = commands.run(*told, *out, program=f"benchmarks.{name}")
  assert done.returncode == 0, done.stderr
  assert printed in done.stdout + done.stderr


@pytest.mark.gpu_program
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_kernels_of_a_cycle(dtype, capsys):
  toy = "--draft=toy draft", "--target=toy", "--trees=chain:1"
  gpu_kernels.main([*toy, "--chip=a6000", f"--dtype={dtype}"])
  printed = capsys.readouterr().out
  found = re.findall(r"^\| (\w+) +\| (\d+) +\|", printed, re.M)
  counts = {stage: int(count) for stage, count in found}
  assert min(counts.values()) > 0
  assert counts.pop("cycle") == sum(counts.values())


@pytest.mark.parametrize(
  ("name", "told", "answer"),
  [
    ("verify", "--vocab=64 many", "--vocab=64 many: give whole numbers of"),
    ("minibench", "--trees=shrub", "--trees: tree 'shrub': write"),
    ("roofline", "--draft=x", "give both --draft and --target, or neither"),
    ("gpu_kernels", "--chip=h1", "argument --chip: invalid choice: 'h1'"),
  ],
)
def test_what_is_wrong_is_one_line(name, told, answer):
  done = commands.run(told, program=f"benchmarks.{name}")
  assert done.returncode == 2
  (line,) = done.stderr.splitlines()
  assert line.startswith(f"benchmarks.{name}: {answer}")
