"""How large a batch's arrays are, before there is any.

What a launcher reckons with as well: nothing here imports jax.

Axes: B batch, N nodes, M nodes that have children, D depth, P prompt length,
W new tokens at most, S cache slots, V vocabulary, T tokens of a pass.
"""

from __future__ import annotations

from typing import NamedTuple

# A prompt is read in pieces of at most this many tokens.
CHUNK = 256

# Slots of a cache come in full blocks: so many suit the products of a GPU.
BLOCK = 128


class Shape(NamedTuple):
  """What there is of a tree; by default, of plain decoding."""

  nodes: int = 1  # N
  inner: int = 0  # M
  depth: int = 0  # D


PLAIN = Shape()


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


def shape(tree) -> Shape:
  """Of a `Tree`, an `Adaptive`, or None."""
  return Shape(len(tree), len(tree.inner), tree.max_depth) if tree else PLAIN


def prompt_slots(length: int) -> int:
  """P: a power of 2 from 16 up to a chunk, then a number of chunks."""
  if length > CHUNK:
    return -(-length // CHUNK) * CHUNK
  return max(16, 1 << (length - 1).bit_length())


def new_slots(limit: int) -> int:
  """W: a power of 2 from 16 up to 128, then a multiple of 128."""
  if limit > 128:
    return -(-limit // 128) * 128
  return max(16, 1 << (limit - 1).bit_length())


def least_slots(tree: Shape, prompt: int, new: int) -> int:
  """The cache slots that `new` tokens after `prompt` need at most.

  The last cycle may commit D tokens too many; while a row waits for the
  others its cycles go on, each writing a tree, or catching up.
  """
  return prompt + new + tree.depth + max(tree.nodes, tree.depth + 1) + 1


def slots(tree: Shape, prompt: int, new: int, block: int) -> int:
  """S, in full blocks."""
  return -(-least_slots(tree, prompt + 1, new) // block) * block


def itemsize(dtype: str) -> int:
  """Bytes of a number."""
  return 4 if dtype == "float32" else 2


def estimate(
  target,
  draft,
  tree: Shape,
  batch: Batch,
  weights: tuple[int, int],
  block: int,
) -> dict[str, int]:
  """Bytes on each device that a batch takes at least.

  What must be there at the same time, and no more: temporaries come on top.

  Args:
    target: The target's `models.Config`, or what has the fields of one, with
      the dtype that it is loaded in.
    draft: Of the draft; None in plain decoding.
    tree: What is drafted.
    batch: What it is made for.
    weights: Bytes of the target's parameters, and of the draft's own.
    block: Of a cache's slots.

  Returns:
    By what takes it.
  """
  N, M, D = tree
  rows, prompt, new, panel, trace, devices, split_draft = batch
  S = slots(tree, prompt, new, block)
  own = devices if split_draft else 1
  caches = _cache(target, rows, S) // devices
  if draft is not None:
    caches += _cache(draft, rows, S) // own
  T = max(N, min(prompt, CHUNK))
  columns = new * (3 + panel) + D + 1 + N
  traced = trace * N * (6 + panel)
  return {
    "weights": weights[0] // devices + weights[1] // own,
    "caches": caches,
    "laws": 4 * rows * (N + M) * target.vocab_size,
    "masks": 4 * rows * T * S,
    "records": 4 * rows * (prompt + columns + traced),
  }


def _cache(config, rows, slots) -> int:
  width = config.num_key_value_heads * config.head_dim
  numbers = 2 * config.num_hidden_layers * rows * slots * width
  return numbers * itemsize(config.dtype)
