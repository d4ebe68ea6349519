"""Prints trees, tokens and laws: token 0 is a, 1 is b, and so on."""

import itertools
from collections.abc import Iterator

import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import Tree


def name(token) -> str:
  """Names a token."""
  if token == INVALID:
    return "INVALID"
  return chr(ord("a") + token) if token < 26 else f"<{token}>"


def word(path) -> str:
  """Writes a path of tokens as a word."""
  return repr("".join(name(int(token)) for token in path))


def tree(tree: Tree) -> str:
  """Writes a tree, as `tree.parse` reads it if it is small."""
  if len(tree) > 12:
    return repr(tree)
  return f"tree parents:{','.join(map(str, tree.parents[1:]))}"


def siblings(drawn) -> str:
  """Writes siblings, in the order of their draws."""
  return f"({', '.join(name(int(token)) for token in drawn)})"


def row(law) -> str:
  """Writes a law; only the nonzero entries if it is long."""
  if len(law) > 8:
    some = np.flatnonzero(law)
    return "{" + ", ".join(f"{name(t)}: {law[t]:.6g}" for t in some) + "}"
  return "[" + " ".join(f"{x:.6g}" for x in law) + "]"


def paths(V: int, length: int, worst) -> Iterator[tuple[int, ...]]:
  """Yields all paths shorter than `length`, or prefixes of `worst` if many."""
  few = V ** (length - 1) <= 32
  for size in range(length):
    every = itertools.product(range(V), repeat=size)
    yield from every if few else [tuple(worst[:size])]


def laws(path, p, q) -> str:
  """Writes the target's and the draft's law after a path."""
  return f"  after {word(path):6} p = {row(p)}   q = {row(q)}"


def begins(path, chance: float, wanted: float) -> str:
  """Writes how much too likely or unlikely an output's first tokens are."""
  return (
    f"  the output begins {word(path)} with probability {chance:.9g}, under the"
    f" target {wanted:.9g}: {chance - wanted:+.2g}"
  )
