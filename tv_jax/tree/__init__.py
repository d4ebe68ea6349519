"""Draft trees, known when a program is compiled."""

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
  Tree,
  check_size,
  to_all_nodes,
)

__all__ = [
  "EAGLE_SPARSE",
  "NO_CHILD",
  "NO_PARENT",
  "ROOT",
  "Tree",
  "branching",
  "chain",
  "check_size",
  "from_parents",
  "from_paths",
  "grown",
  "kary",
  "parse",
  "resolve",
  "to_all_nodes",
]
