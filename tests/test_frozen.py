"""Dicts to dataclasses: what is wrong is said by name, all at once."""

import dataclasses

import pytest

from tv_jax.runs import frozen


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
  names: tuple[str, ...]
  rate: float = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
  count: int
  on: bool
  title: str
  inner: Inner


RAW = {"count": 2, "on": True, "title": "x", "inner": {"names": ["a", "b"]}}


def test_a_dict_becomes_a_dataclass():
  made = frozen.build(Outer, RAW)
  assert made == Outer(
    count=2, on=True, title="x", inner=Inner(names=("a", "b"))
  )
  assert isinstance(frozen.build(Inner, {"names": (), "rate": 1}).rate, float)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"count": "2"}, "count='2' must be of type int"),
    ({"count": True}, "count=True must be of type int"),
    ({"count": 2.0}, "count=2.0 must be of type int"),
    ({"on": 1}, "on=1 must be of type bool"),
    ({"title": None}, "title=None must be of type str"),
    ({"inner": 3}, "inner=3 must be a group of fields"),
    ({"inner": {}}, "inner.names is missing"),
    ({"inner": {"names": "ab"}}, "inner.names='ab' must be a list of str"),
    ({"inner": {"names": [1]}}, "inner.names=1 must be of type str"),
    ({"cuont": 2}, "unknown field cuont"),
  ],
)
def test_what_is_wrong_is_named(change, message):
  with pytest.raises(ValueError, match="^" + message + "$"):
    frozen.build(Outer, RAW | change)


def test_all_that_is_wrong_is_named_at_once():
  with pytest.raises(ValueError, match=r"count.*on.*inner.names"):
    frozen.build(Outer, {"count": "", "on": "", "title": "", "inner": {}})
