"""The test of whole outputs on a run's answers: each rule against plain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from experiments import two_samples
from experiments.experiment import Group
from tv_jax.runs.records import Answer, Method
from tv_jax.runs.report.tables import NOTHING, Table

DEFINITION = (
  "Outputs: answers to the first turns of all questions, by each rule and by"
  " plain decoding, several of each question, of seeds of their own. Distance:"
  " the maximum mean discrepancy of runs of 1 to"
  f" {two_samples.LONGEST} tokens, unbiased, mean over questions. Chance: of"
  " such a distance or a larger one if both wrote one law, by"
  f" {two_samples.SHUFFLES} shuffles of the labels within questions."
)
# Below it, one would say that the laws differ, were there one test alone.
SMALL = 0.01


class Tested(NamedTuple):
  """The tests of a group: a table, it in words, and by method."""

  table: Table
  reading: list[str]
  found: dict[Method, two_samples.Found]


def tested(group: Group) -> Tested:
  """All drafting methods of a group, each against plain decoding."""
  found = {
    method: one
    for method in methods(group.answers)
    if (one := test(group.answers, method))
  }
  rows = [
    [
      method.verifier,
      method.tree,
      f"{method.temperature:g}",
      f"{one.distance:+.5f}",
      f"{one.chance:.3f}",
      str(one.questions),
      str(one.answers),
    ]
    for method, one in found.items()
  ]
  header = ["rule", "tree", "temperature", "distance", "chance"]
  header += ["questions", "answers"]
  reading = []
  if found:
    least = min(one.chance for one in found.values())
    # Whatever they have in common: Bonferroni.
    bound = min(1.0, least * len(found))
    reading = [
      f"whole outputs of {len(found)} methods against plain decoding: the"
      f" smallest chance is {least:.3f}, and that any is so small has a chance"
      f" of {bound:.2f} at most if none differs."
    ]
  nothing = [[NOTHING] * len(header)]  # too few seeds
  title = f"{group.name}: whole outputs against plain decoding"
  return Tested(Table(title, [], header, rows or nothing), reading, found)


def methods(answers: Iterable[Answer]) -> list[Method]:
  """The drafting methods, seeds pooled, in the order in which they come."""
  found = (a.method.pooled("seed") for a in answers if not a.method.plain)
  return [*dict.fromkeys(found)]


def test(answers: Iterable[Answer], method) -> two_samples.Found | None:
  """A method against plain decoding.

  Draws of one seed are not independent: of the seeds in rising order every
  other one is the method's, and the rest are plain decoding's.
  """
  answers = [a for a in answers if a.error is None and a.turn == 0]
  seeds = sorted({answer.method.seed for answer in answers})
  kinds = (method, seeds[::2]), (method.undrafted, seeds[1::2])
  return two_samples.compare(
    *(_by_question(answers, kind, set(own)) for kind, own in kinds)
  )


def _by_question(answers, method, seeds) -> two_samples.Sample:
  found: dict[int | str, list] = {}
  for answer in answers:
    own = answer.method
    if own.seed in seeds and own.pooled("seed") == method:
      found.setdefault(answer.question, []).append(answer.tokens)
  return found
