"""The records of a run: methods of decoding, and the lines of their answers.

A line of items.jsonl is a dict. Its first fields are `KEY`, which tell answers
apart. An answer that is missing has only `error`, the reason, after them;
others have:

    tokens    the generated token ids, up to an end token or the limit
    text      the same tokens as text, without special tokens
    accepted  tokens gained, by cycle
    drafted   nodes drafted, by cycle, without the root; none without a draft
    expected  expected tokens of each rule of the panel, by cycle; null where a
              NaN occurred
    stops     how often each node was the accepted node
    faults    cycles with a NaN, an invalid decision or an invalid draft
    right     whether the last line equals a reference; null without one
    prompt    the user's message, if trees were kept
    trace     the first cycles' trees, for the report's explorer

A new axis of the grid is a field of `Method` (docs/reproduce.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

PLAIN = "plain"  # the verifier of decoding without a draft
NONE = "none"  # the tree and the proposal of PLAIN
ALL = "all"  # the name of all tasks together, in tables

# Spec-Bench's six tasks, in the paper's order and under its names.
TASKS = {
  "mt_bench": "Multi-turn",
  "translation": "Translation",
  "summarization": "Sum.",
  "qa": "QA",
  "math_reasoning": "Math",
  "rag": "RAG",
}

# The axes of drafting. Plain decoding has NONE and PLAIN there.
DRAFTED_AXES = ("tree", "proposal", "verifier")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
  """A way to decode: a point of the grid.

  Attributes:
    tree: The tree's name in the config.
    proposal: How siblings are drawn.
    verifier: The rule; or PLAIN, with tree and proposal NONE.
    temperature: The target's temperature.
    seed: Seed of all random draws.
  """

  tree: str
  proposal: str
  verifier: str
  temperature: float
  seed: int

  @property
  def plain(self) -> bool:
    """Returns whether nothing is drafted."""
    return self.verifier == PLAIN

  def __str__(self) -> str:
    """For example "traversal on eagle, without_replacement, T = 1, seed 0"."""
    return in_words(AXES, vars(self).values())


def in_words(names: Iterable[str], values: Iterable) -> str:
  """Returns values of axes in words, as "without_replacement, T = 1"."""
  axes, words = dict(zip(names, values, strict=True)), []
  if axes.get("verifier") == PLAIN:
    axes = {k: v for k, v in axes.items() if k not in DRAFTED_AXES}
    words.append("plain decoding")
  elif {"tree", "verifier"} <= axes.keys():
    words.append(f"{axes.pop('verifier')} on {axes.pop('tree')}")
  begin = {"temperature": "T = ", "seed": "seed "}
  begin |= dict.fromkeys(DRAFTED_AXES, "")
  for name, value in axes.items():
    value = f"{value:g}" if isinstance(value, float) else value
    words.append(f"{begin.get(name, f'{name} = ')}{value}")
  return ", ".join(words)


AXES = tuple(field.name for field in dataclasses.fields(Method))
# A table has one condition. Its rows or columns are trees and rules, and seeds
# are pooled.
CONDITION = [x for x in AXES if x not in ("tree", "verifier", "seed")]
METHOD = [*CONDITION, "tree", "verifier"]  # in the order of tables


KEY = ("task", "question", "turn", *AXES)


def key_of(line: Mapping) -> tuple:
  """Returns what tells an answer from all others of a run."""
  return tuple(line[name] for name in KEY)


def key_in_words(key: tuple) -> str:
  """Returns a key for messages."""
  pairs = zip(KEY, key, strict=True)
  return "item " + ", ".join(f"{name} {value}" for name, value in pairs)
