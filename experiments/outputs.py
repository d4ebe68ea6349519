"""The test of whole outputs on a run's answers: each rule against plain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from experiments import two_samples
from experiments.experiment import Group
from tv_jax.records import Answer
from tv_jax.report.tables import NOTHING, Table

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
  """The table, and it in words."""

  table: Table
  reading: list[str]


def table(group: Group) -> Tested:
  """All drafting methods of a group, each against plain decoding."""
  rows, chances = [], []
  for method in methods(group.answers):
    found = test(group.answers, method)
    if found is None:
      continue
    chances.append(found.chance)
    rows.append(
      [
        method.verifier,
        method.tree,
        f"{method.temperature:g}",
        f"{found.distance:+.5f}",
        f"{found.chance:.3f}",
        str(found.questions),
        str(found.answers),
      ]
    )
  header = ["rule", "tree", "temperature", "distance", "chance"]
  header += ["questions", "answers"]
  reading = []
  if chances:
    # Of k independent chances the smallest is below x with 1 - (1 - x)^k.
    whole = 1 - (1 - min(chances)) ** len(chances)
    reading = [
      f"whole outputs of {len(chances)} methods against plain decoding: the"
      f" smallest chance is {min(chances):.3f}, and so small a one or smaller"
      f" comes with a chance of about {whole:.2f} if none differs."
    ]
  nothing = [[NOTHING] * len(header)]  # too few seeds
  title = f"{group.name}: whole outputs against plain decoding"
  return Tested(Table(title, [], header, rows or nothing), reading)


def methods(answers: Iterable[Answer]):
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
  found: dict[int, list] = {}
  for answer in answers:
    own = answer.method
    if own.seed in seeds and own.pooled("seed") == method:
      found.setdefault(answer.question, []).append(answer.tokens)
  return found
