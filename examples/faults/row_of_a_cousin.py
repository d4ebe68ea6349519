"""Verifies some families of a tree by another node's law.

TensorRT-LLM's first rejection sampling for dynamic trees read an "incorrect
logits slice for verification". The report does not say which slice. Our program
reads the row before the first child's. In a chain this is the parent's row, so
chains pass all tests.
"""

from examples.faults import common

SYSTEM = "TensorRT-LLM"
REPORT = "https://github.com/NVIDIA/TensorRT-LLM/pull/15098"


def faulty(tree, tokens, q, p, rng):
  """Use the row before the first child's instead of the parent's."""
  rows = list(p)
  for node in range(len(p)):
    if family := common.children(tree, node):
      rows[node] = p[family[0] - 1]
  return common.walk(tree, tokens, rows, q, rng, last=p)


def fixed(tree, tokens, q, p, rng):
  """Use each parent's row."""
  return common.walk(tree, tokens, p, q, rng, last=p)
