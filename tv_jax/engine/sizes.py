"""What a batch takes of memory and of patience, before anything is compiled.

Axes: B batch, P prompt length, W new tokens at most.
"""

from __future__ import annotations

import functools
import logging

import jax

from tv_jax import drafting
from tv_jax.engine import decoding, extents
from tv_jax.models import Config, families, layout, memory
from tv_jax.tree import Adaptive, Tree

# To compile a larger tree takes minutes. Levels and siblings are unrolled.
LARGE = {"nodes": 128, "levels": 12, "children": 8}


def estimate(
  target: Config,
  draft: Config | None,
  draft_kind: str,
  tree: Tree | Adaptive | None,
  batch: extents.Batch,
) -> dict[str, int]:
  """Bytes on each device that a batch takes at least: `extents.estimate`.

  Args:
    target: The target's configuration, with the dtype that it is loaded in.
    draft: Of the draft; None in plain decoding.
    draft_kind: One of `drafting.KINDS`.
    tree: What is drafted; None in plain decoding.
    batch: What it is made for.

  Returns:
    By what takes it.
  """
  weights = _held(families.leaves(target), target)
  own = 0 if draft is None else parameters(draft, draft_kind)
  shape = extents.shape(tree)
  return extents.estimate(target, draft, shape, batch, (weights, own), block())


def block() -> int:
  """The slots of a cache's block: few on a CPU, where every slot takes time."""
  return 16 if jax.default_backend() == "cpu" else extents.BLOCK


@functools.lru_cache(maxsize=64)
def parameters(config: Config, kind: str) -> int:
  """Bytes of a draft's own parameters."""
  return _held(drafting.KINDS[kind].leaves(config), config)


def _held(leaves, config: Config) -> int:
  """Bytes of parameters while a program runs.

  On a CPU XLA widens weights of eight bits, all of them, before the loop.
  """
  size = layout.size(leaves, config)
  if not config.quantised or jax.default_backend() != "cpu":
    return size
  wide = extents.itemsize(config.dtype)
  return size + wide * sum(x.size for x in leaves if x.channels(config))


def check(pair, plan: decoding.Plan, rows: int, prompt: int, new: int) -> None:
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
  mesh = pair.target.mesh
  devices = jax.local_devices()[:1] if mesh is None else [*mesh.devices.flat]
  batch = extents.Batch(
    rows=rows,
    prompt=prompt,
    new=new,
    panel=len(plan.panel),
    trace=plan.trace,
    devices=len(devices),
    split_draft=bool(tree) and pair.draft.mesh is not None,
  )
  draft = pair.draft.config if tree else None
  parts = estimate(pair.target.config, draft, pair.draft_kind, tree, batch)
  memory.check(parts, devices, describe(rows, prompt, new, tree))
  if tree:
    announce(tree)


def describe(
  rows: int, prompt: int, new: int, tree: Tree | Adaptive | None
) -> str:
  """A batch in words, for errors."""
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
