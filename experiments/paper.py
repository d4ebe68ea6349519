"""The numbers that the paper prints, to put beside one's own.

"Traversal Verification for Speculative Tree Decoding", arXiv 2505.12398. Every
number is as printed: a delta is the paper's own, not made from the rounded
cells beside it. Each result is the average of three runs; acceptance lengths
are means over items (STATISTICS has both ways), errors are standard errors, and
speeds are of one RTX A6000. The comparisons of both rules are in paper.csv.
"""

import csv
import pathlib
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


def _read() -> dict[str, dict[str, dict[str, Comparison]]]:
  """Reads paper.csv: by table, row and tree."""
  tables = {}
  path = pathlib.Path(__file__).with_suffix(".csv")
  with path.open(encoding="utf-8") as file:
    _, *lines = csv.reader(file)
  for table, row, tree, *numbers in lines:
    a, b, c, d, delta = map(float, numbers)
    found = Comparison(Cell(a, b), Cell(c, d), delta)
    tables.setdefault(table, {}).setdefault(row, {})[tree] = found
  return tables


def _main_table(label, target, draft, plain) -> MainTable:
  rows = dict(_TABLES[label])
  average, speed = rows.pop("average"), rows.pop("tokens_per_second")
  return MainTable(label, target, draft, plain, rows, average, speed)


_TABLES = _read()
LLAMA3 = _main_table(
  "main_table_llama3",
  "Llama-3.1-8B-Instruct",
  "Llama-3.2-1B-Instruct",
  Cell(34.5, 0.1),
)
LLAMA2 = _main_table(
  "main_table_llama2", "Llama-2-7B", "Llama-68M", Cell(37.3, 0.1)
)

# Acceptance lengths over all tasks, by temperature and tree: the Llama 3 pair.
TEMPERATURES = {float(hot): row for hot, row in _TABLES["temperature"].items()}

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
