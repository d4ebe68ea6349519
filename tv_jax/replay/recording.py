"""A run of `generate` that records its drafts, for `replay`.

Axes: B batch, N nodes, M nodes that have children, V vocabulary.
"""

import os
import pathlib
from collections.abc import Sequence

import jax
import numpy as np

from tv_jax.engine.config import DecodeConfig, Rule, decode_config
from tv_jax.engine.decode import Batch
from tv_jax.engine.generate import Prompts, decode_all, read_prompts
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Generation
from tv_jax.io.errors import UserError
from tv_jax.proposals import Proposal
from tv_jax.replay import cycles
from tv_jax.tree import Tree

# Options that are recorded in `meta`.
_OPTIONS = "draft_temperature", "draft_stop", "top_k", "top_p", "seed"


def record(
  pair: Pair,
  prompts: Prompts,
  path: str | os.PathLike,
  *,
  tree: Tree | str = "eagle",
  verifier: Rule = "traversal",
  proposal: Proposal | str = "without_replacement",
  temperature: float = 1.0,
  max_new_tokens: int = 128,
  seed: int = 0,
  template: str = "raw",
  panel: Sequence[Rule] | None = (),
  top_k: int = 0,
  top_p: float = 1.0,
  draft_temperature: float | None = None,
  draft_stop: float = 0.0,
  stop: str | Sequence[str] | None = None,
  ends: Sequence[int] | None = None,
  batch_size: int = 16,
  items: Sequence[int] | None = None,
  progress: bool | None = None,
) -> Generation:
  """Generates, and records every cycle's tokens and distributions in a file.

  `tv_jax.generate` describes the options. The tree must be fixed. Recording is
  slower, because the host starts every cycle. `path` is the .npz file to write,
  which must not exist. After an interrupt or an error the file has the cycles
  so far. Replays group the cycles by item.

  Raises:
    ValueError: An option, a prompt or the path is wrong; nothing was compiled.
  """
  path = pathlib.Path(path)
  if not path.parent.is_dir():
    raise UserError(f"{path}: there is no folder {path.parent}")
  if path.exists():
    raise UserError(f"{path} exists: remove it, or give another name")
  config = decode_config(
    pair,
    tree=tree,
    verifier=verifier,
    proposal=proposal,
    temperature=temperature,
    draft_temperature=draft_temperature,
    draft_stop=draft_stop,
    top_k=top_k,
    top_p=top_p,
    max_new_tokens=max_new_tokens,
    seed=seed,
    batch_size=batch_size,
    panel=panel,
    ends=ends,
    stop=stop,
  )
  if not isinstance(config.tree, Tree):
    raise UserError(f"{config}: give a rule and a fixed tree to record")
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
        "target": str(pair.target.source),
        "draft": str(pair.draft and pair.draft.source),
        **{name: getattr(config, name) for name in _OPTIONS},
      }
      cycles.save(path, recording.cycles(meta))
  return result


class Recording:
  """Runs cycles one by one and collects them on the host."""

  def __init__(self, config: DecodeConfig):
    """Starts with no cycles."""
    self.config, self.left_out = config, 0
    self.kept: list[dict[str, np.ndarray]] = []

  def step(self, batch: Batch) -> None:
    """Runs one cycle of a batch and records it."""
    active = ~np.asarray(batch.state.done)
    numbers = np.asarray(batch.state.records.cycles)
    drafted, p = batch.step()
    assert isinstance(self.config.tree, Tree)
    arrays = {
      "tokens": drafted.tokens,
      "q": drafted.laws,
      "p": p[:, self.config.tree.inner],
      "accepted": batch.state.records.accepted,
    }
    arrays = jax.device_get(arrays)
    accepted = arrays["accepted"]
    # Finished rows are dropped below; clip their index.
    places = np.minimum(numbers, accepted.shape[1] - 1)
    arrays["accepted"] = accepted[np.arange(len(places)), places]
    self.keep(active, arrays | {"item": batch.items, "cycle": numbers})

  def keep(self, active: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """Records the active rows of a cycle that have no NaN."""
    rows = active.copy()
    for name in ("q", "p"):
      rows &= np.isfinite(arrays[name]).all((1, 2))
    self.left_out += int(np.sum(active & ~rows))
    if rows.any():
      self.kept.append({name: array[rows] for name, array in arrays.items()})

  def cycles(self, meta: dict) -> cycles.Cycles:
    """Returns the cycles so far."""
    assert isinstance(self.config.tree, Tree)
    assert self.config.proposal
    arrays = {
      name: np.concatenate([part[name] for part in self.kept])
      for name in self.kept[0]
    }
    return cycles.Cycles(
      tree=self.config.tree,
      proposal=self.config.proposal,
      verifier=self.config.name,
      temperature=self.config.temperature,
      meta=meta,
      **arrays,
    )
