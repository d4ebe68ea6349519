"""Lines of a store as records."""

import dataclasses

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
