"""What the kernels of a cycle take, by stage, as the profiler sees them."""

from __future__ import annotations

import collections
import pathlib
import re
import tempfile
from collections.abc import Iterator

import jax

from benchmarks.gpu_scale import on_gpu
from benchmarks.gpu_times import Generation

CYCLES = 8  # of them, or thereabouts: new tokens asked for
_STAGE = re.compile(r"while/body/(draft|target|verify|commit)\b")


class Stages(Generation):
  """A generation outside of CUDA graphs, where kernels have their names."""

  def __init__(self, scale, pair, tree, rule="traversal"):
    """Compiles it so that the host launches each kernel."""
    none = {"xla_gpu_enable_command_buffer": ""} if on_gpu() else None
    super().__init__(scale, pair, tree, rule, options=none)

  def __call__(self) -> dict:
    """Kernels and their microseconds a cycle, by stage."""
    run = self.runner()
    jax.block_until_ready(run(CYCLES))
    with tempfile.TemporaryDirectory() as folder:
      with jax.profiler.trace(folder):
        records = jax.block_until_ready(run(CYCLES))
      launched = list(_kernels(pathlib.Path(folder)))
    cycles = int(records.cycles.max())
    scopes = dict(
      re.findall(r'%?([\w.-]+) = .*?op_name="([^"]*)"', self.program.as_text())
    )
    count, spent = collections.Counter(), collections.Counter()
    for name, nanoseconds in launched:
      found = _STAGE.search(scopes.get(name, ""))
      # Before the first cycle and after the last, and what has no name.
      stage = found[1] if found else "other"
      count[stage] += 1
      spent[stage] += nanoseconds
    row = {"cycles": cycles}
    for stage in ("draft", "target", "verify", "commit", "other"):
      row |= {
        f"{stage} kernels": count[stage] / cycles,
        f"{stage} us": spent[stage] / 1e3 / cycles,
      }
    return row


def _kernels(folder: pathlib.Path) -> Iterator[tuple[str, float]]:
  """Instructions and nanoseconds of what ran on the device."""
  for path in folder.rglob("*.xplane.pb"):
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
      if not plane.name.startswith("/device:GPU"):
        continue
      for line in plane.lines:
        if line.name.startswith("Stream"):
          for event in line.events:
            stats = dict(event.stats)
            yield str(stats.get("hlo_op", "")), event.duration_ns
