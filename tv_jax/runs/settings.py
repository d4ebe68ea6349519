"""What a run is told: every field of a config, checked and frozen."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import typing
from collections.abc import Mapping

from tv_jax import drafting, probs, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.edge import names
from tv_jax.models import templates
from tv_jax.models.config import DTYPES
from tv_jax.proposals import Proposal
from tv_jax.runs.records import AXES, NONE, PLAIN, Method
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Verifier


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
  """The pair.

  Attributes:
    target: A directory, a GGUF file, a hub repository, "bundled/target", or a
      file of a package that is installed, "installed/PACKAGE/FILE".
    draft: Likewise; "bundled/draft", "bundled/draft_weak", "bundled/eagle", or
      for SmolLM2 "bundled/smollm2_eagle" and "bundled/smollm2_draft".
    draft_kind: One of `drafting.KINDS`.
    dtype: Of both; "": as stored, but float32 on a CPU.
    revision: A commit of the target's repository; "": the newest.
    draft_revision: Likewise.
    template: How questions become prompts: "chat", "vicuna", "raw", or
      "without_thinking" (Qwen3's, which is told not to think).
    devices: To split the target over; 1: no splitting.
    shard_draft: Whether to split an independent draft as well.
  """

  target: str
  draft: str
  draft_kind: str
  dtype: str
  revision: str
  draft_revision: str
  template: str
  devices: int
  shard_draft: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
  """Speed, measured apart: one question at a time, after warm-up.

  Attributes:
    per_task: Questions of each task; 0: measure no speed.
    rounds: How often each is asked.
  """

  per_task: int
  rounds: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explorer:
  """What is kept for the report's tree explorer.

  Attributes:
    per_task: Questions of each task whose first turn is traced; 0: none.
    cycles: First cycles of each.
  """

  per_task: int
  cycles: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
  """A whole run: every field of a config.

  Attributes:
    experiment: The run's name, and by default its folder's.
    models: The pair.
    questions: The path of a questions file, or "minibench", "everyday", or
      "python" (for the template "raw"). After "spec_bench:" it is the path of
      Spec-Bench's file, which is checked to be whole.
    tasks: The categories to ask, MT-Bench's being one, "mt_bench"; empty: all
      of the file.
    per_task: Questions of each task; 0: all.
    exact_match: Whether an answer's last line is compared with the reference.
    trees: What `tv_jax.tree.parse` reads.
    verifiers: Names, or module:function.
    proposals: How siblings are drawn.
    temperatures: 0 is greedy.
    seeds: Of all draws.
    plain: Whether to run plain decoding, too.
    baseline: The rule that all are compared with on the same drafts.
    draft_temperature: 0: the target's, or what the file of a tuned tree says
      in proportion to it, but at least 0.1.
    draft_stop: Below a node of which a DSpark draft is less sure than this,
      nothing is drafted.
    top_k: 0: all tokens.
    top_p: 1: all tokens.
    max_new_tokens: At most, in an answer.
    max_tokens: At most, in a prompt and its answer; 0: what the models take.
    batch_size: Answers that are decoded together.
    padded_to: Prompts are padded to at least so many tokens. Then one program
      serves second turns too.
    timing: What is timed.
    explorer: Which cycles the page's tree explorer has.
  """

  experiment: str
  models: Models
  questions: str
  tasks: tuple[str, ...]
  per_task: int
  exact_match: bool
  trees: tuple[str, ...]
  verifiers: tuple[str, ...]
  proposals: tuple[str, ...]
  temperatures: tuple[float, ...]
  seeds: tuple[int, ...]
  plain: bool
  baseline: str
  draft_temperature: float
  draft_stop: float
  top_k: int
  top_p: float
  max_new_tokens: int
  max_tokens: int
  batch_size: int
  padded_to: int
  timing: Timing
  explorer: Explorer

  @functools.cached_property
  def named(self) -> Named:
    """What the names stand for."""
    rules = dict.fromkeys((*self.verifiers, self.baseline))
    return Named(
      trees={name: tree_lib.parse(name) for name in self.trees},
      rules={name: verifiers.resolve(name) for name in rules},
      proposals={name: proposals.resolve(name) for name in self.proposals},
    )

  @functools.cached_property
  def rules(self) -> dict[tuple[str, str], tuple[str, ...]]:
    """By tree and proposal, the verifiers that are defined for both."""
    return {
      place: tuple(
        name for name in self.verifiers if not self.misfit(name, *place)
      )
      for place in itertools.product(self.trees, self.proposals)
    }

  def misfit(self, rule: str, tree: str, proposal: str) -> str | None:
    """Returns why a rule is not defined for a tree and a proposal, if so."""
    own = self.named
    return verifiers.misfit(
      own.rules[rule], own.trees[tree], own.proposals[proposal]
    )


class Named(typing.NamedTuple):
  """What the names of a config stand for."""

  trees: dict[str, Tree | Adaptive]
  rules: dict[str, Verifier]  # verifiers and the baseline
  proposals: dict[str, Proposal]


def to_dict(settings: Run) -> dict:
  """Returns what is kept with the results; `from_config` reads it again."""
  return dataclasses.asdict(settings)


def from_config(config) -> Run:
  """Checks a config, a ConfigDict or a dict, all of it, and freezes it.

  Lists of names may be one text, with spaces between. ValueError: what is
  wrong, by name.
  """
  raw = dict(config if isinstance(config, Mapping) else config.to_dict())
  for name in ("tasks", "trees", "verifiers", "proposals"):
    raw[name] = _names(raw.get(name, ()))
  settings = _build(Run, raw)
  if wrong := [*_wrong_values(settings)] or [*_useless(settings)]:
    raise ValueError("; ".join(wrong))
  return settings


def _names(value):
  """Returns names of which several may be in one text."""
  return tuple(
    names.split(value if isinstance(value, str) else " ".join(value))
  )


def _build(cls, raw: Mapping, above: str = ""):
  """Returns a dataclass with these fields, and no others."""
  kinds = typing.get_type_hints(cls)
  if unknown := [name for name in raw if name not in kinds]:
    raise ValueError(f"unknown field {above}{unknown[0]}")
  if missing := [name for name in kinds if name not in raw]:
    raise ValueError(f"{above}{missing[0]} is missing")
  return cls(
    **{k: _value(kind, raw[k], above + k) for k, kind in kinds.items()}
  )


def _value(kind, value, where: str):
  """Returns a field's value; a float for an int, a tuple for a list."""
  if dataclasses.is_dataclass(kind):
    return _build(kind, value, f"{where}.")
  if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
    (inner, _) = typing.get_args(kind)
    return tuple(_value(inner, one, where) for one in value)
  if kind is float and type(value) is int:
    return float(value)
  if type(value) is not kind:
    kind = getattr(kind, "__name__", kind)
    raise ValueError(f"{where}={value!r}: give a value of type {kind}")
  return value


# The least value of each number.
_LEAST = {
  **dict.fromkeys(("per_task", "top_k", "max_tokens", "padded_to"), 0),
  **dict.fromkeys(("timing.per_task", "explorer.per_task", "draft_stop"), 0),
  **dict.fromkeys(("timing.rounds", "explorer.cycles", "models.devices"), 1),
  **dict.fromkeys(("max_new_tokens", "batch_size"), 1),
}


def _wrong_values(settings: Run):
  """Yields what is out of range, named wrongly, empty, or there twice."""
  for name, least in _LEAST.items():
    if (value := operator.attrgetter(name)(settings)) < least:
      yield f"{name}={value}: give {least} or more"
  for axis in AXES:
    values = getattr(settings, f"{axis}s")
    if not values or len({*values}) < len(values):
      yield f"{axis}s={' '.join(map(str, values))}: give some, each once"
  for value in (*settings.temperatures, settings.draft_temperature):
    if not probs.is_temperature(value):
      yield f"temperature {value}: give 0, or a number from {probs.COLDEST:g}"
  for seed in settings.seeds:
    if not 0 <= seed < 2**32:
      yield f"seeds: {seed} is not in [0, 2^32)"
  if not 0 < settings.top_p <= 1 or settings.draft_stop >= 1:
    yield "top_p is above 0 and 1 at most, draft_stop is below 1"
  if not settings.experiment.strip(". ") or "/" in settings.experiment:
    yield f"experiment={settings.experiment!r}: give a folder's name"
  for name, known in (
    ("draft_kind", drafting.KINDS),
    ("dtype", ("", *DTYPES)),
    ("template", templates.TEMPLATES),
  ):
    if (value := getattr(settings.models, name)) not in known:
      yield f"models.{name}={value!r}: give one of {', '.join(known)}"


def _useless(settings: Run):
  """Yields rules that would never run, and a baseline that expects nothing."""
  if not settings.named.rules[settings.baseline].offers:
    yield (
      f"baseline={settings.baseline!r} has no stop law to compare with: give a"
      " Verifier(offers=..)"
    )
  first, *_ = settings.rules
  for name in settings.verifiers:
    if not any(name in rules for rules in settings.rules.values()):
      yield (
        f"verifiers: {name!r} would never run: {settings.misfit(name, *first)}"
      )
  for place in settings.rules:
    if reason := settings.misfit(settings.baseline, *place):
      yield f"baseline: {reason}"


def grid(settings: Run) -> list[Method]:
  """Returns all methods; those that share a program stand together."""
  places = [(NONE, NONE, PLAIN)] if settings.plain else []
  places += [
    (tree, proposal, rule)
    for (tree, proposal), rules in settings.rules.items()
    for rule in rules
  ]
  drafted = ("tree", "proposal", "verifier")
  # A config names an axis in the plural.
  others = [name for name in AXES if name not in drafted]
  values = [getattr(settings, f"{name}s") for name in others]
  return [
    Method.of(dict(zip((*drafted, *others), (*place, *point), strict=True)))
    for place, point in itertools.product(places, itertools.product(*values))
  ]


def options(settings: Run, method: Method) -> dict:
  """Returns what `generate` is to do; batch size, panel and trace aside."""
  common = {
    "draft_temperature": settings.draft_temperature or None,
    "top_k": settings.top_k,
    "top_p": settings.top_p,
    "max_new_tokens": settings.max_new_tokens,
  }
  axes = {
    k: v for k, v in vars(method).items() if k not in ("tree", "proposal")
  }
  if method.plain:
    return common | axes | {"verifier": None}
  assert method.tree is not None
  assert method.proposal is not None
  assert method.verifier is not None
  own = settings.named
  rules = settings.rules[method.tree, method.proposal]
  return (
    common
    | axes
    | {
      "tree": method.tree,  # whose file may have a temperature
      "proposal": own.proposals[method.proposal],
      "verifier": own.rules[method.verifier],
      "among": [own.rules[name] for name in rules],
      "draft_stop": settings.draft_stop,
    }
  )
