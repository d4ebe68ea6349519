"""Kernels and bytes of a cycle, for a GPU that is not here."""

import pytest

from benchmarks import gpu_kernels, gpu_shapes
from tv_jax import tree


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_bytes_of_the_stages_are_those_of_the_cycle(dtype):
  pair, shape = ("Llama-3.2-1B", "Llama-3.1-8B"), tree.parse("eagle")
  found = gpu_kernels.bytes_by_stage(pair, dtype, shape)
  draft, target = (gpu_kernels._shapes(name, dtype) for name in pair)
  moved = gpu_shapes.bytes_of_cycle(target, draft, shape, gpu_kernels._SLOTS)
  laws = 4 * 128256 * (len(shape) + len(shape.inner))
  # There laws are counted once; here, where they are written as well.
  stages = found["draft"] + found["target"] + found["verify"]
  assert stages == moved + laws
  # Six rows of 8 heads: of 32 layers of 128 channels, and of 16 of 64.
  assert found["commit"] == 2 * 6 * 2 * 2 * 8 * (32 * 128 + 16 * 64)


@pytest.mark.gpu_program
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_the_table(dtype, capsys):
  asked = ["--draft=toy draft", "--target=toy", "--trees=branching:2,1"]
  told = "--chip=a6000", f"--dtype={dtype}"
  assert gpu_kernels.main([*asked, *told]) == 0
  lines = capsys.readouterr().out.splitlines()
  cells = {
    row[0]: row[1:]
    for row in ([c.strip() for c in line.split("|")[1:-1]] for line in lines)
    if row
  }
  kernels = [int(cells[stage][0]) for stage in gpu_kernels.STAGES]
  assert min(kernels) > 0
  assert int(cells["cycle"][0]) == sum(kernels)
  least = [float(cells[stage][-1]) for stage in gpu_kernels.STAGES]
  assert float(cells["cycle"][-1]) == pytest.approx(sum(least), abs=4e-3)
  for stage, count in zip(gpu_kernels.STAGES, kernels, strict=True):
    assert float(cells[stage][-1]) >= 1e3 * count * gpu_kernels.KERNEL - 1e-3


@pytest.mark.gpu_program
def test_a_tree_that_is_none_is_refused(capsys):
  assert gpu_kernels.main(["--trees=shrub"]) == 2
  assert "shrub" in capsys.readouterr().err


def test_without_the_plugin_it_says_what_it_needs(capsys, monkeypatch):
  monkeypatch.setattr(gpu_kernels.gpu_program, "available", lambda: False)
  assert gpu_kernels.main([]) == 2
  assert "jax-cuda13-plugin" in capsys.readouterr().err
