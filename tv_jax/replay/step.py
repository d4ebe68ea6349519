"""What is kept of one cycle of a batch.

Axes: B batch, N nodes, M nodes that have children, V vocabulary, W merged
alphabet.
"""

import functools
from typing import NamedTuple

import jax
import numpy as np

from tv_jax.drafting import Drafted
from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.records import Records
from tv_jax.replay import merging


class Seen(NamedTuple):
  """Arrays of a cycle, a row for each of the batch."""

  active: np.ndarray  # [B] whether the row was still decoding
  tokens: np.ndarray  # [B, N] in the merged alphabets
  q: np.ndarray  # [B, M, W]
  p: np.ndarray  # [B, M, W]
  parents: np.ndarray | None  # [B, N] where rows have trees of their own
  accepted: np.ndarray  # [B]
  expected: dict[str, np.ndarray]  # [B] by verifier of the panel


@functools.partial(jax.jit, static_argnums=0)
def merge(config: DecodeConfig, drafted: Drafted, laws: jax.Array):
  """Merges the alphabets of a cycle: returns tokens, q and p of all rows."""
  tree, proposal = config.tree, config.proposal
  assert tree
  assert proposal

  def merge_row(topology, *drawn):
    return merging.merge(
      tree, *drawn, distinct=proposal.distinct, topology=topology
    )

  return jax.vmap(merge_row)(
    drafted.topology, drafted.tokens, drafted.laws, laws[:, tree.inner]
  )


def see(
  config: DecodeConfig,
  active: np.ndarray,
  numbers: np.ndarray,
  drafted: Drafted,
  laws: jax.Array,
  records: Records,
) -> Seen:
  """Returns what is kept of a cycle.

  Args:
    config: How it was decoded.
    active: [B] which rows were not done before it.
    numbers: [B] how many cycles came before it.
    drafted: What it drafted.
    laws: [B, N, V] the target's.
    records: After it.
  """
  merged = merge(config, drafted, laws)
  parents = drafted.topology and drafted.topology.parent
  columns = records.accepted, records.expected
  merged, parents, columns = jax.device_get((merged, parents, columns))
  rows, last = np.arange(len(active)), columns[0].shape[1] - 1
  numbers = np.minimum(numbers, last)  # a row that is done has nothing to say
  accepted, expected = jax.tree.map(lambda x: x[rows, numbers], columns)
  tokens, q, p = merged
  return Seen(active, tokens, q, p, parents, accepted, expected)
