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
    (
      checks.number(above=0, most=1),
      [1, 0.5, np.float32(0.5), np.float16(1)],
      [0, 2, math.nan, True, "1", 10**400, np.float16(math.inf)],
    ),
    (checks.either(checks.integer(), checks.text), [1, "a"], [1.0, None]),
    (checks.optional(checks.text), [None, "a"], [1]),
  ],
)
def test_limits_are_kept(check, right, wrong):
  for value in right:
    assert checks.read(check, value) == value
  for value in wrong:
    with pytest.raises(ValueError, match="give"):
      checks.read(check, value, "x")
