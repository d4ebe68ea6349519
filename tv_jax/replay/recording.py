"""Record: a run of `generate` that keeps what it drafted, for `replay`.

Axes: B batch, N nodes, M nodes that have children, V vocabulary, W merged
alphabet.
"""

import functools
import os
import pathlib
from collections.abc import Sequence

import jax
import numpy as np

from tv_jax.engine.config import DecodeConfig, decode_config
from tv_jax.engine.decode import Batch
from tv_jax.engine.generate import decode_all
from tv_jax.engine.pair import Pair
from tv_jax.engine.prompts import Prompts, read_prompts
from tv_jax.engine.results import Generation
from tv_jax.replay import cycles, merging
from tv_jax.tree import Tree

# Options that a file names, beside the tree, the rule and the proposal.
_OPTIONS = "draft_temperature", "draft_stop", "top_k", "top_p", "seed"


def record(
  pair: Pair,
  prompts: Prompts,
  path: str | os.PathLike,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
  **options,
) -> Generation:
  """Generates, and keeps every cycle's tokens and laws in a file.

  The cycles are those of `generate`, to the token; but they are run one by
  one from here, so its speed is no measure of anything.

  Args:
    pair: Of `tv_jax.load`.
    prompts: As of `generate`.
    path: The file to write, an .npz; it must not exist. After an interrupt or
      an error it holds what was recorded until then.
    template: As in `generate`, like all that follows.
    items: By these, replays group the cycles.
    progress: Whether to show a bar.
    **options: What to do. The tree must be one that is known beforehand.

  Returns:
    What `generate` returns.

  Raises:
    ValueError: An option, a prompt or the path is wrong; nothing was compiled.
  """
  path = pathlib.Path(path)
  if not path.parent.is_dir():
    raise ValueError(f"{path}: there is no folder {path.parent}")
  if path.exists():
    raise ValueError(f"{path} exists: remove it, or give another name")
  config = decode_config(pair, **options)
  if not config.drafter:
    raise ValueError("verifier=None drafts nothing that could be recorded")
  if not isinstance(config.tree, Tree):
    raise ValueError(
      f"{config.tree!r} takes shape while it is drafted: record a fixed tree"
    )
  asked = read_prompts(pair, config, prompts, template=template, items=items)
  recording, complete = Recording(config), False
  try:
    result = decode_all(
      pair, config, asked, progress=progress, step=recording.step
    )
    complete = True
  finally:
    if recording.kept:
      meta = {
        "complete": complete,
        "left_out_for_nan": recording.left_out,
        "vocabulary": pair.target.config.vocab_size,
        "target": str(pair.target.source),
        "draft": str(pair.draft and pair.draft.source),
        **{name: getattr(config, name) for name in _OPTIONS},
      }
      cycles.save(path, recording.cycles(meta))
  return result


class Recording:
  """Runs cycles one by one, and has those so far on the host."""

  def __init__(self, config: DecodeConfig):
    """Has recorded nothing yet."""
    self.config, self.kept, self.left_out = config, [], 0

  def step(self, batch: Batch) -> None:
    """Runs a cycle of a batch, and keeps it."""
    active = ~np.asarray(batch.state.done)
    numbers = np.asarray(batch.state.records.cycles)
    drafted, laws = batch.step()
    merged = _merge(self.config.tree, drafted.tokens, drafted.laws, laws)
    records = batch.state.records
    merged, *columns = jax.device_get(
      (merged, records.accepted, records.expected)
    )
    rows, last = np.arange(len(active)), columns[0].shape[1] - 1
    places = np.minimum(numbers, last)  # a row that is done says nothing
    lengths = jax.tree.map(lambda x: x[rows, places], columns)
    self.keep(active, batch.items, numbers, *merged, *lengths)

  def keep(self, active, items, numbers, tokens, q, p, accepted, expected):
    """Takes the active rows of a cycle, but for those with a NaN."""
    sound = np.isfinite(q).all((1, 2)) & np.isfinite(p).all((1, 2))
    for lengths in expected.values():
      sound &= np.isfinite(lengths)
    self.left_out += int((active & ~sound).sum())
    rows = np.flatnonzero(active & sound)
    if len(rows):
      row = items, numbers, tokens, q, p, accepted, expected
      self.kept.append(jax.tree.map(lambda array: array[rows], row))

  def cycles(self, meta: dict) -> cycles.Cycles:
    """Returns those so far."""
    item, cycle, tokens, q, p, accepted, expected = jax.tree.map(
      lambda *arrays: np.concatenate(arrays), *self.kept
    )
    assert isinstance(self.config.tree, Tree)
    assert self.config.proposal
    return cycles.Cycles(
      tree=self.config.tree,
      proposal=self.config.proposal,
      tokens=tokens,
      q=q,
      p=p,
      item=item,
      cycle=cycle,
      verifier=self.config.name,
      temperature=self.config.temperature,
      accepted=accepted,
      expected=expected,
      meta=meta,
    )


@functools.partial(jax.jit, static_argnums=0)
def _merge(tree: Tree, tokens, q, p):
  """Merges a cycle's alphabets: tokens [B, N], q and p [B, M, W]."""
  return jax.vmap(functools.partial(merging.merge, tree))(
    tokens, q, p[:, tree.inner]
  )
