"""Where the time goes: a cycle's stages apart, and answers timed in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from tv_jax.engine import cycle
from tv_jax.engine.config import DecodeConfig, decode_config
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.generate import batch_for, decode_all
from tv_jax.engine.pair import Pair
from tv_jax.engine.prompts import Prompts, read_prompts
from tv_jax.engine.records import Records
from tv_jax.engine.state import Caches

# Of a cycle, in order.
STAGES = "draft", "target", "verify", "commit"

Name = TypeVar("Name", bound=Hashable)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
  """What `profile` returns; print it for a table.

  Attributes:
    milliseconds: By stage, of a cycle in the mean.
    whole: Milliseconds of a cycle in the one program of `generate`.
    prefill: Milliseconds of reading a prompt, in the mean.
    cycles: That the means are over; all rows together count once.
    compile_seconds: Of the stages.
    tokens: Of each prompt, the new tokens: the same as `generate`'s.
    config: How it was decoded.
  """

  milliseconds: dict[str, float]
  whole: float
  prefill: float
  cycles: int
  compile_seconds: float
  tokens: list[list[int]]
  config: DecodeConfig

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
    rows = {
      **self.milliseconds,
      "staged cycle": self.staged,
      "in one program": self.whole,
    }
    return "\n".join(
      [
        f"{self.config}, mean of {self.cycles} cycles",
        f"{'stage':<16}{'ms a cycle':>12}{'share':>8}",
        *(
          f"{name:<16}{ms:>12.3f}{ms / self.staged:>8.1%}"
          for name, ms in rows.items()
        ),
        f"apart: prefill {self.prefill:.1f} ms a prompt; compilation of the"
        f" stages {self.compile_seconds:.1f} s",
      ]
    )


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
  config = decode_config(pair, **options)
  asked = read_prompts(pair, config, prompts, template=template, items=items)
  staged, whole = (batch_for(pair, config, asked) for _ in range(2))
  count = 0

  def step(batch: Batch) -> None:
    nonlocal count
    if not count:  # to compile, and to warm up
      before = jax.tree.map(jnp.copy, batch.state)
      _stages(batch)
      batch.state = before
      for stage in STAGES:
        batch.seconds[stage] = 0.0
    _stages(batch)
    count += 1

  result = decode_all(pair, config, asked, staged, progress=False, step=step)
  decode_all(pair, config, asked, whole, progress=False)  # to warm up
  whole.seconds.clear()
  decode_all(pair, config, asked, whole, progress=progress)
  milliseconds = {
    stage: 1e3 * staged.seconds[stage] / count for stage in STAGES
  }
  return Profile(
    milliseconds=milliseconds,
    whole=1e3 * whole.seconds["cycles"] / count,
    prefill=1e3 * whole.seconds["prefill"] / len(asked),
    cycles=count,
    compile_seconds=staged.seconds["compile"],
    tokens=result.tokens,
    config=config,
  )


def _stages(batch: Batch) -> None:
  """Runs a cycle stage by stage; each hands on the caches, in place."""
  drafted, state = batch.run("draft", _draft, batch.state)
  scored, drafted, state = batch.run("target", _score, (drafted, state))
  verdicts = batch.run("verify", _verify, state, drafted, scored.laws, None)
  caches = Caches(scored.cache, drafted.cache)
  scored, drafted = scored._replace(cache=None), drafted._replace(cache=None)
  batch.state = batch.run(
    "commit", _commit, scored, drafted, verdicts, (caches, state)
  )


def _draft(config, params, state):
  drafted = cycle.draft(config, params, state)
  caches = state.caches._replace(draft=None)
  return drafted, dataclasses.replace(state, caches=caches)


def _score(config, params, donated):
  drafted, state = donated
  scored = cycle.score(config, params, state, drafted)
  return scored, drafted, dataclasses.replace(state, caches=None)


def _verify(config, params, state, drafted, laws, _):
  return cycle.verify(config, params, state, drafted, laws)


def _commit(config, params, scored, drafted, verdicts, donated):
  del params
  caches, state = donated
  scored = scored._replace(cache=caches.target)
  drafted = drafted._replace(cache=caches.draft)
  return cycle.commit(config, state, drafted, scored, verdicts)


class Timed(NamedTuple):
  """One answer, in seconds without compilation."""

  prefill: float
  cycles: float
  records: Records

  @property
  def seconds(self) -> float:
    """Of the whole answer."""
    return self.prefill + self.cycles


def time_in_turn(
  pair: Pair,
  configs: Mapping[Name, DecodeConfig],
  prompts: Sequence[Prompt],
  longest: int,
  *,
  rounds: int = 1,
  before: Callable[[Name, bool], None] = lambda name, warm: None,
) -> tuple[dict[Name, list[Timed]], dict[Name, float]]:
  """Times ways to decode, one prompt at a time, in turn on each prompt.

  A busy machine is then busy for all of them alike.

  Args:
    pair: The models.
    configs: How to decode, by name.
    prompts: What to continue.
    longest: What they are padded for.
    rounds: How often each prompt is answered in each way.
    before: Called before each answer with its way, and whether it counts: the
      first of each way is to compile and to warm up.

  Returns:
    The answers of each way, round by round; and its seconds of compilation.
  """
  names, compiling = [*configs], {}

  def answer(name, prompt):
    batch = Batch(pair, configs[name], 1, longest)
    (records,) = decode(batch, [prompt])
    compiling.setdefault(name, batch.seconds["compile"])
    spent = batch.seconds
    return Timed(spent["prefill"], spent["cycles"], records)

  for name in names:
    before(name, False)
    answer(name, prompts[0])
  answers = {name: [] for name in names}
  for turn in range(rounds):
    for place, prompt in enumerate(prompts):
      first = (turn + place) % len(names)
      for name in (*names[first:], *names[:first]):
        before(name, True)
        answers[name].append(answer(name, prompt))
  return answers, compiling
