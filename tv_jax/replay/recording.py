"""A run of `generate` that records its drafts, for `replay`.

Axes: B batch, N nodes, M nodes that have children, V vocabulary.
"""

import os
import pathlib
from collections.abc import Callable, Sequence

import jax
import numpy as np

from tv_jax.engine import cycle
from tv_jax.engine.config import DEFAULTS, DecodeConfig, Options, decode_config
from tv_jax.engine.decode import Batch
from tv_jax.engine.generate import Prompts, decode_all, read_prompts
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Generation
from tv_jax.io.errors import UserError
from tv_jax.replay.cycles import Cycles, save

_coins = jax.jit(cycle.coins, static_argnums=1)


def record(
  pair: Pair,
  prompts: Prompts,
  path: str | os.PathLike,
  options: Options = DEFAULTS,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
) -> Generation:
  """Generates, and records every cycle's tokens and distributions in a file.

  Returns what `tv_jax.generate` returns with these options. Recording is
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
  config = decode_config(pair, options)
  if not config.static.tree:
    raise UserError(f"{config}: give a rule to record")
  asked = read_prompts(pair, config, prompts, template=template, items=items)
  recording, complete = Recording(config), False
  try:
    result = decode_all(
      pair, config, asked, progress=progress, step=recording.step
    )
    complete = True
  finally:
    meta = {
      "complete": complete,
      "left_out_for_nan": recording.left_out,
      "target": str(pair.target.source),
      "draft": str(pair.draft and pair.draft.source),
      "seed": config.seed,
      **config.sampling,
    }
    if recorded := recording.cycles(meta):
      save(path, recorded)
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
    coins = np.array(_coins(batch.state, self.config.static.nodes))
    drafted, p = batch.step()
    if not rows.any():
      return
    assert self.config.static.tree
    arrays = {
      "tokens": drafted.tokens,
      "q": drafted.q,
      "p": p[:, self.config.static.tree.inner],
      "accepted": batch.state.records.gained,
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

  def cycles(self, meta: dict, item: int | None = None) -> Cycles | None:
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
    assert self.config.static.tree
    assert self.config.static.proposal
    return Cycles(
      tree=self.config.static.tree,
      proposal=self.config.static.proposal,
      verifier=self.config.name,
      temperature=self.config.temperature,
      meta=meta,
      **arrays,
    )
