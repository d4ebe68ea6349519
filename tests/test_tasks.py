"""Conversations whose answers are right, and MiniBench apart from training."""

import random
import re

import pytest

from bundled import tasks, tokens
from bundled.tasks import conversation, words
from tv_jax.edge import reading
from tv_jax.runs import questions as questions_lib

SOME = 400


@pytest.fixture(scope="module")
def training():
  return {
    task: [
      tasks.generate(task, rng)
      for rng in [random.Random(f"test/{task}")]
      for _ in range(SOME)
    ]
    for task in tasks.TASKS
  }


@pytest.mark.parametrize("task", tasks.TASKS)
def test_every_answer_scores_and_no_alternative_is_left(training, task):
  for one in training[task]:
    assert len(one.turns) == len(one.answers) == len(one.references)
    assert len(one.turns) == (2 if task == "mt_bench" else 1)
    for answer, reference in zip(one.answers, one.references, strict=True):
      assert questions_lib.score(answer, reference)


def test_sums_are_right(training):
  for one in training["math_reasoning"]:
    for a, sign, b, result in re.findall(
      r"(\w+) (plus|minus|times) (\w+),? (?:which |that )?\w+ (\w+)",
      one.answers[0].lower(),
    ):
      a, b, result = map(words.NUMBERS.index, (a, b, result))
      sums = {"plus": a + b, "minus": a - b, "times": a * b}
      assert result == sums[sign]
    assert one.references[0] == words.NUMBERS[result]


@pytest.mark.parametrize("name", ["minibench", "tuning"])
def test_what_is_bundled_is_what_the_generator_makes(name):
  text = (reading.BUNDLED / f"{name}.jsonl").read_text(encoding="utf-8")
  assert text == tasks.lines(getattr(tasks, name)())


def test_training_tuning_and_minibench_share_no_question(training):
  """By construction: the side is a function of the facts alone."""
  sides = {
    "training": [one for some in training.values() for one in some],
    "tuning": tasks.tuning(),
    "minibench": tasks.minibench(),
  }
  for name, side in sides.items():
    assert {*map(conversation.held_out, side)} == {name != "training"}
  turns = [{one.turns[0] for one in side} for side in sides.values()]
  assert len(set.union(*turns)) == sum(map(len, turns))
  facts = [
    {(one.category, one.facts) for one in sides[name]}
    for name in ("tuning", "minibench")
  ]
  assert [*map(len, facts)] == [192, 96]
  assert facts[0].isdisjoint(facts[1])


def test_python_is_apart_from_what_was_trained_on():
  questions = questions_lib.load_questions("python")
  assert len(questions) == 24
  seen = tokens.read_source(4_000_000)
  assert not [one for one in questions if one.turns[0] in seen]
