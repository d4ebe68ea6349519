"""Programs made beside what runs: the next ones, while one of them decodes.

A thread compiles; decoding leaves it the processor whenever it waits. On a GPU
there is none: what XLA times there to choose between kernels would compete with
what is running, and with its memory.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterable
from typing import NamedTuple

import jax

from tv_jax.engine import sizes
from tv_jax.engine.driver import Rows
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Plan
from tv_jax.engine.settings import Settings

# Programs that may wait, compiled, for their turn: they hold memory.
_MOST = 4


class Job(NamedTuple):
  """What a program is made for.

  Attributes:
    plan: The plan.
    size: Rows of its batches.
    prompt: What their prompts are padded to.
    new: Tokens that there may be.
  """

  plan: Plan
  size: int
  prompt: int
  new: int


class Ahead:
  """Compiles a list of programs in order, a few before they are asked for."""

  def __init__(self, pair: Pair):
    """Nothing is to come yet."""
    self.pair = pair
    alone = jax.default_backend() == "cpu" and pair.target.mesh is None
    self.pool = concurrent.futures.ThreadPoolExecutor(1) if alone else None
    self.waiting: dict[Job, Settings] = {}
    self.begun: dict[Job, concurrent.futures.Future] = {}

  def __enter__(self) -> Ahead:
    """Itself."""
    return self

  def __exit__(self, *_) -> None:
    """No more is begun; what is under way ends by itself."""
    if self.pool:
      self.pool.shutdown(wait=False, cancel_futures=True)

  def expect(
    self, settings: Iterable[Settings], size: int, longest: int
  ) -> None:
    """Programs that will be asked for, in this order, after those before."""
    for one in settings if self.pool else ():
      job = _job(one, size, longest)
      if job not in self.begun:
        self.waiting.setdefault(job, one)

  def reach(self, settings: Settings, size: int, longest: int) -> float:
    """Waits for a program, if it was begun; begins with the next.

    Returns:
      The seconds that it took to compile, if it was compiled ahead; else 0, and
      whoever runs it compiles it.
    """
    job = _job(settings, size, longest)
    self.waiting.pop(job, None)
    found = self.begun.pop(job, None)
    cancelled = found is None or found.cancel()
    self._begin()
    return 0.0 if found is None or cancelled else found.result()

  def finish(self) -> None:
    """Returns once all that is expected is compiled."""
    self._begin()
    while self.begun:
      self.begun.pop(next(iter(self.begun))).result()
      self._begin()

  def _begin(self) -> None:
    while self.pool and self.waiting and len(self.begun) < _MOST:
      job = next(iter(self.waiting))
      self.begun[job] = self.pool.submit(
        _compile, self.pair, self.waiting.pop(job), job
      )

  def settle(self) -> None:
    """Returns once nothing is being compiled; what has not begun is not."""
    for one in self.begun.values():
      if not one.cancel():
        one.result()
    self.begun.clear()
    self.waiting.clear()


def _job(settings, size, longest) -> Job:
  prompt = sizes.prompt_slots(longest)
  return Job(settings.plan, size, prompt, settings.limit)


def _compile(pair, settings, job) -> float:
  """Makes what `Rows` will find; the seconds."""
  begin = time.perf_counter()
  try:
    Rows(pair, job.size).prepare(settings, job.prompt)
  except Exception:  # whoever runs it meets it again, and says so
    return 0.0
  return time.perf_counter() - begin
