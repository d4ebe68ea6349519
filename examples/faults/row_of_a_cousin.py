"""Judges some families of a tree by another node's law.

TensorRT-LLM's first rejection sampling for dynamic trees read "incorrect
logits slice for verification"; the report says no more, and not which. Here
it is the row before the first child's, which is the parent's on every chain,
so that chains pass all tests.
"""

from examples.faults import common

SYSTEM = "TensorRT-LLM"
REPORT = "https://github.com/NVIDIA/TensorRT-LLM/pull/15098"


def faulty(tree, tokens, q, p, rng):
  """Take the row before the first child for its parent's."""
  rows = list(p)
  for node in range(len(p)):
    if family := common.children(tree, node):
      rows[node] = p[family[0] - 1]
  return common.walk(tree, tokens, rows, q, rng, last=p)


def fixed(tree, tokens, q, p, rng):
  """Take each parent's own row."""
  return common.walk(tree, tokens, p, q, rng, last=p)
