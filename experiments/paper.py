"""The numbers that the paper prints, to put beside one's own.

"Traversal Verification for Speculative Tree Decoding", arXiv 2505.12398. Every
number is as printed, so a delta is the paper's own and not made from the
rounded cells beside it. Each result is the average of three runs; acceptance
lengths are means over items (STATISTICS has both ways), errors are standard
errors, and speeds are of one RTX A6000.
"""

from typing import NamedTuple

# By our names, in the paper's order.
TASKS = (
  "mt_bench",
  "translation",
  "summarization",
  "qa",
  "math_reasoning",
  "rag",
)
TREES = ("chain:5", "kary:2x5", "eagle")
VERIFIERS = ("token_level", "traversal")


class Cell(NamedTuple):
  """A result of one verifier."""

  mean: float
  error: float


class Comparison(NamedTuple):
  """Both verifiers on one tree."""

  token_level: Cell
  traversal: Cell
  delta: float  # of traversal against token_level, in percent


class MainTable(NamedTuple):
  """A main table: temperature 1, one pair of models."""

  label: str  # in the paper's source
  target: str
  draft: str
  plain: Cell  # tokens per second of plain decoding
  acceptance: dict[str, dict[str, Comparison]]  # by task and tree
  average_acceptance: dict[str, Comparison]  # by tree
  tokens_per_second: dict[str, Comparison]  # by tree


class Statistics(NamedTuple):
  """One verifier on one tree, with acceptance lengths averaged in two ways."""

  by_token: float  # Spec-Bench's way: over all cycles of all items
  by_item: float  # the paper's way: for each item first
  speedup: float  # against plain decoding


def _comparison(token_level, error, traversal, other_error, delta):
  return Comparison(
    Cell(token_level, error), Cell(traversal, other_error), delta
  )


def _row(*comparisons):
  """A row of a table, by tree."""
  pairs = zip(TREES, comparisons, strict=True)
  return {tree: _comparison(*numbers) for tree, numbers in pairs}


# token_level +-, traversal +-, delta: for the chain, the binary tree, EAGLE's.
LLAMA3 = MainTable(
  label="main_table_llama3",
  target="Llama-3.1-8B-Instruct",
  draft="Llama-3.2-1B-Instruct",
  plain=Cell(34.5, 0.1),
  acceptance={
    "mt_bench": _row(
      (3.95, 0.03, 4.09, 0.03, 3.5),
      (4.64, 0.05, 4.76, 0.04, 2.6),
      (4.53, 0.02, 4.67, 0.02, 3.1),
    ),
    "translation": _row(
      (3.50, 0.02, 3.53, 0.04, 1.0),
      (4.28, 0.02, 4.43, 0.03, 3.4),
      (4.16, 0.04, 4.27, 0.03, 2.6),
    ),
    "summarization": _row(
      (3.66, 0.02, 3.76, 0.03, 2.6),
      (4.51, 0.02, 4.64, 0.02, 2.7),
      (4.32, 0.03, 4.46, 0.03, 3.1),
    ),
    "qa": _row(
      (3.51, 0.02, 3.68, 0.03, 4.7),
      (4.32, 0.05, 4.40, 0.04, 2.0),
      (4.19, 0.05, 4.31, 0.06, 2.9),
    ),
    "math_reasoning": _row(
      (4.61, 0.05, 4.70, 0.03, 1.8),
      (5.37, 0.03, 5.39, 0.05, 0.4),
      (5.13, 0.01, 5.21, 0.02, 1.5),
    ),
    "rag": _row(
      (4.05, 0.04, 4.17, 0.05, 3.1),
      (4.63, 0.02, 4.76, 0.06, 2.8),
      (4.60, 0.03, 4.68, 0.04, 1.7),
    ),
  },
  average_acceptance=_row(
    (3.88, 0.02, 3.99, 0.01, 2.8),
    (4.63, 0.03, 4.73, 0.01, 2.2),
    (4.49, 0.02, 4.60, 0.02, 2.4),
  ),
  tokens_per_second=_row(
    (51.2, 1.2, 52.5, 1.1, 2.5),
    (54.0, 0.6, 54.9, 1.2, 1.7),
    (57.3, 1.3, 58.5, 0.8, 2.1),
  ),
)

LLAMA2 = MainTable(
  label="main_table_llama2",
  target="Llama-2-7B",
  draft="Llama-68M",
  plain=Cell(37.3, 0.1),
  acceptance={
    "mt_bench": _row(
      (2.05, 0.05, 2.16, 0.03, 5.5),
      (2.47, 0.01, 2.59, 0.01, 4.7),
      (2.55, 0.02, 2.70, 0.02, 5.6),
    ),
    "translation": _row(
      (1.97, 0.05, 2.10, 0.05, 6.3),
      (2.38, 0.01, 2.43, 0.03, 2.1),
      (2.49, 0.01, 2.51, 0.03, 0.9),
    ),
    "summarization": _row(
      (1.77, 0.04, 1.86, 0.05, 4.9),
      (2.14, 0.01, 2.27, 0.03, 5.8),
      (2.25, 0.02, 2.36, 0.02, 4.7),
    ),
    "qa": _row(
      (2.07, 0.01, 2.19, 0.02, 5.6),
      (2.59, 0.05, 2.71, 0.01, 4.8),
      (2.63, 0.02, 2.69, 0.02, 2.2),
    ),
    "math_reasoning": _row(
      (2.01, 0.05, 2.15, 0.04, 7.0),
      (2.49, 0.05, 2.67, 0.06, 7.0),
      (2.57, 0.02, 2.72, 0.01, 6.0),
    ),
    "rag": _row(
      (2.09, 0.05, 2.19, 0.03, 4.8),
      (2.56, 0.05, 2.69, 0.05, 5.0),
      (2.63, 0.02, 2.71, 0.06, 3.2),
    ),
  },
  average_acceptance=_row(
    (1.99, 0.01, 2.10, 0.01, 5.7),
    (2.44, 0.03, 2.56, 0.01, 4.9),
    (2.52, 0.01, 2.62, 0.01, 3.8),
  ),
  tokens_per_second=_row(
    (58.0, 0.7, 60.8, 0.8, 4.8),
    (59.4, 0.8, 61.6, 0.6, 3.7),
    (69.1, 0.9, 71.2, 1.0, 3.0),
  ),
)

# Acceptance lengths over all tasks, by temperature and tree: the Llama 3 pair.
TEMPERATURES = {
  0.2: _row(
    (4.16, 0.01, 4.20, 0.01, 1.0),
    (5.01, 0.02, 5.07, 0.02, 1.2),
    (4.77, 0.03, 4.84, 0.01, 1.5),
  ),
  0.4: _row(
    (4.14, 0.02, 4.20, 0.02, 1.4),
    (5.00, 0.01, 5.06, 0.01, 1.2),
    (4.76, 0.02, 4.83, 0.02, 1.5),
  ),
  0.6: _row(
    (4.11, 0.02, 4.17, 0.03, 1.5),
    (4.92, 0.03, 5.00, 0.01, 1.5),
    (4.71, 0.01, 4.78, 0.01, 1.5),
  ),
  0.8: _row(
    (4.02, 0.02, 4.11, 0.01, 2.2),
    (4.81, 0.02, 4.90, 0.02, 1.7),
    (4.64, 0.02, 4.72, 0.01, 1.7),
  ),
  1.0: _row(
    (3.88, 0.02, 3.99, 0.01, 2.8),
    (4.63, 0.03, 4.73, 0.01, 2.2),
    (4.49, 0.02, 4.60, 0.02, 2.4),
  ),
}

# Vicuna-7B-v1.3 with its EAGLE head, by tree and verifier.
STATISTICS = {
  "chain:5": {
    "token_level": Statistics(by_token=2.57, by_item=2.51, speedup=1.77),
    "traversal": Statistics(by_token=2.63, by_item=2.57, speedup=1.81),
  },
  "kary:2x5": {
    "token_level": Statistics(by_token=3.11, by_item=3.04, speedup=1.87),
    "traversal": Statistics(by_token=3.22, by_item=3.12, speedup=1.92),
  },
  "eagle": {
    "token_level": Statistics(by_token=3.18, by_item=3.10, speedup=2.00),
    "traversal": Statistics(by_token=3.26, by_item=3.16, speedup=2.04),
  },
}

# What a judge (Gemini-2.5-Flash) gives the Llama 3 pair's answers to MT-Bench,
# of 10; by tree and verifier, and for plain decoding.
QUALITY = {
  "chain:5": {"token_level": 6.78, "traversal": 6.77},
  "kary:2x5": {"token_level": 6.69, "traversal": 6.74},
  "eagle": {"token_level": 6.76, "traversal": 6.79},
}
PLAIN_QUALITY = 6.72
