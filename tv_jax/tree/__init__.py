"""Draft trees: static trees, and trees that take shape while drafted."""

from tv_jax.tree.adaptive import Adaptive, drop_empty_places
from tv_jax.tree.naming import parse, resolve
from tv_jax.tree.shapes import (
  EAGLE_SPARSE,
  branching,
  chain,
  from_parents,
  from_paths,
  grown,
  kary,
)
from tv_jax.tree.static import (
  NO_CHILD,
  NO_PARENT,
  ROOT,
  Topology,
  Tree,
  check_size,
)

__all__ = [
  "EAGLE_SPARSE",
  "NO_CHILD",
  "NO_PARENT",
  "ROOT",
  "Adaptive",
  "Topology",
  "Tree",
  "branching",
  "chain",
  "check_size",
  "drop_empty_places",
  "from_parents",
  "from_paths",
  "grown",
  "kary",
  "parse",
  "resolve",
]
