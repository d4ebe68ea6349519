"""What a run is made of: methods of decoding, and the answers that they gave.

The store keeps answers, `answers` makes them, metrics, tables and
experiments read them. A new axis of the grid is a field of `Method`;
docs/runs.md says what goes with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

PLAIN = "plain"  # the verifier of decoding without a draft
NONE = "none"  # its tree and its proposal
ALL = "all"  # what tables call all tasks together


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
  """A way to decode: a point of the grid.

  None stands for all values of a field, where methods that differ in it are
  taken together.

  Attributes:
    tree: As the config names it.
    proposal: How siblings are drawn.
    verifier: The rule; PLAIN on tree NONE with proposal NONE.
    temperature: Of the target.
    seed: Of all draws.
  """

  tree: str | None = None
  proposal: str | None = None
  verifier: str | None = None
  temperature: float | None = None
  seed: int | None = None

  @classmethod
  def of(cls, fields: Mapping) -> Method:
    """Returns the method among a line's fields."""
    return cls(**{name: fields[name] for name in AXES if name in fields})

  @property
  def plain(self) -> bool:
    """Returns whether nothing is drafted."""
    return self.verifier == PLAIN

  def pooled(self, *names: str) -> Method:
    """Returns all methods together that differ in these fields alone."""
    return dataclasses.replace(self, **dict.fromkeys(names))

  @property
  def fields(self) -> dict:
    """By name, those that are not None."""
    return {k: v for k, v in vars(self).items() if v is not None}

  @property
  def undrafted(self) -> Method:
    """Plain decoding, with all else as it is."""
    nothing = {"tree": NONE, "proposal": NONE, "verifier": PLAIN}
    return dataclasses.replace(self, **nothing)

  @property
  def numbers(self) -> list[str]:
    """Returns all but tree, proposal and verifier: "T = 1" and "seed 0"."""
    short = {"temperature": "T = ", "seed": "seed "}
    return [
      short.get(name, f"{name} = ") + text(value)
      for name, value in self.fields.items()
      if name not in ("tree", "proposal", "verifier")
    ]

  def __str__(self) -> str:
    """For example "traversal on eagle, without_replacement, T = 1, seed 0"."""
    what = "plain decoding"
    if not self.plain:
      what = f"{self.verifier} on {self.tree}, {self.proposal}"
    return ", ".join([what, *self.numbers])


AXES = tuple(field.name for field in dataclasses.fields(Method))


@dataclasses.dataclass(frozen=True)
class Key:
  """Which answer it is.

  Attributes:
    task: The question's.
    question: Its number or name.
    turn: Of the question, from 0.
    method: How it was decoded.
  """

  task: str
  question: int | str
  turn: int
  method: Method

  @classmethod
  def of(cls, line: Mapping) -> Key:
    """Returns the key of a line; ValueError if it has none."""
    _require(line, ("task", "question", "turn", *AXES), "a line")
    asked = line["task"], line["question"], line["turn"]
    return Key(*asked, Method.of(line))

  @property
  def fields(self) -> dict:
    """By name, the method's among them: with these a line begins."""
    asked = {"task": self.task, "question": self.question, "turn": self.turn}
    return asked | vars(self.method)

  def __str__(self) -> str:
    """For messages."""
    return "item " + ", ".join(f"{k} {v}" for k, v in self.fields.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer(Key):
  """An answer, or why there is none: a line of items.jsonl.

  Attributes:
    tokens: What was kept.
    text: The same, without special tokens.
    accepted: Tokens gained, by cycle.
    drafted: Nodes drafted, by cycle, without the root; None if there is no
      draft.
    expected: What each rule of the panel expected to gain, by cycle; None for a
      NaN.
    stops: How often each node was the accepted one.
    faults: Cycles that met a NaN, or what is no decision or no draft.
    right: Whether the text is the reference; None if there is none.
    prompt: What the user said, where trees were kept.
    trace: The first cycles' trees, for the report's explorer.
    error: Why there is no answer; None if there is one.
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
    """Returns what a line was made of; ValueError: what is wrong with it."""
    key = Key.of(line)
    if "error" not in line:
      _require(line, ("tokens", "text", "accepted", "expected", "faults"), key)
      lists = {f"expected.{k}": v for k, v in line["expected"].items()}
      lists["drafted"] = line.get("drafted", line["accepted"])
      for name, values in lists.items():
        if len(values) != len(line["accepted"]):
          raise ValueError(f"{key}: {name} has not a number for each cycle")
    fields = {field.name for field in dataclasses.fields(cls)}
    kept = {name: value for name, value in line.items() if name in fields}
    return cls(**kept | vars(key))

  @property
  def key(self) -> Key:
    """Returns what no other answer of a run has."""
    return Key(self.task, self.question, self.turn, self.method)

  @property
  def line(self) -> dict:
    """As it is kept."""
    if self.error is not None:
      return self.fields | {"error": self.error}
    kept = {
      name: value
      for name, value in vars(self).items()
      if value is not None or name == "right"
    }
    del kept["method"]
    return self.fields | kept


def _require(line: Mapping, names: Sequence[str], where) -> None:
  if missing := [name for name in names if name not in line]:
    raise ValueError(f"{where}: {', '.join(missing)} missing")


def text(value) -> str:
  """Returns an axis's value: 1 for 1.0."""
  return f"{value:g}" if isinstance(value, float) else str(value)
