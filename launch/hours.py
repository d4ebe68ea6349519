"""Hours that a unit decodes at most, at the speeds that the paper prints."""

from __future__ import annotations

import itertools
import os

from experiments import paper
from launch import models, shapes
from launch.models import HEADS, PUBLISHED, once
from tv_jax.runs import questions as questions_lib

# What the paper's speeds are of. Colder ones are faster.
PROPOSAL, HOTTEST = "without_replacement", 1
CHAINS_ALONE = ("block",)  # rules that never run on another tree
# The pairs that the paper timed. A copy in a folder is known by its shape.
TIMED = (
  (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
    paper.LLAMA3,
  ),
  ("meta-llama/Llama-2-7b-hf", "JackFram/llama-68m", paper.LLAMA2),
)


@once
def at_most(
  target: str,
  draft: str,
  kind: str,
  dtype: str,
  *,
  cells: tuple,
  points: tuple[tuple[float, ...], int],
  asked: tuple,
  timed: tuple[int, int],
  limit: int,
) -> tuple[float, str]:
  """At most, and what that rests on.

  Args:
    target: A model.
    draft: Another one.
    kind: Of the draft.
    dtype: Of both.
    cells: Trees, proposals, verifiers, and whether to decode plainly, too.
    points: Temperatures, and how many seeds.
    asked: Questions, tasks, and how many questions of each.
    timed: Questions of each task that are timed, and how often.
    limit: New tokens at most.
  """
  table = _timed(target, draft, kind, dtype)
  speeds, other = _speeds(table, *cells)
  turns, published = _turns(*asked)
  temperatures, seeds = points
  if max(temperatures, default=0) > HOTTEST:
    raise _no_speed(f"temperatures above {HOTTEST}")
  answers = sum(turns) * seeds
  if timed[0]:
    source, tasks, per_task = asked
    least = min(timed[0], per_task or timed[0])
    # Speed is measured on first turns, and once more while it is compiled.
    answers += len(_turns(source, tasks, least)[0]) * timed[1] + 1
  tokens = answers * len(temperatures) * limit
  seconds = tokens * sum(1 / speed for speed in speeds)
  low, high = min(speeds), max(speeds)
  between = f"{low:g}" if low == high else f"{low:g} to {high:g}"
  rest = f"at the paper's {between} tokens/s, batch 1, one RTX A6000;"
  rest += " batches are faster"
  if not {target, draft} <= {*PUBLISHED}:
    rest += f"; models of the shapes of {table.target} and {table.draft}"
  if other:
    rest += f"; {', '.join(other)} as its slower rule"
  if published:
    rest += f"; of {len(turns)} questions, as published"
  return seconds / 3600, rest


def _timed(target: str, draft: str, kind: str, dtype: str) -> paper.MainTable:
  """The paper's table of a pair of these shapes."""
  try:
    pair = models.pair(target, draft, kind, dtype)
  except ValueError:
    raise _no_speed("this pair") from None
  shape = [one._replace(dtype="", quantised=False) for one in pair]
  for *known, table in TIMED:
    theirs = [PUBLISHED[name]._replace(dtype="") for name in known]
    if shape == theirs and not HEADS[kind]:
      return table
  raise _no_speed("this pair")


def _no_speed(what: str) -> ValueError:
  return ValueError(f"no speed is known: the paper prints none for {what}")


def _speeds(table, trees, proposals, verifiers, plain) -> tuple[list, list]:
  """Tokens a second in each cell; the rules of which the paper has none."""
  found, other = [table.plain.mean] if plain else [], {}
  for tree, proposal, rule in itertools.product(trees, proposals, verifiers):
    if rule in CHAINS_ALONE and not shapes.is_chain(tree):
      continue
    if tree not in table.tokens_per_second or proposal != PROPOSAL:
      raise _no_speed(tree if proposal == PROPOSAL else proposal)
    printed = table.tokens_per_second[tree]
    own = {one: getattr(printed, one).mean for one in paper.VERIFIERS}
    if rule not in own:
      other[rule] = None
    found.append(own.get(rule, min(own.values())))
  if not found:
    raise ValueError("there is nothing to decode")
  return found, [*other]


@once
def _turns(
  source: str, tasks: tuple[str, ...], per_task: int
) -> tuple[list[int], bool]:
  """How many turns each question has, and whether that is as published."""
  found, published = _questions(source)
  found = questions_lib.select(found, tasks)
  found = questions_lib.limit(found, per_task=per_task or None)
  return [len(one.turns) for one in found], published


@once
def _questions(source: str) -> tuple:
  """The questions, or those of Spec-Bench as they are published."""
  kind, colon, path = source.partition(":")
  if kind != "spec_bench" or not colon:
    return questions_lib.load_questions(source), False
  if os.path.exists(os.path.expanduser(path)):
    return questions_lib.load_spec_bench(path), False
  found = []
  for category, count in questions_lib.SPEC_BENCH.items():
    ours = category in questions_lib.MT_BENCH
    one = {"category": category, "turns": ("",) * (1 + ours), "references": ()}
    found += [
      questions_lib.Question(question_id=0, mt_bench=ours, **one)
    ] * count
  return found, True
