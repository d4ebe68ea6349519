"""Where the time of a cycle goes: the stages jitted apart, and timed.

The host drives the engine's own stage functions over the states that `generate`
goes through in one program, and waits for each.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import jax
import numpy as np

from tv_jax.engine import batches, decoding
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.batches import Prompts
from tv_jax.engine.decoding import Caches
from tv_jax.engine.driver import decode
from tv_jax.engine.pair import Pair
from tv_jax.engine.run import decode_batches
from tv_jax.engine.settings import Settings
from tv_jax.engine.stages import Scored
from tv_jax.verifiers import Verifier


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
  """What `profile` returns; print it for a table.

  Attributes:
    milliseconds: By stage, of a cycle in the mean: draft, target, verify,
      commit (in plain decoding target, draw, commit), and "rest", what the host
      takes between them.
    whole: Milliseconds of a cycle in the one program of `generate`.
    prefill: Milliseconds of reading the prompts, of a batch in the mean.
    cycles: That the means are over; a batch of rows counts once.
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
    """The table."""
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
      f"apart: prefill {self.prefill:.1f} ms a batch; compilation"
      f" {self.compile_seconds:.1f} s of the stages,"
      f" {self.whole_compile_seconds:.1f} s of the one program"
    )
    return "\n".join(lines)


@settings_lib.with_options
def profile(
  pair: Pair,
  prompts: Prompts,
  *,
  template: str = "raw",
  items: Sequence[int] | None = None,
  progress: bool | None = None,
  **options,
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
  run = _Staged(settings.plan)
  how = {"template": template, "items": items}
  staged = decode_batches(
    pair, settings, prompts, run.decode, progress=False, **how
  )
  first, again = (
    decode_batches(pair, settings, prompts, decode, progress=progress, **how)
    for _ in range(2)
  )
  decoding_ms = 1e3 * again.seconds - run.prefill
  return Profile(
    milliseconds={name: ms / run.cycles for name, ms in run.stages.items()},
    whole=decoding_ms / run.cycles,
    prefill=run.prefill / run.batches,
    cycles=run.cycles,
    compile_seconds=run.compiling,
    whole_compile_seconds=first.compile_seconds,
    tokens=staged.tokens,
    settings=settings,
  )


class _Staged:
  """Runs batches stage by stage, and adds up milliseconds."""

  def __init__(self, plan: decoding.Plan):
    """Nothing has run yet."""
    self.plan = plan
    self.compiling = 0.0
    self.prefill, self.batches, self.cycles = 0.0, 0, 0
    names = (
      ("draft", "target", "verify", "commit")
      if plan.speculation
      else ("target", "draw", "commit")
    )
    self.stages = dict.fromkeys((*names, "rest"), 0.0)

  def decode(self, settings, batch: batches.Batch, caches: Caches, items):
    """A batch, stage by stage; see `decode_batches`."""
    del settings, items
    stages = _Stages(self, batch)
    # All programs are compiled and warm once a first cycle is thrown away.
    state = stages.cycle(stages.prefill(caches))
    stages.spent.clear()
    state = stages.prefill(state.caches)
    self.prefill += stages.spent.pop("prefill")
    self.batches += 1
    begin = time.perf_counter()
    while not np.asarray(state.done).all():
      state = stages.cycle(state)
      self.cycles += 1
    total = 1e3 * (time.perf_counter() - begin)
    for name, ms in stages.spent.items():
      self.stages[name] += ms
    self.stages["rest"] += total - sum(stages.spent.values())
    return jax.device_get(state.records), state.caches, 0.0


class _Stages:
  """The stages of one batch. Caches go in donated, apart from the state."""

  def __init__(self, run: _Staged, batch: batches.Batch):
    """Nothing is compiled: each stage is when its arguments first exist."""
    self.run, self.plan, self.batch = run, run.plan, batch
    self.programs, self.spent = {}, {}

  def prefill(self, caches: Caches) -> decoding.State:
    """The prompts read."""
    return self._time(
      "prefill",
      decoding.prefill,
      (self.batch.params, self.batch.request, caches),
      (2,),
      new=self.batch.new,
    )

  def cycle(self, state: decoding.State) -> decoding.State:
    """The stages of `decoding.cycle`, one after the other."""
    params, request = self.batch.params, self.batch.request
    caches = state.caches
    state = dataclasses.replace(state, caches=Caches(None, None))
    drafted = draft_cache = None
    if self.plan.speculation:
      drafted, draft_cache = self._time(
        "draft", _draft, (params, request, state, caches.draft), (3,)
      )
    drafted, laws, features, cache, logits = self._time(
      "target", _target, (params, request, state, drafted, caches.target), (4,)
    )
    verdicts = self._time(
      "verify" if self.plan.speculation else "draw",
      decoding.verify,
      (request, state, drafted, laws),
    )
    arguments = request, state, drafted, draft_cache
    return self._time(
      "commit", _commit, (*arguments, features, cache, verdicts, logits), (3, 5)
    )

  def _time(self, name, function, arguments, donated=(), **static):
    """Runs a stage and waits for it."""
    if name not in self.programs:
      begin = time.perf_counter()
      self.programs[name] = decoding.compile(
        function,
        self.plan if name == "verify" else _of_any_rule(self.plan),
        *decoding.shapes_of(*arguments),
        donated=donated,
        **static,
      )
      self.run.compiling += time.perf_counter() - begin
    begin = time.perf_counter()
    results = jax.block_until_ready(self.programs[name](*arguments))
    spent = 1e3 * (time.perf_counter() - begin)
    self.spent[name] = self.spent.get(name, 0.0) + spent
    return results


def _of_any_rule(plan: decoding.Plan) -> decoding.Plan:
  """The plan without its rules, of which only one stage knows."""
  how = plan.speculation
  how = how and dataclasses.replace(how, verifier=_NO_RULE, others=())
  return dataclasses.replace(plan, speculation=how)


def _undecided(*_):
  raise AssertionError("a stage that verifies nothing asked for a decision")


_NO_RULE = Verifier(decide=_undecided)


def _draft(plan, params, request, state, cache):
  state = dataclasses.replace(state, caches=Caches(None, cache))
  drafted = decoding.draft(plan, params, request, state)
  return drafted._replace(cache=None), drafted.cache


def _target(plan, params, request, state, drafted, cache):
  state = dataclasses.replace(state, caches=Caches(cache, None))
  drafted = decoding.plain(state) if drafted is None else drafted
  scored = decoding.score(plan, params, request, state, drafted)
  return drafted, *scored


def _commit(
  plan, request, state, drafted, draft_cache, features, cache, verdicts, logits
):
  # The laws are not read: the tokens are drawn.
  scored = Scored(None, features, cache, logits)
  drafted = drafted._replace(cache=draft_cache)
  return decoding.commit(plan, request, state, drafted, scored, verdicts)
