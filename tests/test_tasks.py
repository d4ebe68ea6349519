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
  """Conversations of the training side, by task."""
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
    assert not set("[]{}|<>") & set("".join(one.turns + one.answers))
    if one.category in ("rag", "extraction", "reasoning"):
      assert all(reference in one.turns[0] for reference in one.references)


def test_sums_are_right(training):
  count = 0
  for one in training["math_reasoning"]:
    for a, sign, b, result in re.findall(
      r"(\w+) (plus|minus|times) (\w+),? (?:which |that )?\w+ (\w+)",
      one.answers[0].lower(),
    ):
      a, b, result = map(words.NUMBERS.index, (a, b, result))
      sums = {"plus": a + b, "minus": a - b, "times": a * b}
      assert result == sums[sign]
      assert 0 < result <= 16
      count += 1
    assert one.references[0] == words.NUMBERS[result]
  assert count == 2 * SOME


@pytest.mark.parametrize(
  ("answer", "reference", "right"),
  [
    ("So 3 + 4 = 7.\nAnswer: 7", "7", True),
    ("So 3 + 4 = 7.\nAnswer: 7.\n\n", "7", True),
    ("Answer: 17", "7", False),
    ("7\nAnswer: 8", "7", False),
    ("German: Der HUND  schläft.", "Der Hund schläft", True),
    ("Der Hund schläft heute.", "Der Hund schläft", False),
    ("", "7", False),
    ("\n", "7", False),
  ],
)
def test_score(answer, reference, right):
  assert questions_lib.score(answer, reference) == right


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


def test_minibench_has_sixteen_questions_of_each_task():
  questions = questions_lib.load_questions("minibench")
  assert [question.question_id for question in questions] == list(range(1, 97))
  for task in tasks.TASKS:
    chosen = [question for question in questions if question.task == task]
    assert len(chosen) == 16
    for question in chosen:
      assert len(question.references) == len(question.turns)
      assert len(question.turns) == (2 if task == "mt_bench" else 1)


def test_python_is_apart_from_the_six_tasks():
  questions = questions_lib.load_questions("python")
  assert len(questions) == 24
  seen = tokens.read_source(4_000_000)
  for question in questions:
    assert question.task == "python"
    assert question.task not in tasks.TASKS
    assert question.references == ()
    (turn,) = question.turns
    assert turn.startswith("def ")
    assert turn not in seen
    assert not turn.endswith("\n")
