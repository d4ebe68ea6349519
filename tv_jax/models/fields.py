"""Fields of a config.json, each of the kind that it must be.

A missing field is None: whether it may be missing is for the caller to say.
A wrong one is None too, and adds a line to `faults`.
"""

from __future__ import annotations

from tv_jax.edge.reading import brief

# What an axis of an array can have, and what float32 can hold.
MOST = 2**31 - 1
LARGEST = 1e38


def _is_integer(value) -> bool:
  # True is an int, but hardly ever meant as one.
  return isinstance(value, int) and not isinstance(value, bool)


def count(
  raw: dict, name: str, faults: list[str], most: int = MOST, *, least: int = 1
) -> int | None:
  """An integer from `least` to `most`."""
  value = raw.get(name)
  if value is None or (_is_integer(value) and least <= value <= most):
    return value
  faults.append(
    f"{name}={brief(value)} must be an integer from {least} to {most}"
  )
  return None


def number(raw: dict, name: str, faults: list[str]) -> float | None:
  """A positive number that float32 can hold."""
  value = raw.get(name)
  if value is None:
    return None
  known = _is_integer(value) or isinstance(value, float)
  # Below its inverse float32 has fewer digits, or none.
  if known and 1 / LARGEST < value < LARGEST:
    return float(value)
  faults.append(f"{name}={brief(value)} must be a positive number")
  return None


def flag(raw: dict, name: str, faults: list[str], default: bool) -> bool:
  """True or false."""
  value = raw.get(name)
  if value is None or isinstance(value, bool):
    return default if value is None else value
  faults.append(f"{name}={brief(value)} must be true or false")
  return default


def token(raw: dict, name: str, faults: list[str], vocabulary: int | None):
  """A token of the vocabulary."""
  return next(iter(tokens(raw, name, faults, vocabulary, several=False)), None)


def tokens(
  raw: dict,
  name: str,
  faults: list[str],
  vocabulary: int | None,
  *,
  several: bool = True,
) -> tuple[int, ...]:
  """A token of the vocabulary, or a list of them; none if it is missing."""
  value = raw.get(name)
  if value is None:
    return ()
  found = value if several and isinstance(value, list) else [value]
  end = MOST if vocabulary is None else vocabulary
  if all(_is_integer(one) and 0 <= one < end for one in found):
    return tuple(found)
  what = "a token, or a list of tokens" if several else "a token"
  faults.append(
    f"{name}={brief(value)} must be {what}: integers from 0 to {end - 1}"
  )
  return ()


def group(raw: dict, name: str, faults: list[str]) -> dict:
  """An object of fields; empty if it is missing."""
  value = raw.get(name)
  if value is None or isinstance(value, dict):
    return dict(value or {})
  faults.append(f"{name}={brief(value)} must be an object")
  return {}
