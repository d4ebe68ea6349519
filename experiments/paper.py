"""The paper's printed numbers, for comparison with measured numbers.

"Traversal Verification for Speculative Tree Decoding", arXiv 2505.12398. Every
number of paper.csv is as printed, deltas included: they are not computed from
the rounded cells. All numbers are averages of three runs. Acceptance lengths
are means over items, errors are standard errors, and speeds were measured on a
single RTX A6000.
"""

import pathlib
import re
from typing import Any, NamedTuple

import pandas as pd

# Our names, in the paper's order.
TREES = ("chain:5", "kary:2x5", "eagle")
VERIFIERS = ("token_level", "traversal")
PROPOSAL = "without_replacement"


class PaperPair(NamedTuple):
  """A pair of models, and its table."""

  table: str  # as in paper.csv: its label in the paper's source
  target: str
  draft: str


LLAMA3 = PaperPair(
  "main_table_llama3", "Llama-3.1-8B-Instruct", "Llama-3.2-1B-Instruct"
)
LLAMA2 = PaperPair("main_table_llama2", "Llama-2-7B", "Llama-68M")
VICUNA = PaperPair("statistics", "Vicuna-7B-v1.3", "EAGLE-Vicuna-7B-v1.3")


# By table, row and tree: each rule's mean, its standard error in the column
# RULE_se, and the delta in percent; NaN where nothing is printed.
TABLES = pd.read_csv(
  pathlib.Path(__file__).with_suffix(".csv"),
  dtype={"row": str},
  index_col=["table", "row", "tree"],
)


def closest(models: dict) -> PaperPair | None:
  """Returns the pair that is closest to a config's models.

  None for a kind of draft that the paper does not use, such as EAGLE-3.
  """
  target, draft = models["target"].lower(), models["draft"].lower()
  if re.search("eagle-?3|dspark|dflash", draft):
    return None
  if "eagle" in draft:
    return VICUNA
  return LLAMA2 if "llama-2" in target or "weak" in draft else LLAMA3


def lengths(
  pair: PaperPair, tree: str, temperature: float, row: str = "average"
) -> pd.Series | None:
  """Returns the printed result of a pair on a tree: a row of `TABLES`, or None.

  Args:
    pair: The models.
    tree: Our name of the tree.
    temperature: The target's temperature; other rows than the average exist at
      temperature 1 only.
    row: A task, or "average", "by_token", "tokens_per_second" or "speedup".
  """
  table = pair.table
  if temperature != 1:
    if pair != LLAMA3 or row != "average":
      return None
    table, row = "temperature", f"{temperature}"
  place: Any = (table, row, tree)
  return TABLES.loc[place] if place in TABLES.index else None
