"""Record: a run of `generate` that keeps what it drafted, for `replay`."""

import datetime
import os
import pathlib
import time
import warnings
from collections.abc import Sequence

import jax
import numpy as np

from tv_jax.edge import names
from tv_jax.engine.config import DecodeConfig, decode_config
from tv_jax.engine.decode import Batch
from tv_jax.engine.generate import decode_all
from tv_jax.engine.pair import Pair
from tv_jax.engine.prompts import Prompts, read_prompts
from tv_jax.engine.results import Generation
from tv_jax.replay import files, merging
from tv_jax.replay.data import Cycles
from tv_jax.replay.step import Seen, see

# What was recorded is written once in so many seconds.
SAVE_EVERY = 600.0


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
  """Generates, and keeps every cycle's tree, tokens, and laws in a file.

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
    **options: What to do.

  Returns:
    What `generate` returns.

  Raises:
    ValueError: An option, a prompt or the path is wrong; nothing was compiled.
  """
  path = _writable(path)
  config = decode_config(pair, **options)
  if not config.drafter:
    raise ValueError("verifier=None drafts nothing that could be recorded")
  asked = read_prompts(pair, config, prompts, template=template, items=items)
  recording = _Recording(pair, config, path)
  complete = False
  try:
    result = decode_all(
      pair, config, asked, progress=progress, step=recording.step
    )
    complete = True
  finally:
    recording.save(complete)
  return result


class _Recording:
  """Runs cycles one by one, and has those so far on the host."""

  def __init__(self, pair: Pair, config: DecodeConfig, path: pathlib.Path):
    """Has recorded nothing yet."""
    self.pair, self.config, self.path = pair, config, path
    self.kept = []  # of each cycle: what was seen, items, numbers
    self.left_out, self.saved = 0, time.monotonic()

  def step(self, batch: Batch) -> None:
    """Runs a cycle of a batch, and keeps it."""
    active = ~np.asarray(batch.state.done)
    numbers = np.asarray(batch.state.records.cycles)
    drafted, laws = batch.step()
    records = batch.state.records
    seen = see(batch.config, active, numbers, drafted, laws, records)
    self.keep(seen, batch.items, numbers)
    if time.monotonic() - self.saved > SAVE_EVERY:
      self.save(complete=False)

  def keep(self, seen: Seen, items: np.ndarray, numbers: np.ndarray):
    """Takes the active rows of a cycle, but for those with a NaN."""
    sound = np.isfinite(seen.q).all((1, 2)) & np.isfinite(seen.p).all((1, 2))
    for expected in seen.expected.values():
      sound &= np.isfinite(expected)
    rows = np.flatnonzero(seen.active & sound)
    self.left_out += int((seen.active & ~sound).sum())
    seen = jax.tree.map(lambda array: array[rows], seen)
    self.kept.append((seen, items[rows], numbers[rows]))

  def save(self, complete: bool):
    """Writes the cycles so far, if there are any."""
    if not any(len(items) for _, items, _ in self.kept):
      if complete:
        warnings.warn(f"{self.path}: no cycle without a NaN", stacklevel=3)
      return
    seen, items, numbers = jax.tree.map(
      lambda *arrays: np.concatenate(arrays), *self.kept
    )
    config = self.config
    assert config.tree
    assert config.proposal
    files.save(
      self.path,
      Cycles(
        tree=config.tree,
        proposal=config.proposal,
        tokens=seen.tokens,
        q=seen.q,
        p=seen.p,
        parents=seen.parents,
        item=items,
        cycle=numbers,
        verifier=config.name,
        temperature=config.temperature,
        accepted=seen.accepted,
        expected=seen.expected,
        meta=self.meta(complete),
      ),
    )
    self.saved = time.monotonic()

  def meta(self, complete: bool) -> dict:
    """Returns what else there is to know."""
    config = self.config
    return {
      "complete": complete,
      "sources": names.sources(
        {rule.name: rule for rule in (config.verifier, config.proposal) if rule}
      ),
      "left_out_for_nan": self.left_out,
      "vocabulary": self.pair.target.config.vocab_size,
      "target": str(self.pair.target.source),
      "draft": str(self.pair.draft and self.pair.draft.source),
      "draft_kind": self.pair.draft_kind,
      "draft_temperature": config.draft_temperature,
      "draft_stop": config.draft_stop,
      "top_k": config.top_k,
      "top_p": config.top_p,
      "max_new_tokens": config.max_new_tokens,
      "seed": config.seed,
      "kept": merging.KEPT,
      "jax": jax.__version__,
      "numpy": np.__version__,
      "device": jax.devices()[0].device_kind,
      "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _writable(path) -> pathlib.Path:
  """Returns the path, if a file can be made there."""
  path = pathlib.Path(path)
  if not path.parent.is_dir():
    raise ValueError(f"{path}: there is no folder {path.parent}")
  if path.exists():
    raise ValueError(f"{path} exists: remove it, or give another name")
  if not os.access(path.parent, os.W_OK):
    raise ValueError(f"{path}: no permission to write there")
  return path
