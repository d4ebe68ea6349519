"""Files of questions."""

import collections
import json
import os

import pytest

from tv_jax.io import reading
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.questions import Question

ROW = {"question_id": 5, "category": "qa", "turns": ["What?"]}


def write(path, *rows):
  path.write_text(
    "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows)
  )
  return path


@pytest.fixture
def path(tmp_path):
  return tmp_path / "question.jsonl"


def test_all_fields(path):
  row = {"question_id": 6, "category": "writing", "turns": ["a", "b\u2028c"]}
  write(path, ROW, row | {"reference": ["x", ["y", "z"]], "more": 1})
  assert questions_lib.load_questions(path) == (
    Question(question_id=5, category="qa", turns=("What?",), references=()),
    Question(
      question_id=6,
      category="writing",
      turns=("a", "b\u2028c"),
      references=(("x",), ("y", "z")),
    ),
  )


def tasks(path, *rows):
  return [one.task for one in questions_lib.load_questions(write(path, *rows))]


def test_a_file_like_spec_bench_s_has_its_six_tasks(path):
  """Its numbers and its path do not matter."""
  path.write_bytes((reading.BUNDLED / "minibench.jsonl").read_bytes())
  for source in (path, "minibench"):
    questions = questions_lib.load_questions(source)
    assert collections.Counter(question.task for question in questions) == {
      "mt_bench": 16,
      **dict.fromkeys(questions_lib.OTHERS, 16),
    }
  rows = made_up(questions_lib.SPEC_BENCH)
  assert "mt_bench" in tasks(path, *rows)
  rows.append(ROW | {"question_id": 999, "category": "multilingual"})
  assert "mt_bench" not in tasks(path, *rows)


def ask(path, *rows):
  """Returns the fields that differ between rows."""
  return [
    (one.question_id, one.category, one.turns)
    for one in questions_lib.load_questions(write(path, *rows))
  ]


def test_what_is_missing_is_the_line_s_number_and_the_file_s_name(tmp_path):
  path = tmp_path / "gsm8k.jsonl"
  assert ask(path, {"turns": ["a", "b"]}, "", {"prompt": "c"}) == [
    (1, "gsm8k", ("a", "b")),
    (3, "gsm8k", ("c",)),
  ]
  with pytest.raises(ValueError, match="line 2: question_id 5 is there twice"):
    ask(path, ROW, ROW)
  with pytest.raises(ValueError, match="is a number here and a text there"):
    ask(path, ROW | {"question_id": "a"}, ROW)


@pytest.mark.parametrize(
  "second",
  [
    '{"question_id": 6, "cat',
    {"prompt": ["a", 3]},
    {"question_id": 6, "turns": "What?"},
    {"question_id": 6, "turns": 5},
    {"question_id": 6, "turns": {"user": "What?"}},
    ROW | {"question_id": 6, "reference": "x"},
  ],
)
def test_a_wrong_line_is_named(path, second):
  write(path, ROW, second)
  with pytest.raises(ValueError, match=f"{path}, line 2"):
    questions_lib.load_questions(path)


def made_up(counts):
  return [
    ROW | {"question_id": i, "category": category}
    for i, category in enumerate(
      name for name, count in counts.items() for _ in range(count)
    )
  ]


def test_spec_bench_is_counted(path):
  write(path, *made_up(questions_lib.SPEC_BENCH))
  assert len(questions_lib.load_questions(f"spec_bench:{path}")) == 480
  write(path, *made_up(questions_lib.SPEC_BENCH | {"qa": 79, "poems": 1}))
  with pytest.raises(ValueError, match=r"it has \{.*'qa': 79"):
    questions_lib.load_questions(f"spec_bench:{path}")


@pytest.mark.spec_bench
def test_spec_bench():
  path = os.environ["SPEC_BENCH_QUESTIONS"]
  questions = questions_lib.load_questions(f"spec_bench:{path}")
  assert [question.question_id for question in questions] == list(
    range(81, 561)
  )
  assert sum(bool(question.references) for question in questions) == 359
  assert {
    len(question.turns) for question in questions if question.task == "mt_bench"
  } == {2}


def test_an_answer_is_right_by_its_last_line():
  assert questions_lib.is_right("6 times 7 is\n42\n", "So:\n42")
  assert not questions_lib.is_right("42\nor so", "42")
