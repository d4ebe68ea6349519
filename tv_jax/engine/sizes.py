"""What a batch takes of memory and of patience, before anything is compiled.

Axes: B batch, N nodes, M nodes that have children, D depth, P prompt length,
W new tokens at most, S cache slots, V vocabulary, T tokens of a pass.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, NamedTuple

import jax

from tv_jax import drafting
from tv_jax.models import Config, families, layout, memory
from tv_jax.tree import Adaptive, Tree

if TYPE_CHECKING:
  from tv_jax.engine.pair import Pair
  from tv_jax.engine.plan import Plan

# A prompt is read in pieces of at most this many tokens.
CHUNK = 256

# Slots of a cache come in full blocks. So many suit the products of a GPU; on
# a CPU every slot takes time.
BLOCK, CPU_BLOCK = 128, 16

# To compile a larger tree takes minutes. Levels and siblings are unrolled.
LARGE = {"nodes": 128, "levels": 12, "children": 8}


class Batch(NamedTuple):
  """What a batch's size depends on, besides its models and its tree.

  Attributes:
    rows: B.
    prompt: P.
    new: W.
    panel: Verifiers whose stop laws are computed.
    trace: Cycles of which trees are recorded.
    devices: That the target is split over.
    split_draft: Whether the draft is, too.
  """

  rows: int
  prompt: int
  new: int
  panel: int = 0
  trace: int = 0
  devices: int = 1
  split_draft: bool = False


def prompt_slots(length: int) -> int:
  """Returns P: a power of 2 from 16 to a chunk, then a number of chunks."""
  if length > CHUNK:
    return -(-length // CHUNK) * CHUNK
  return max(16, 1 << (length - 1).bit_length())


def new_slots(limit: int) -> int:
  """Returns W: a power of 2 from 16 to 128, then a multiple of 128."""
  if limit > 128:
    return -(-limit // 128) * 128
  return max(16, 1 << (limit - 1).bit_length())


def least_slots(
  tree: Tree | Adaptive | None, prompt: int, new: int, ahead: int = 0
) -> int:
  """Returns the cache slots that `new` tokens after `prompt` need at most.

  The last cycle may commit D tokens too many; while a row waits for the
  others its cycles go on, each writing a tree, or catching up, and behind that
  the `ahead` rows of a draft's block.
  """
  N, D = (len(tree), tree.max_depth) if tree else (1, 0)
  return prompt + new + D + max(N, D + 1 + ahead) + 1


def slots(
  tree: Tree | Adaptive | None,
  prompt: int,
  new: int,
  ahead: int = 0,
  *,
  cpu: bool | None = None,
) -> int:
  """Returns S, in full blocks; for this machine, unless `cpu` says which."""
  block = CPU_BLOCK if _on_cpu(cpu) else BLOCK
  return -(-least_slots(tree, prompt + 1, new, ahead) // block) * block


def estimate(
  target: Config,
  draft: Config | None,
  draft_kind: str,
  tree: Tree | Adaptive | None,
  batch: Batch,
  *,
  cpu: bool | None = None,
) -> dict[str, int]:
  """Returns the bytes that a batch takes at least on each device, by purpose.

  What must be there at the same time, and no more: temporaries come on top.

  Args:
    target: The target's configuration, with the dtype that it is loaded in.
    draft: Of the draft; None in plain decoding.
    draft_kind: One of `drafting.KINDS`.
    tree: What is drafted; None in plain decoding.
    batch: What it is made for.
    cpu: Whether it is to run on a CPU; None: as this process.
  """
  N, M = (len(tree), len(tree.inner)) if tree else (1, 0)
  D = tree.max_depth if tree else 0
  rows, prompt, new, panel, trace, devices, split_draft = batch
  ahead = draft.block.size if draft and draft.block else 0
  S = slots(tree, prompt, new, ahead, cpu=cpu)
  own = devices if split_draft else 1
  weights = _weights(families.leaves(target), target, cpu) // devices
  caches = _cache(target, rows, S) // devices
  if draft is not None:
    weights += parameters(draft, draft_kind, cpu=cpu) // own
    caches += _cache(draft, rows, S) // own
  T = max(N, min(prompt, CHUNK))
  columns = new * (3 + panel) + D + 1 + N
  traced = trace * N * (6 + panel)
  return {
    "weights": weights,
    "caches": caches,
    "laws": 4 * rows * (N + M + ahead) * target.vocab_size,
    "masks": 4 * rows * T * S,
    "records": 4 * rows * (prompt + columns + traced),
  }


@functools.lru_cache(maxsize=64)
def parameters(config: Config, kind: str, *, cpu: bool | None = None) -> int:
  """Returns the bytes of a draft's own parameters."""
  return _weights(drafting.KINDS[kind].leaves(config), config, cpu)


def check(pair: Pair, plan: Plan, rows: int, prompt: int, new: int) -> None:
  """Refuses a batch that does not fit, and says what will take long.

  Args:
    pair: The models.
    plan: What the program is compiled for.
    rows: B.
    prompt: P.
    new: W.

  Raises:
    ValueError: It needs more memory than there is.
  """
  tree = plan.speculation and plan.speculation.tree
  draft = pair.draft if tree else None
  mesh = pair.target.mesh
  devices = jax.local_devices()[:1] if mesh is None else [*mesh.devices.flat]
  batch = Batch(
    rows=rows,
    prompt=prompt,
    new=new,
    panel=len(plan.panel),
    trace=plan.trace,
    devices=len(devices),
    split_draft=draft is not None and draft.mesh is not None,
  )
  parts = estimate(
    pair.target.config, draft and draft.config, pair.draft_kind, tree, batch
  )
  memory.check(parts, devices, describe(rows, prompt, new, tree))
  if tree:
    announce(tree)


def describe(
  rows: int, prompt: int, new: int, tree: Tree | Adaptive | None
) -> str:
  """Returns a batch in words, for errors."""
  what = f"{rows} rows of {prompt} and {new} tokens"
  return f"{what}, with trees of {len(tree)} nodes," if tree else what


@functools.lru_cache(maxsize=256)
def announce(tree: Tree | Adaptive) -> None:
  """Says once of a large tree that it takes long to compile."""
  size = {
    "nodes": len(tree),
    "levels": tree.max_depth,
    "children": tree.max_children,
  }
  large = [f"{size[name]} {name}" for name in LARGE if size[name] > LARGE[name]]
  if large:
    logging.getLogger(__name__).warning(
      "a tree of %s takes minutes to compile, and longer the larger it is (on"
      " two busy cores: kary:2x10 3 minutes, chain:64 4, grown:768 6)",
      ", ".join(large),
    )


def _on_cpu(told: bool | None) -> bool:
  return jax.default_backend() == "cpu" if told is None else told


def _weights(leaves, config: Config, cpu: bool | None) -> int:
  """Returns the bytes of parameters while a program runs.

  On a CPU XLA widens weights of eight bits, all of them, before the loop.
  """
  size = layout.size(leaves, config)
  if not config.quantised or not _on_cpu(cpu):
    return size
  return size + _width(config) * sum(
    leaf.size for leaf in leaves if leaf.channels(config)
  )


def _width(config: Config) -> int:
  """Returns the bytes of a number."""
  return 4 if config.dtype == "float32" else 2


def _cache(config: Config, rows: int, slots: int) -> int:
  width = config.num_key_value_heads * config.head_dim
  return 2 * config.num_hidden_layers * rows * slots * width * _width(config)
