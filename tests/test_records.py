"""Lines of a store as records."""

import dataclasses

import pytest

from tests.stores import item
from tv_jax.runs.records import Answer

LINE = item(3).line


def test_a_line_is_an_answer():
  answer = Answer.of(LINE)
  assert answer == item(3)
  assert answer.line == LINE
  # Nobody decoded it: an answer that is not there has no numbers.
  failed = dataclasses.replace(answer, error="no")
  assert failed.line == answer.key.fields | {"error": "no"}
  assert Answer.of(failed.line).error == "no"


def without(*names):
  return {k: v for k, v in LINE.items() if k not in names}


@pytest.mark.parametrize(
  ("line", "told"),
  [
    ({}, "task, question, turn, tree, proposal, verifier, .* missing"),
    (without("accepted"), "question 3, .* seed 0: accepted missing"),
  ],
)
def test_what_is_no_answer_is_told(line, told):
  with pytest.raises(ValueError, match=told):
    Answer.of(line)
