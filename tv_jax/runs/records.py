"""The records of a run: methods of decoding, and their answers.

`answers` makes the records, the store keeps them, and metrics, tables and
experiments read them. A new axis of the grid is a field of `Method`, as
described in docs/runs.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

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

  @classmethod
  def of(cls, fields: Mapping) -> Method:
    """Returns the method with a line's fields."""
    return cls(**{name: fields[name] for name in AXES if name in fields})

  @property
  def plain(self) -> bool:
    """Returns whether nothing is drafted."""
    return self.verifier == PLAIN

  def __str__(self) -> str:
    """For example "traversal on eagle, without_replacement, T = 1, seed 0"."""
    return in_words(vars(self))


def in_words(axes: Mapping) -> str:
  """Returns values of axes in words, as "without_replacement, T = 1"."""
  axes, words = dict(axes), []
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


@dataclasses.dataclass(frozen=True)
class Key:
  """The identity of an answer.

  Attributes:
    task: The question's task.
    question: The question's number or name.
    turn: The question's turn, from 0.
    method: The method that decoded it.
  """

  task: str
  question: int | str
  turn: int
  method: Method

  @classmethod
  def of(cls, line: Mapping) -> Key:
    """Returns the key of a line."""
    asked = line["task"], line["question"], line["turn"]
    return Key(*asked, Method.of(line))

  @property
  def fields(self) -> dict:
    """The fields that begin a line of items.jsonl."""
    asked = {"task": self.task, "question": self.question, "turn": self.turn}
    return asked | vars(self.method)

  def __str__(self) -> str:
    """For messages."""
    return "item " + ", ".join(f"{k} {v}" for k, v in self.fields.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer(Key):
  """An answer, or an error in its place: a line of items.jsonl.

  Attributes:
    tokens: The generated token ids, up to an end token or the limit.
    text: The same tokens as text, without special tokens.
    accepted: Tokens gained, by cycle.
    drafted: Nodes drafted, by cycle, without the root; None without a draft.
    expected: Expected tokens of each rule of the panel, by cycle; None where a
      NaN occurred.
    stops: How often each node was the accepted node.
    faults: Cycles with a NaN, an invalid decision or an invalid draft.
    right: Whether the last line equals a reference; None without a reference.
    prompt: The user's message, if trees were kept.
    trace: The first cycles' trees, for the report's explorer.
    error: The reason why the answer is missing, or None.
  """

  tokens: Sequence[int] = ()
  text: str = ""
  accepted: Sequence[int] = ()
  drafted: Sequence[int] | None = None
  expected: Mapping[str, Sequence[float | None]] = dataclasses.field(
    default_factory=dict
  )
  stops: Sequence[int] = ()
  faults: int = 0
  right: bool | None = None
  prompt: str | None = None
  trace: Sequence[Mapping] | None = None
  error: str | None = None

  @classmethod
  def of(cls, line: Mapping) -> Answer:
    """Reads a line."""
    kept = {name: line[name] for name in _FIELDS & line.keys()}
    return cls(**kept | vars(Key.of(line)))

  @property
  def key(self) -> Key:
    """The key, which is unique in a run."""
    return Key(self.task, self.question, self.turn, self.method)

  @property
  def line(self) -> dict:
    """The fields of the answer's line in items.jsonl."""
    if self.error is not None:
      return self.fields | {"error": self.error}
    kept = {
      name: value
      for name, value in vars(self).items()
      if value is not None or name == "right"
    }
    del kept["method"]
    return self.fields | kept


_FIELDS = {field.name for field in dataclasses.fields(Answer)}
