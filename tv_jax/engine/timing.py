"""Answers timed in turn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.pair import Pair
from tv_jax.engine.records import Records

Name = TypeVar("Name", bound=Hashable)


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
  """Times several configs, one prompt at a time, in turn on each prompt.

  A busy machine is then busy for all of them alike.

  Args:
    pair: The models.
    configs: How to decode, by name.
    prompts: What to continue.
    longest: What they are padded for.
    rounds: How often each config answers each prompt.
    before: Called before each answer with the config's name, and whether the
      answer counts: the first of each is to compile and to warm up.

  Returns:
    The answers by name, round by round; and the seconds of compilation.
  """
  # Kept, so that however many there are, each compiles its programs once.
  batches = {
    name: Batch(pair, config, 1, longest) for name, config in configs.items()
  }

  def answer(name, prompt, warm=True):
    before(name, warm)
    spent = batches[name].seconds
    spent["prefill"] = spent["cycles"] = 0.0
    (records,) = decode(batches[name], [prompt])
    return Timed(spent["prefill"], spent["cycles"], records)

  for name in configs:
    answer(name, prompts[0], warm=False)
  compiling = {
    name: batch.seconds["compile"] for name, batch in batches.items()
  }
  names, answers = [*configs], {name: [] for name in configs}
  for turn in range(rounds):
    for place, prompt in enumerate(prompts):
      first = (turn + place) % len(names)
      for name in (*names[first:], *names[:first]):
        answers[name].append(answer(name, prompt))
  return answers, compiling
