"""A run of `generate` that records its drafts, for `replay`.

Axes: B batch, N nodes, M nodes that have children, V vocabulary.
"""

import functools
import os
import pathlib
from collections.abc import Callable, Sequence

import jax
import numpy as np

from tv_jax.engine import cycle
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
    recorded = recording.cycles(
      complete=complete,
      left_out_for_nan=recording.left_out,
      target=str(pair.target.source),
      draft=str(pair.draft and pair.draft.source),
      **{name: getattr(config, name) for name in _OPTIONS},
    )
    if recorded:
      cycles.save(path, recorded)
  return result


class Recording:
  """Collects cycles on the host; `step` is a callback for `decode`.

  Attributes:
    left_out: Number of cycles with a NaN, which are not kept.
  """

  def __init__(
    self,
    config: DecodeConfig,
    wanted: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
  ):
    """Starts with no cycles.

    Args:
      config: The decoding options.
      wanted: Function from the rows' item numbers [B] and cycle numbers [B] to
        whether they are recorded [B]; by default all are.
    """
    self.config, self.wanted, self.left_out = config, wanted, 0
    self.kept: list[dict[str, np.ndarray]] = []

  def step(self, batch: Batch) -> None:
    """Runs one cycle of a batch and records it."""
    rows = ~np.asarray(batch.state.done)
    numbers = np.array(batch.state.records.cycles)
    if self.wanted:
      rows &= self.wanted(batch.items, numbers)
    coins = np.array(_coins(batch.state, self.config.nodes))
    drafted, p = batch.step()
    if not rows.any():
      return
    assert self.config.tree
    arrays = {
      "tokens": drafted.tokens,
      "q": drafted.laws,
      "p": p[:, self.config.tree.inner],
      "accepted": batch.state.records.accepted,
    }
    arrays = jax.device_get(arrays)
    accepted = arrays["accepted"]
    # Finished rows are dropped below; clip their index.
    last = np.minimum(numbers, accepted.shape[1] - 1)
    arrays |= {
      "accepted": accepted[np.arange(len(last)), last],
      "item": batch.items,
      "cycle": numbers,
      "coins": coins,
    }
    self.keep(rows, arrays)

  def keep(self, rows: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """Records these rows of a cycle if they have no NaN."""
    finite = rows.copy()
    for name in ("q", "p"):
      finite &= np.isfinite(arrays[name]).all((1, 2))
    self.left_out += int(np.sum(rows & ~finite))
    if finite.any():
      self.kept.append({name: array[finite] for name, array in arrays.items()})

  def cycles(self, item: int | None = None, **meta) -> cycles.Cycles | None:
    """Returns the cycles so far, of one item or of all; None without any."""
    parts = self.kept
    if item is not None:
      parts = [
        {name: array[part["item"] == item] for name, array in part.items()}
        for part in parts
      ]
    if not sum(len(part["item"]) for part in parts):
      return None
    arrays = {
      name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    assert self.config.tree
    assert self.config.proposal
    return cycles.Cycles(
      tree=self.config.tree,
      proposal=self.config.proposal,
      verifier=self.config.name,
      temperature=self.config.temperature,
      meta=meta,
      **arrays,
    )


@functools.partial(jax.jit, static_argnums=1)
def _coins(state, nodes):
  return cycle.coins(state, nodes)
