"""The documents' benchmarks start."""

import pytest

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
