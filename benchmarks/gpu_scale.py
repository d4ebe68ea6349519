"""How large `benchmarks.gpu` makes everything, and what it compares with."""

from __future__ import annotations

import dataclasses

import jax

from benchmarks.gpu_program import CAPTURE
from experiments import paper
from tv_jax import proposals

# Bytes a second from and to memory, by jax's name of the device: from the data
# sheets of their makers.
CHIPS = {
  "NVIDIA B200": 8.0e12,
  "NVIDIA H200": 4.8e12,
  "NVIDIA H100 80GB HBM3": 3.35e12,
  "NVIDIA H100 PCIe": 2.0e12,
  "NVIDIA A100-SXM4-80GB": 2.039e12,
  "NVIDIA A100-SXM4-40GB": 1.555e12,
  "NVIDIA RTX A6000": 0.768e12,
  "NVIDIA L40S": 0.864e12,
  "NVIDIA L4": 0.3e12,
  "NVIDIA GeForce RTX 4090": 1.008e12,
  "NVIDIA GeForce RTX 3090": 0.936e12,
  "Tesla T4": 0.32e12,
}

# Tables 1 and 2, by draft and target.
PAPER = {
  ("Llama-3.2-1B", "Llama-3.1-8B"): paper.LLAMA3.average_acceptance,
  ("Llama-68M", "Llama-2-7B"): paper.LLAMA2.average_acceptance,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
  """How large everything is: by itself, for a GPU."""

  pairs: tuple[tuple[str, str], ...] = tuple(PAPER)  # drafts and targets
  dtype: str = "bfloat16"  # of their weights
  # What is drafted; the first is the one that most is done with.
  trees: tuple[str, ...] = ("eagle", "chain:5", "kary:2x5")
  # And one that takes long to compile.
  large: tuple[str, ...] = ("branching:3,5,5,3,2",)  # 768 nodes
  # Verifiers that have a level-parallel form and a loop.
  rules: tuple[str, ...] = ("traversal", "token_level")
  pair_rules: tuple[str, ...] = ("ot_traversal",)  # that plan for siblings
  batches: tuple[int, ...] = (4, 16)  # more rows than one
  vocabulary: int = 128256  # of the verifications that are timed
  slots: int = 1024  # S, of the caches
  prompt: int = 128  # tokens
  new: int = 128  # tokens after it
  drafts: int = 64  # random ones that the forms of a rule are compared on
  drafts_vocabulary: int = 4096
  rows: int = 16384  # samples of the output's law
  proposals: tuple[str, ...] = tuple(proposals.PROPOSALS)
  loops: int = 40  # iterations of a timed loop
  repeats: int = 3  # how often each time is taken; the least counts
  workers: int = 8  # programs that are compiled at a time
  patience: float = 120  # seconds that a part waits for its programs


TOY = Scale(
  pairs=(("toy draft", "toy"),),
  dtype="float32",
  trees=("branching:2,1",),
  large=("kary:2x2",),
  rules=("traversal",),
  batches=(2,),
  vocabulary=64,
  slots=128,
  prompt=16,
  new=16,
  drafts=8,
  drafts_vocabulary=32,
  rows=256,
  proposals=("without_replacement",),
  loops=2,
  repeats=1,
  workers=2,
)


def on_gpu() -> bool:
  """Whether there is one."""
  return jax.default_backend() == "gpu"


def graphs() -> dict | None:
  """Compiler options for CUDA graphs around loops, where there is CUDA."""
  return CAPTURE if on_gpu() else None


def bandwidth_of_chip() -> float | None:
  """Bytes a second by the data sheet; None for an unknown chip."""
  return CHIPS.get(jax.devices()[0].device_kind)


def against_limit(seconds: float, moved: int) -> dict:
  """A time beside the least in which memory can move this many bytes."""
  if seconds <= 0:  # of a difference, lost in the noise
    return {"GB": moved / 1e9, "note": "too short to be timed"}
  row = {"ms": 1e3 * seconds, "GB": moved / 1e9}
  if limit := bandwidth_of_chip():
    least = moved / limit
    row |= {"limit ms": 1e3 * least, "share": least / seconds}
  return row
