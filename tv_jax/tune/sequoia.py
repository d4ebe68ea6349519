"""What Sequoia takes nodes to be worth, to compare with.

Chen et al. (2024), section 3.1: a child of rank j is accepted with a chance of
its own, wherever it hangs, and a node is worth the product along its path.
"""

import numpy as np

from tv_jax.tree import Tree


def worth(tree: Tree, mean: np.ndarray) -> np.ndarray:
  """[N] by that model, its chances of each rank taken from W [N] itself."""
  nodes = np.arange(1, len(tree))
  above, rank = tree.parent[nodes], tree.rank[nodes]
  tried = np.bincount(rank, weights=mean[above])
  taken = np.bincount(rank, weights=mean[nodes])
  chance = taken / np.maximum(tried, np.finfo(float).tiny)
  found = np.ones(len(tree))
  for node in nodes:
    found[node] = found[tree.parent[node]] * chance[tree.rank[node]]
  return found
