"""Peak memory while a checkpoint of Llama-3.2-1B's shape is loaded.

  python -m benchmarks.load_memory

Writes 2.5 GB of random bfloat16 weights to a temporary directory, loads them
in a process of its own (Linux: the kernel's high-water mark is read), and
prints the peak as a multiple of the weights' size.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from benchmarks import common, gpu_shapes
from tv_jax.models import families

RAW = gpu_shapes.MODELS["Llama-3.2-1B"] | {"dtype": "bfloat16"}

CHILD = """
import json, re, sys, jax
from tv_jax import models
def status(name):
  text = open("/proc/self/status").read()
  return 1024 * int(re.search(rf"{name}:\\s+(\\d+)", text).group(1))
jax.devices()
before = status("VmRSS")
model = models.load(sys.argv[1])
jax.block_until_ready(model.params)
size = sum(x.nbytes for x in jax.tree.leaves(model.params))
print(json.dumps({"size": size, "peak": status("VmHWM") - before}))
"""


def write(directory: pathlib.Path) -> None:
  """A random checkpoint in one file."""
  leaves = families.leaves(families.from_dict(RAW, "RAW"))
  rng = np.random.default_rng(0)
  tensors = {
    part.name: rng.integers(0, 1 << 14, part.shape, np.uint16).view(
      ml_dtypes.bfloat16
    )
    for leaf in leaves
    for part in leaf.parts
  }
  save_file(tensors, directory / "model.safetensors")
  (directory / "config.json").write_text(json.dumps(RAW))


def measure() -> dict:
  """Bytes of the weights, and of the peak above what was used before."""
  with tempfile.TemporaryDirectory() as directory:
    write(pathlib.Path(directory))
    run = subprocess.run(
      [sys.executable, "-c", CHILD, directory],
      capture_output=True,
      text=True,
      check=True,
    )
  return json.loads(run.stdout)


def main(arguments: list[str]) -> None:
  """Measures, and prints a line."""
  common.Parser("load_memory", __doc__).parse_args(arguments)
  found = measure()
  ratio = found["peak"] / found["size"]
  print(f"{found['size'] / 1e9:.2f} GB of weights, peak {ratio:.2f}x")


if __name__ == "__main__":
  common.run("load_memory", main)
