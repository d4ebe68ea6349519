"""Tokens and laws as they are printed: token 0 is a, 1 is b, and so on."""

import itertools
from collections.abc import Iterator

import numpy as np

from tv_jax.proposals import INVALID


def name(token) -> str:
  """Names a token."""
  if token == INVALID:
    return "INVALID"
  return chr(ord("a") + token) if token < 26 else f"<{token}>"


def word(path) -> str:
  """Writes tokens in a row."""
  return repr("".join(name(int(token)) for token in path))


def siblings(drawn) -> str:
  """Writes tokens that were drawn one after the other."""
  return f"({', '.join(name(int(token)) for token in drawn)})"


def row(law) -> str:
  """Writes a law; of a long one, what is not 0."""
  if len(law) > 8:
    some = np.flatnonzero(law)
    return "{" + ", ".join(f"{name(t)}: {law[t]:.6g}" for t in some) + "}"
  return numbers(law)


def numbers(values) -> str:
  """Writes numbers in a row."""
  return "[" + " ".join(f"{x:.6g}" for x in values) + "]"


def paths(V: int, length: int, worst) -> Iterator[tuple[int, ...]]:
  """Yields all shorter texts, or if they are many, those that begin `worst`."""
  few = V ** (length - 1) <= 32
  for size in range(length):
    every = itertools.product(range(V), repeat=size)
    yield from every if few else [tuple(worst[:size])]


def laws(path, p, q) -> str:
  """Writes both laws after some tokens."""
  return f"  after {word(path):6} p = {row(p)}   q = {row(q)}"


def begins(path, chance: float, wanted: float) -> str:
  """Writes how much too likely or unlikely an output's first tokens are."""
  return (
    f"  the output begins {word(path)} with probability {chance:.9g}, under the"
    f" target {wanted:.9g}: {chance - wanted:+.2g}"
  )


def table(rows) -> str:
  """Writes rows of texts, of which the first is the heading, in columns."""
  rows = [*map(tuple, rows)]
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  rows.insert(1, tuple("-" * width for width in widths))
  return "\n".join(
    "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows
  )
