"""Hours that a unit decodes at most, at the speeds that the paper prints."""

from __future__ import annotations

import os

from experiments import paper
from launch import models
from tv_jax import runs
from tv_jax.models import Config, families
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.records import Method
from tv_jax.runs.settings import Run

# The paper's speeds are for these. Lower temperatures are faster.
PROPOSAL, HOTTEST = "without_replacement", 1
# The pairs that the paper timed. A copy in a folder is known by its number of
# parameters.
TIMED = (
  (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
    paper.LLAMA3,
  ),
  ("meta-llama/Llama-2-7b-hf", "JackFram/llama-68m", paper.LLAMA2),
)


def at_most(settings: Run, pair: tuple[Config, Config]) -> tuple[float, str]:
  """Returns hours of decoding at most, and what the number rests on.

  Raises:
    ValueError: The paper prints no speed for the pair or for a method, or the
      questions cannot be read.
  """
  table = _table(pair)
  speeds = {one: _speed(table, one) for one in runs.grid(settings)}
  turns, published = _turns(settings, settings.per_task)
  answers = dict.fromkeys(speeds, sum(turns))
  if per_task := settings.timing.per_task:
    least = min(per_task, settings.per_task or per_task)
    # Speed is measured on first turns, and once more to compile; for one seed.
    more = len(_turns(settings, least)[0]) * settings.timing.rounds + 1
    for method in {one.pooled("seed"): one for one in speeds}.values():
      answers[method] += more
  seconds = settings.max_new_tokens * sum(
    count / speeds[method] for method, count in answers.items()
  )
  low, high = min(speeds.values()), max(speeds.values())
  between = f"{low:g}" if low == high else f"{low:g} to {high:g}"
  rest = f"at the paper's {between} tokens/s, batch 1, one RTX A6000;"
  rest += " batches are faster"
  if not {settings.models.target, settings.models.draft} <= {*models.PUBLISHED}:
    rest += f"; models of the shapes of {table.target} and {table.draft}"
  rules = dict.fromkeys(str(one.verifier) for one in speeds if not one.plain)
  if other := [rule for rule in rules if rule not in paper.VERIFIERS]:
    rest += f"; {', '.join(other)} as its slower rule"
  if published:
    rest += f"; of {len(turns)} questions, as published"
  return seconds / 3600, rest


def _table(pair) -> paper.MainTable:
  """Returns the paper's table for a pair of these sizes."""
  for *names, table in TIMED:
    theirs = [models.PUBLISHED[name] for name in names]
    if [*map(_size, pair)] == [*map(_size, theirs)]:
      return table
  raise _no_speed("this pair")


def _size(config: Config) -> int:
  return sum(leaf.size for leaf in families.leaves(config))


def _no_speed(what: str) -> ValueError:
  return ValueError(f"no speed is known: the paper prints none for {what}")


def _speed(table: paper.MainTable, method: Method) -> float:
  """Returns a method's tokens per second; its slower rule's for other rules."""
  if (method.temperature or 0) > HOTTEST:
    raise _no_speed(f"temperatures above {HOTTEST}")
  if method.plain:
    return table.plain.mean
  if method.proposal != PROPOSAL:
    raise _no_speed(f"{method.proposal}")
  if method.tree not in table.tokens_per_second:
    raise _no_speed(f"{method.tree}")
  printed = table.tokens_per_second[method.tree]
  own = {rule: getattr(printed, rule).mean for rule in paper.VERIFIERS}
  return own.get(f"{method.verifier}", min(own.values()))


def _turns(settings: Run, per_task: int) -> tuple[list[int], bool]:
  """Returns how many turns each question has, and whether as published."""
  found, published = _questions(settings.questions)
  found = questions_lib.select(found, settings.tasks)
  found = questions_lib.limit(found, per_task=per_task or None)
  return [len(one.turns) for one in found], published


def _questions(source: str) -> tuple:
  """Returns the questions; of Spec-Bench, where it is not here, stand-ins."""
  kind, colon, path = source.partition(":")
  if kind != "spec_bench" or not colon:
    return questions_lib.load_questions(source), False
  if os.path.exists(os.path.expanduser(path)):
    return questions_lib.load_spec_bench(path), False
  found = []
  for category, count in questions_lib.SPEC_BENCH.items():
    ours = category in questions_lib.MT_BENCH
    found += count * [
      questions_lib.Question(
        question_id=0,
        category=category,
        turns=("",) * (1 + ours),
        references=(),
        mt_bench=ours,
      )
    ]
  return found, True
