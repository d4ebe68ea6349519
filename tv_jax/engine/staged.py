"""Where the time of a cycle goes: the stages jitted apart, and timed.

The host drives the engine's own stage functions over the states that `generate`
goes through in one program, and waits for each.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Unpack, cast

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.engine import generation, stages
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.batches import Prompts
from tv_jax.engine.driver import Rows
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Caches
from tv_jax.engine.settings import Options, Settings
from tv_jax.engine.stages import Scored
from tv_jax.engine.timing import Clock
from tv_jax.models import Cache

# The cache that a stage is not given.
_NOTHING = cast(Cache, None)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
  """What `profile` returns; print it for a table.

  Attributes:
    milliseconds: By stage, of a cycle in the mean: draft, target, verify,
      commit (in plain decoding target, draw, commit), and "rest", what the host
      takes between them.
    whole: Milliseconds of a cycle in the one program of `generate`.
    prefill: Milliseconds of reading a prompt, in the mean.
    cycles: That the means are over; all rows together count once.
    compile_seconds: Of the stages.
    whole_compile_seconds: Of the one program; 0 if it was compiled before.
    tokens: Of each prompt, the new tokens: the same as `generate`'s.
    settings: What was asked for.
  """

  milliseconds: dict[str, float]
  whole: float
  prefill: float
  cycles: int
  compile_seconds: float
  whole_compile_seconds: float
  tokens: list[list[int]]
  settings: Settings

  @property
  def staged(self) -> float:
    """Milliseconds of a cycle whose stages are apart."""
    return sum(self.milliseconds.values())

  @property
  def shares(self) -> dict[str, float]:
    """By stage, its share of the staged cycle."""
    return {name: ms / self.staged for name, ms in self.milliseconds.items()}

  def __repr__(self) -> str:
    """Returns the table."""
    how, what = self.settings, "plain"
    if speculation := how.plan.speculation:
      what = f"{how.name} on {speculation.tree!r}, {how.proposal}"
    lines = [
      f"{what}, temperature {how.temperature:g}, mean of {self.cycles} cycles",
      f"{'stage':<16}{'ms a cycle':>12}{'share':>8}",
    ]
    rows = [
      *self.milliseconds.items(),
      ("staged cycle", self.staged),
      ("in one program", self.whole),
    ]
    lines += [
      f"{name:<16}{ms:>12.3f}{ms / self.staged:>8.1%}" for name, ms in rows
    ]
    lines.append(
      f"apart: prefill {self.prefill:.1f} ms a prompt; compilation"
      f" {self.compile_seconds:.1f} s of the stages,"
      f" {self.whole_compile_seconds:.1f} s of the one program"
    )
    return "\n".join(lines)


def profile(
  pair: Pair,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
  **options: Unpack[Options],
) -> Profile:
  """Times the stages of a cycle, each a program of its own.

  Programs of their own can neither be fused nor overlap, and hand all between
  them through memory: read the shares, and compare the sum with `whole`.

  Args:
    pair: Of `tv_jax.load`.
    prompts: As of `generate`, like all that follows.
    template: How strings become tokens.
    items: A number for each prompt.
    progress: Whether to show a bar for the run in one program.
    **options: What to do.

  Returns:
    Where the time goes.
  """
  settings = settings_lib.resolve(pair, **options)
  asked = generation.read(
    pair, settings, prompts, template=template, items=items
  )
  size = generation.batch_rows(settings, asked)
  apart, whole = _Staged(pair, size), Clock(pair, size)
  staged = generation.decode_all(pair, settings, asked, apart, progress=False)
  generation.decode_all(pair, settings, asked, whole, progress=progress)
  whole.reading = whole.cycling = 0.0  # the first time was to warm up
  generation.decode_all(pair, settings, asked, whole, progress=progress)
  return Profile(
    milliseconds={
      name: ms / apart.cycles for name, ms in apart.milliseconds.items()
    },
    whole=1e3 * whole.cycling / apart.cycles,
    prefill=1e3 * whole.reading / len(asked),
    cycles=apart.cycles,
    compile_seconds=apart.compile_seconds,
    whole_compile_seconds=whole.compile_seconds,
    tokens=staged.tokens,
    settings=settings,
  )


class _Staged(Rows):
  """Runs cycles stage by stage, and adds up milliseconds."""

  def __init__(self, pair: Pair, size: int):
    """Has timed nothing yet."""
    super().__init__(pair, size)
    self.milliseconds: dict[str, float] = {}
    self.cycles, self.warm = 0, False

  def compile(self, run, state):
    self.compile_seat(run, state)

  def advance(self, run, request, state, *, full):
    if not self.warm:
      # All stages are compiled and warm once a first cycle is thrown away.
      copy = jax.tree.map(jnp.copy, state)
      self._cycle(run, request, copy)
      self.milliseconds, self.warm = {}, True
    jax.block_until_ready(state)
    begin, before = time.perf_counter(), sum(self.milliseconds.values())
    finished = np.any if full else np.all
    while not finished(np.asarray(state.done)):
      state = self._cycle(run, request, state)
      self.cycles += 1
    total = 1e3 * (time.perf_counter() - begin)
    self._spend("rest", total - sum(self.milliseconds.values()) + before)
    return state

  def _cycle(self, run, request, state):
    """The stages of a cycle. Caches go in donated, apart from the state."""
    params, how = run.batch.params, run.settings.plan.speculation
    caches = state.caches
    state = dataclasses.replace(state, caches=Caches(_NOTHING, None))
    time_ = functools.partial(self._time, run)
    drafted = draft_cache = None
    if how:
      drafted, draft_cache = time_(
        "draft", _draft, (params, request, state, caches.draft), (3,)
      )
    drafted, laws, features, cache, logits = time_(
      "target", _target, (params, request, state, drafted, caches.target), (4,)
    )
    verdicts = time_(
      "verify" if how else "draw",
      stages.verify,
      (request, state, drafted, laws),
    )
    arguments = request, state, drafted, draft_cache
    return time_(
      "commit", _commit, (*arguments, features, cache, verdicts, logits), (3, 5)
    )

  def _time(self, run, name, function, arguments, donated=()):
    """Runs a stage and waits for it."""
    begin = time.perf_counter()
    program = run.program(function, *arguments, donated=donated)
    self.compile_seconds += time.perf_counter() - begin
    begin = time.perf_counter()
    results = jax.block_until_ready(program(*arguments))
    self._spend(name, 1e3 * (time.perf_counter() - begin))
    return results

  def _spend(self, name, milliseconds):
    before = self.milliseconds.get(name, 0.0)
    self.milliseconds[name] = before + milliseconds


def _draft(plan, params, request, state, cache):
  state = dataclasses.replace(state, caches=Caches(_NOTHING, cache))
  drafted = stages.draft(plan, params, request, state)
  return drafted._replace(cache=None), drafted.cache


def _target(plan, params, request, state, drafted, cache):
  state = dataclasses.replace(state, caches=Caches(cache, None))
  drafted = stages.plain(state) if drafted is None else drafted
  scored = stages.score(plan, params, request, state, drafted)
  return drafted, *scored


def _commit(
  plan, request, state, drafted, draft_cache, features, cache, verdicts, logits
):
  # The laws are not read: the tokens are drawn.
  scored = Scored(cast(jax.Array, None), features, cache, logits)
  drafted = drafted._replace(cache=draft_cache)
  return stages.commit(plan, request, state, drafted, scored, verdicts)
