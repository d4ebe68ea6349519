"""What a run is made of: methods of decoding, and the answers that they gave.

Everything that knows of results knows of these two: the store keeps answers,
`answers` makes them, metrics, tables, plots and experiments read them. A new
axis of the grid is a field of `Method`; docs/runs.md says what goes with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tv_jax.edge import checks

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
      for name, value in vars(self).items()
      if name not in ("tree", "proposal", "verifier") and value is not None
    ]

  def __str__(self) -> str:
    """For example "traversal on eagle, without_replacement, T = 1, seed 0"."""
    what = "plain decoding"
    if not self.plain:
      what = f"{self.verifier} on {self.tree}, {self.proposal}"
    return ", ".join([what, *self.numbers])


AXES = tuple(field.name for field in dataclasses.fields(Method))


_KEY = checks.fields(
  {
    "task": checks.text,
    "question": checks.either(checks.integer(), checks.text),
    "turn": checks.integer(least=0),
    **dict.fromkeys(AXES, checks.either(checks.number(), checks.text)),
  }
)


class Key(NamedTuple):
  """Which answer it is."""

  task: str
  question: int | str
  turn: int
  method: Method

  @classmethod
  def of(cls, line) -> Key:
    """Returns the key of a line; ValueError if it has none."""
    checks.read(_KEY, line)
    asked = line["task"], line["question"], line["turn"]
    return cls(*asked, Method.of(line))

  @property
  def fields(self) -> dict:
    """By name, the method's among them: with these a line begins."""
    asked = {"task": self.task, "question": self.question, "turn": self.turn}
    return asked | vars(self.method)

  def __str__(self) -> str:
    """For messages."""
    return "item " + ", ".join(f"{k} {v}" for k, v in self.fields.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
  """An answer, or why there is none: a line of items.jsonl.

  Attributes:
    task: The question's.
    question: Its number or name.
    turn: Of the question, from 0.
    method: How it was decoded.
    tokens: What was kept.
    text: The same, without special tokens.
    accepted: Tokens gained, by cycle.
    drafted: Nodes drafted, by cycle, without the root; None if there is no
      draft, and of older versions.
    expected: What each rule of the panel expected to gain, by cycle; None for a
      NaN.
    stops: How often each node was the accepted one.
    faults: Cycles that met a NaN, or what is no decision or no draft.
    right: Whether the text is the reference; None if there is none.
    prompt: What the user said, where trees were kept.
    trace: The first cycles' trees, for the report's explorer.
    error: Why there is no answer; None if there is one.
  """

  task: str
  question: int | str
  turn: int
  method: Method
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
  def of(cls, line: dict) -> Answer:
    """Returns what `line` was made of.

    Raises:
      ValueError: In one line, all that is missing or of a wrong type.
    """
    key = Key.of(line)
    check = _FAILED if "error" in line else _RESULTS
    if told := checks.wrong(check, line, most=3) or _other_counts(line):
      raise ValueError(f"{key}: {told}")
    names = (field.name for field in dataclasses.fields(cls))
    own = {name: line[name] for name in names if name in line}
    return cls(**own | key._asdict())

  @property
  def key(self) -> Key:
    """Returns what no other answer of a run has."""
    return Key(self.task, self.question, self.turn, self.method)

  @property
  def line(self) -> dict:
    """As it is kept."""
    if self.error is not None:
      return self.key.fields | {"error": self.error}
    kept = {
      name: value
      for name, value in vars(self).items()
      if name not in _OPTIONAL or value is not None
    }
    del kept["method"]
    return self.key.fields | kept


_OPTIONAL = ("drafted", "prompt", "trace", "error")
_COUNTS = checks.list_of(checks.integer())
_LIST = checks.list_of(checks.anything)
_BY_NAME = checks.mapping_of(checks.anything)
_BY_RULE = checks.list_of(checks.optional(checks.number()))
_CYCLE = checks.fields(
  {
    **dict.fromkeys(("parents", "pieces", "p", "q", "drawn", "coins"), _LIST),
    **dict.fromkeys(("stop", "direction", "walks"), _BY_NAME),
    "node": checks.integer(),
  }
)
_FAILED = checks.fields({"error": checks.text})
_RESULTS = checks.fields(
  {
    "tokens": _COUNTS,
    "text": checks.text,
    "accepted": _COUNTS,
    "expected": checks.mapping_of(_BY_RULE),
    "faults": checks.integer(),
    "right": checks.optional(checks.boolean),
  },
  drafted=_COUNTS,
  trace=checks.list_of(_CYCLE),
)


def _other_counts(line) -> str:
  """Returns what has not a number for each cycle of an answer."""
  if "error" in line:
    return ""
  by_cycle = {f"expected.{k}": v for k, v in line["expected"].items()}
  by_cycle["drafted"] = line.get("drafted", line["accepted"])
  count = len(line["accepted"])
  wrong = [name for name, own in by_cycle.items() if len(own) != count]
  return f"{', '.join(wrong)}: give a number for each cycle" if wrong else ""


def text(value) -> str:
  """Returns an axis's value: 1 for 1.0."""
  return f"{value:g}" if isinstance(value, float) else str(value)
