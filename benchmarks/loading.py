"""How much memory does loading a pair take, beside what is said beforehand?

    python -m benchmarks.loading --shape=Qwen3-4B --dir=runs/qwen3_4b

Writes random checkpoints of that shape to the folder, unless they are there:
11 GB in bfloat16, with the copies of the target's weights that published drafts
hold. Each dtype is then loaded in a process of its own. Linux tells what that
process holds more than before: once it has loaded, and at the peak. Pages of
files are counted too. On a CPU: a GPU's memory is not the process's.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import pathlib

import jax
import numpy as np

import tv_jax
from benchmarks import common, gpu_shapes
from tv_jax import models
from tv_jax.edge import names
from tv_jax.engine import sizes
from tv_jax.models import dspark, families, layout, storage

HEADER = ["dtype", "said", "when loaded", "at the peak", "peak over said"]
GIB = 2**30


def make(folder: pathlib.Path, shape: str) -> None:
  """Writes a target, and a draft of one pass as published ones are."""
  config = gpu_shapes.config(shape, "bfloat16")
  target = gpu_shapes.random_model(config, 0)
  last = config.num_hidden_layers - 2  # that a draft may read
  reads = np.unique(np.linspace(0, last, 5).astype(int)).tolist()
  draft = gpu_shapes.block_draft(
    target, gpu_shapes.random_of(config, 1), reads=tuple(reads)
  )
  own, theirs = draft.config, target.params["params"]
  copies = {
    "embed_tokens.weight": theirs["embedding"],
    "lm_head.weight": theirs.get("unembedding", theirs["embedding"]),
  }
  storage.write(
    folder / "draft",
    draft.params["params"],
    dspark.leaves(own),
    families.to_dict(own) | dspark.to_dict(own),
    {name: np.asarray(copy) for name, copy in copies.items()},
  )
  models.save(folder / "target", target)


def said(folder: pathlib.Path, dtype: str) -> int:
  """Returns the bytes of weights that a run is refused for beforehand."""
  target = models.read_config(folder / "target", dtype)
  draft = models.read_dspark_config(folder / "draft", target)
  own = layout.size(families.leaves(target), target)
  return own + sizes.parameters(draft, "dspark", cpu=False)


def taken(folder: pathlib.Path, dtype: str) -> tuple[int, int]:
  """Loads the pair here; returns bytes more than before, then and at most."""
  jax.block_until_ready(jax.numpy.zeros(()) + 1)  # XLA's own are there
  before = _resident("VmRSS")
  pair = tv_jax.load(
    folder / "draft", folder / "target", draft_kind="dspark", dtype=dtype
  )
  assert pair.draft
  jax.block_until_ready((pair.target.params, pair.draft.params))
  return _resident("VmRSS") - before, _resident("VmHWM") - before


def _resident(which: str) -> int:
  status = pathlib.Path("/proc/self/status").read_text()
  (line,) = (x for x in status.splitlines() if x.startswith(f"{which}:"))
  return int(line.split()[1]) * 1024


def main(arguments: list[str]) -> None:
  """Prints the table."""
  parser = common.Parser("loading", __doc__)
  parser.add_argument("--dir", required=True, type=pathlib.Path)
  parser.add_argument("--shape", choices=gpu_shapes.MODELS, default="bundled")
  parser.add_argument("--dtypes", default="bfloat16,float32,int8")
  parser.add_argument("--out", "--markdown", help="an .md for the table")
  given = parser.parse_args(arguments)
  common.check_out(given.out)
  if jax.default_backend() != "cpu":
    raise ValueError("give JAX_PLATFORMS=cpu: a GPU's memory is not looked at")

  def apart(function, *args):
    new = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, new) as pool:
      return pool.submit(function, given.dir, *args).result()

  if not (given.dir / "target" / "config.json").exists():
    apart(make, given.shape)
  wanted = gpu_shapes.config(given.shape, "bfloat16")
  if models.read_config(given.dir / "target") != wanted:
    raise ValueError(f"{given.dir} holds another shape: give another --dir")
  parts, rows = common.setting("loading", arguments), []
  for dtype in names.split(given.dtypes):
    promised, (now, peak) = said(given.dir, dtype), apart(taken, dtype)
    assert 0 < now <= peak
    sizes_told = [f"{x / GIB:.2f}" for x in (promised, now, peak)]
    rows.append([dtype, *sizes_told, f"{peak / promised:.2f}"])
    common.say(" | ".join(rows[-1]))
  title = f"GiB of {given.shape} and a DSpark draft of five layers"
  parts.append(common.Table(title=title, header=HEADER, rows=rows).show())
  common.write(given.out, parts)


if __name__ == "__main__":
  common.run("loading", main)
