"""Prints trees, tokens and laws: token 0 is a, 1 is b, and so on."""

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
