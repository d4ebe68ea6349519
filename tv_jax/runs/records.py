"""What a run is made of: methods of decoding, and the answers that they gave.

Everything that knows of results knows of these two: the store keeps answers,
`answers` makes them, metrics, tables, plots and experiments read them. A new
axis of the grid is a field of `Method`; docs/runs.md says what goes with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

PLAIN = "plain"  # the verifier of decoding without a draft
NONE = "none"  # its tree and its proposal
ALL = "all"  # what tables call all tasks together


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
  """A way to decode: a point of the grid.

  None stands for all values of a field, where methods that differ in it are
  taken together. A later field's default is what was done before it was there.

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
    """The method among a line's fields; what they lack has its default."""
    return cls(**{name: fields[name] for name in AXES if name in fields})

  @property
  def plain(self) -> bool:
    """Whether nothing is drafted."""
    return self.verifier == PLAIN

  def pooled(self, *names: str) -> Method:
    """All methods together that differ in these fields alone."""
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
    """All but tree, proposal and verifier: "T = 1" and "seed 0"."""
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


class Key(NamedTuple):
  """Which answer it is."""

  task: str
  question: int | str
  turn: int
  method: Method

  @classmethod
  def of(cls, line) -> Key:
    """The key of a line; ValueError if it has none."""
    if not isinstance(line, dict):
      raise ValueError("an item must be a dict")
    asked = cls._fields[:-1]
    names = *asked, *AXES
    missing = [name for name in names if name not in line]
    # An axis that came later has a default: older lines mean that.
    missing = [one for one in missing if getattr(Method, one, None) is None]
    if missing:
      raise ValueError(f"an item without {', '.join(missing)}")
    for name in names:
      if not isinstance(line.get(name, 0), str | int | float):
        raise ValueError(
          f"an item's {name} must be a string or a number, not {line[name]!r}"
        )
    return cls(*(line[name] for name in asked), Method.of(line))

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
    """What `line` was made of.

    Raises:
      ValueError: In one line, all that is missing or of a wrong type.
    """
    key = Key.of(line)
    if found := [*dict.fromkeys(_faults_of(line))][:3]:
      raise ValueError(f"{key}: {'; '.join(found)}")
    names = (field.name for field in dataclasses.fields(cls))
    own = {name: line[name] for name in names if name in line}
    return cls(**own | key._asdict())

  @property
  def key(self) -> Key:
    """What no other answer of a run has."""
    return Key(self.task, self.question, self.turn, self.method)

  @property
  def line(self) -> dict:
    """As it is kept."""
    if self.error is not None:
      return self.key.fields | {"error": self.error}
    kept = {
      name: value
      for name, value in vars(self).items()
      if name in _RESULTS or value is not None
    }
    del kept["method"]
    return self.key.fields | kept


_UNKNOWN = (int, float, type(None))
_RESULTS = {
  "tokens": [int],
  "text": str,
  "accepted": [int],
  "expected": {},
  "faults": int,
  "right": (bool, type(None)),
}
_CYCLE = {
  **dict.fromkeys(("parents", "pieces", "p", "q", "drawn", "coins"), list),
  "stop": {},
  "node": int,
}


def _faults_of(line) -> Iterator[str]:
  """What is wrong with an answer's results."""
  if "error" in line:
    yield from faults({"error": str}, line)
    return
  yield from faults(_RESULTS, line)
  by_cycle = {}
  if isinstance(line.get("expected"), Mapping):
    for name, values in line["expected"].items():
      by_cycle[f"expected.{name}"] = _UNKNOWN, values
  if "drafted" in line:  # since it is kept
    by_cycle["drafted"] = int, line["drafted"]
  for name, (kind, values) in by_cycle.items():
    yield from faults([kind], values, name)
    sides = values, line.get("accepted")
    lists = [side for side in sides if isinstance(side, list)]
    if len({*map(len, lists)}) > 1:
      yield f"{name} has not a number for each cycle"
  if "trace" in line:
    yield from faults([_CYCLE], line["trace"], "trace")
    for cycle in line["trace"] if isinstance(line["trace"], list) else ():
      if isinstance(cycle, dict) and "direction" in cycle:  # since it is kept
        yield from faults({}, cycle["direction"], "trace[].direction")


def faults(kind, value, where: str = "") -> Iterator[str]:
  """What a JSON value, called `where`, lacks to be of a kind.

  A kind is a type or several; a list of a kind; or a dict with these fields.
  """
  if isinstance(kind, dict):
    if not isinstance(value, Mapping):
      yield f"{where or 'it'} must hold fields"
      return
    for name, inner in kind.items():
      place = f"{where}.{name}" if where else name
      if name in value:
        yield from faults(inner, value[name], place)
      else:
        yield f"{place} is missing"
  elif isinstance(kind, list):
    if not isinstance(value, list):
      yield f"{where or 'it'} must be a list"
      return
    for one in value:
      yield from faults(kind[0], one, f"{where}[]")
  else:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # True is an int, but no number.
    if type(value) not in kinds:
      yield f"{where}={value!r} is of a wrong type"


def text(value) -> str:
  """An axis's value: 1 for 1.0."""
  return f"{value:g}" if isinstance(value, float) else str(value)
