"""Record: a run of `generate` that keeps what it drafted, for `replay`."""

import datetime
import os
import pathlib
import time
import warnings
from collections.abc import Sequence
from typing import Unpack

import jax
import numpy as np

from tv_jax import engine
from tv_jax.edge import names
from tv_jax.engine.driver import Rows, where
from tv_jax.engine.generation import batch_rows
from tv_jax.engine.pair import Pair
from tv_jax.replay import files, merging
from tv_jax.replay import step as step_lib
from tv_jax.replay.data import Cycles
from tv_jax.replay.step import Seen

# What was recorded is written once in so many seconds.
SAVE_EVERY = 600.0


def record(
  pair: Pair,
  prompts: engine.Prompts,
  path: str | os.PathLike,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
  **options: Unpack[engine.Options],
) -> engine.Generation:
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
  settings = engine.resolve(pair, **options)
  if settings.plan.speculation is None:
    raise ValueError("verifier=None drafts nothing that could be recorded")
  asked = engine.read(pair, settings, prompts, template=template, items=items)
  size = batch_rows(settings, asked)
  recording = _Recording(pair, size, settings, path)
  complete = False
  try:
    result = engine.decode_all(
      pair, settings, asked, recording, progress=progress
    )
    complete = True
  finally:
    recording.save(complete)
  return result


class _Recording(Rows):
  """Runs cycles one by one, and has those so far on the host."""

  def __init__(self, pair, size, settings, path):
    """Has recorded nothing yet."""
    super().__init__(pair, size)
    self.settings, self.path = settings, path
    self.items = np.zeros(size, np.int64)  # of what is in each row
    self.kept = []  # of each cycle: what was seen, items, numbers
    self.left_out, self.saved = 0, time.monotonic()

  def seat(self, run, seat, request, state):
    self.items[int(seat.row)] = int(seat.item)
    return super().seat(run, seat, request, state)

  def compile(self, run, state):
    self.compile_seat(run, state)

  def advance(self, run, request, state, *, full):
    arguments = run.batch.params, request, state
    begin = time.perf_counter()
    step = run.program(
      step_lib.step, *arguments, donated=(2,), places=_as_before
    )
    self.compile_seconds += time.perf_counter() - begin
    done, finished = np.asarray(state.done), np.any if full else np.all
    while not finished(done):
      number = np.asarray(state.records.cycles)
      state, seen = step(run.batch.params, request, state)
      done, seen = jax.device_get((state.done, seen))
      self.keep(seen, number)
      if time.monotonic() - self.saved > SAVE_EVERY:
        self.save(complete=False)
    return state

  def keep(self, seen: Seen, numbers: np.ndarray):
    """Takes the active rows of a cycle, but for those with a NaN."""
    sound = np.isfinite(seen.q).all((1, 2)) & np.isfinite(seen.p).all((1, 2))
    for expected in seen.expected.values():
      sound &= np.isfinite(expected)
    rows = np.flatnonzero(seen.active & sound)
    self.left_out += int((seen.active & ~sound).sum())
    seen = jax.tree.map(lambda array: array[rows], seen)
    self.kept.append((seen, self.items[rows], numbers[rows]))

  def save(self, complete: bool):
    """Writes the cycles so far, if there are any."""
    if not any(len(items) for _, items, _ in self.kept):
      if complete:
        warnings.warn(f"{self.path}: no cycle without a NaN", stacklevel=3)
      return
    seen, items, numbers = jax.tree.map(
      lambda *arrays: np.concatenate(arrays), *self.kept
    )
    how = self.settings
    files.save(
      self.path,
      Cycles(
        tree=how.plan.speculation.tree,
        proposal=how.plan.speculation.proposal,
        tokens=seen.tokens,
        q=seen.q,
        p=seen.p,
        parents=seen.parents,
        item=items,
        cycle=numbers,
        verifier=how.name,
        temperature=how.temperature,
        accepted=seen.accepted,
        expected=seen.expected,
        meta=self.meta(complete),
      ),
    )
    self.saved = time.monotonic()

  def meta(self, complete: bool) -> dict:
    """Returns what else there is to know."""
    how, config = self.settings, self.pair.target.config
    return {
      "complete": complete,
      "sources": names.sources(
        {
          how.name: how.plan.speculation.verifier,
          how.proposal: how.plan.speculation.proposal,
        }
      ),
      "left_out_for_nan": self.left_out,
      "vocabulary": config.vocab_size,
      "target": str(self.pair.target.source),
      "draft": str(self.pair.draft and self.pair.draft.source),
      "draft_kind": self.pair.draft_kind,
      "draft_temperature": how.draft_temperature,
      "draft_stop": how.draft_stop,
      "top_k": how.plan.top_k,
      "top_p": how.plan.top_p,
      "max_new_tokens": how.limit,
      "seed": how.seed,
      "kept": merging.KEPT,
      "jax": jax.__version__,
      "numpy": np.__version__,
      "device": jax.devices()[0].device_kind,
      "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _as_before(params, request, state):
  """Returns the next state where this one lies, to be given instead of it."""
  del params, request
  return where(state), None


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
