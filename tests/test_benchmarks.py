"""Each benchmark runs in little, and refuses what is wrong in one line."""

import re

import numpy as np
import pytest

from benchmarks import decisions, gpu_kernels, gpu_shapes
from benchmarks.numpy_walks import Walk
from tests import commands
from tv_jax import tree as tree_lib

BUNDLED = "--draft=bundled/draft_weak", "--target=bundled/target"
TOY = "--draft=toy draft", "--target=toy", "--trees=chain:1"
FEW = "--tokens=6", "--rounds=2"

# What is given, and what must be printed.
RUNS = {
  "verify": (["--vocab=64", "--trees=chain:2", "--decisions=3"], "3 of 3"),
  "minibench": (
    ["--per_task=1", "--drafts=draft_weak", "--trees=chain:1", "--tokens=8"],
    "| draft_weak | chain:1 | ",
  ),
  "rows": (["--rounds=1", "--per_task=1", "--trees=chain:1"], "| chain:1 | "),
  "roofline": (["--trees=chain:2", *FEW], "### Passes of the target"),
  "tracing": ([*TOY, "--rounds=1"], "| chain:1 | "),
  "gpu": (["--toy", "--parts=forms,cycles,stages"], ", 0 failed: "),
  "gpu_transformers": (["--toy"], "plain, 16 rows: "),
  "peers": (
    [*BUNDLED, *FEW, "--trees=chain:1", "--temperatures=0", "--rows=2"],
    "tv_jax, plain, 2 rows over tv_jax, plain ",
  ),
}
NEEDS = {
  "gpu_transformers": pytest.mark.parity,
  "peers": pytest.mark.parity,
}
LONG = {"gpu", "minibench", "roofline", "rows"}


def marked(name):
  marks = [NEEDS[name]] if name in NEEDS else []
  return pytest.param(name, marks=marks + [pytest.mark.long] * (name in LONG))


@pytest.mark.parametrize("name", [*map(marked, RUNS)])
def test_a_benchmark_runs(name, tmp_path):
  told, printed = RUNS[name]
  out = [f"--out={tmp_path}"] if name == "gpu" else []
  done = commands.run(*told, *out, program=f"benchmarks.{name}")
  assert done.returncode == 0, done.stderr
  assert printed in done.stdout + done.stderr


@pytest.mark.gpu_program
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_kernels_of_a_cycle(dtype, capsys):
  gpu_kernels.main([*TOY, "--chip=a6000", f"--dtype={dtype}"])
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
    ("rows", "--rounds=0", "argument --rounds: 0: give 1 or more"),
    ("roofline", "--draft=x", "give both --draft and --target, or neither"),
    ("tracing", "--trees=shrub", "--trees: tree 'shrub': write"),
    ("gpu", "--toy", "--parts 'no': not one of forms, engine"),
    ("gpu_kernels", "--chip=h1", "argument --chip: invalid choice: 'h1'"),
    ("gpu_transformers", "--toys", "unrecognized arguments: --toys"),
    ("peers", "--rows=1", "argument --rows: 1: give 2 or more"),
  ],
)
def test_what_is_wrong_is_one_line(name, told, answer):
  more = ["--parts=no"] if name == "gpu" else []
  done = commands.run(told, *more, program=f"benchmarks.{name}")
  assert done.returncode == 2
  (line,) = done.stderr.splitlines()
  assert line.startswith(f"benchmarks.{name}: {answer}")


def test_numpys_draws_follow_the_law():
  law = np.random.default_rng(0).random(700).astype(np.float32) ** 8
  law[::3] = 0
  walk = Walk(tree_lib.chain(1), len(law))
  points = (np.arange(20000) + 0.5) / 20000
  counts = np.bincount([walk.draw(law, x) for x in points], minlength=700)
  assert not counts[law == 0].any()
  np.testing.assert_allclose(counts / 20000, law / law.sum(), atol=2e-4)


def test_siblings_are_drawn_without_replacement():
  rng = np.random.default_rng(0)
  law = np.cumsum([0.5, 0.0, 0.3, 0.2])
  drawn = [decisions._draw_siblings(rng, law, 2) for _ in range(20000)]
  share = np.mean([own == [0, 2] for own in drawn])
  assert abs(share - 0.5 * 0.3 / 0.5) < 0.02
  assert sorted(decisions._draw_siblings(rng, law, 3)) == [0, 2, 3]


def test_bytes_of_a_pass_and_of_a_cycle():
  # As published parameter counts give them, less an embedding that is not the
  # unembedding.
  config = gpu_shapes.config("Llama-3.1-8B", "bfloat16")
  model = gpu_shapes.model(config, gpu_shapes.shapes_on(config))
  found = gpu_shapes.bytes_of_pass(model, slots=0)
  assert found == 2 * (8_030_261_248 - 128256 * 4096)
  pair = "Llama-3.2-1B", "Llama-3.1-8B"
  stages = gpu_kernels.bytes_by_stage(pair, "bfloat16", tree_lib.EAGLE_SPARSE)
  # Six rows of 8 heads: of 32 layers of 128 channels, and of 16 of 64.
  assert stages["commit"] == 2 * 6 * 2 * 2 * 8 * (32 * 128 + 16 * 64)
