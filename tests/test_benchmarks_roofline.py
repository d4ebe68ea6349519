"""What this machine could do, and what it does."""

import re

from benchmarks import gpu_shapes, roofline
from tests import commands


def test_it_runs(tmp_path):
  path = tmp_path / "table.md"
  done = commands.run(
    "--trees=chain:2",
    "--tokens=8",
    "--rounds=1",
    f"--markdown={path}",
    program="benchmarks.roofline",
  )
  assert done.returncode == 0, done.stderr
  text = path.read_text()
  for name in ("target", "draft"):
    assert f"### Passes of the {name}" in text
  # A pass over one token is one pass over one token.
  assert len(re.findall(r"\| 1 x 1 +\| \d+ +\| 1\.00 +\| 1\.00 +\|", text)) == 2
  assert "in one program" in text
  assert re.search(r"Memory [\d.]+ GB/s, products \d+ GFLOP/s", done.stdout)


def test_a_tree_that_is_none_is_refused():
  done = commands.run("--trees=shrub", program="benchmarks.roofline")
  assert done.returncode == 1
  assert "shrub" in done.stderr


def test_operations_are_two_a_weight_and_token():
  config = gpu_shapes.config("bundled", "float32")
  model = gpu_shapes.model(config, gpu_shapes.shapes_on(config))
  layer = 256 * 4 * 3 * 64 + 256 * 256 + 3 * 256 * 640
  weights = 4096 * 256 + 5 * layer
  assert roofline.operations(model, 2, 3) == 2 * weights * 6
