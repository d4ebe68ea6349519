"""Values from outside: taken in the form that is used, or each named."""

import dataclasses
import math
import re

import numpy as np
import pytest

from tv_jax.edge import checks


@dataclasses.dataclass(frozen=True)
class Inner:
  rate: float
  names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Outer:
  inner: Inner
  count: int
  limit: int | None = None


def test_a_dataclass_is_built_of_an_object():
  raw = {"inner": {"rate": 1, "names": ["a"]}, "count": 2}
  assert checks.read(checks.build(Outer), raw) == Outer(Inner(1.0, ("a",)), 2)


@pytest.mark.parametrize(
  ("raw", "line"),
  [
    (
      {"inner": {"rate": "x"}, "count": True, "more": 1},
      "unknown field more; inner.rate='x': give a number; count=True: give an"
      " integer",
    ),
    ({"inner": 3}, "inner=3: give an object with fields; count is missing"),
    (3, "3: give an object with fields"),
    (
      {"inner": {"rate": 1, "names": "ab"}, "count": 1, "limit": "x"},
      "inner.names='ab': give a list; limit='x': give an integer",
    ),
  ],
)
def test_all_that_is_wrong_is_named(raw, line):
  with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
    checks.read(checks.build(Outer), raw)


@pytest.mark.parametrize(
  ("check", "right", "wrong"),
  [
    (checks.integer(1, 3), [1, 3, np.int32(2)], [0, 4, 1.0, True, "1", None]),
    (checks.number(above=0, most=1), [1, 0.5], [0, 2, math.nan, True, "1"]),
    (checks.number(), [-1e300], [math.inf, None, 10**400]),
    (checks.boolean, [True, np.False_], [0, 1, "true"]),
    (checks.either(checks.integer(), checks.text), [1, "a"], [1.0, None]),
    (checks.optional(checks.text), [None, "a"], [1]),
    (checks.mapping_of(checks.integer()), [{}, {"a": 1}], [[], {"a": "1"}]),
  ],
)
def test_limits_are_kept(check, right, wrong):
  for value in right:
    assert checks.read(check, value) == value
  for value in wrong:
    with pytest.raises(ValueError, match="give"):
      checks.read(check, value, "x")


def test_of_many_faults_a_few_are_named():
  raw = [str(i) for i in range(20)]
  with pytest.raises(ValueError, match=r"; and 17 more$"):
    checks.read(checks.list_of(checks.integer()), raw, "x", most=3)
