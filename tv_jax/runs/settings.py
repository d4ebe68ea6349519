"""The settings of a run: every field of a config, frozen."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from tv_jax import proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.engine.config import (
  SEEDS,
  DecodeConfig,
  Options,
  decode_config,
)
from tv_jax.engine.pair import Pair
from tv_jax.io import checks, names
from tv_jax.io.errors import UserError
from tv_jax.models import templates
from tv_jax.models.config import DTYPES
from tv_jax.proposals import Proposal
from tv_jax.runs.records import AXES, DRAFTED_AXES, NONE, PLAIN, Method
from tv_jax.tree import Tree
from tv_jax.verifiers import Verifier

# Values that nothing else checks before the models are loaded.
_AT_LEAST_0, _AT_LEAST_1 = checks.integer(0), checks.integer(1)
_VALUES = checks.fields(
  {
    "models": checks.fields(
      {
        "dtype": checks.one_of(("", *DTYPES)),
        "template": checks.one_of(templates.TEMPLATES),
        "devices": _AT_LEAST_1,
      }
    ),
    "seeds": checks.list_of(checks.integer(0, SEEDS - 1)),
    "per_task": _AT_LEAST_0,
    "padded_to": _AT_LEAST_0,
    "timing": checks.fields({"per_task": _AT_LEAST_0, "rounds": _AT_LEAST_1}),
    "explorer": checks.fields({"per_task": _AT_LEAST_0, "cycles": _AT_LEAST_1}),
  }
)

# The fields that hold names; in a config each is one text with spaces.
NAMES = ("tasks", "trees", "verifiers", "proposals")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
  """The pair.

  Attributes:
    target: A directory, a GGUF file, a hub repository, "bundled/target", or a
      file of an installed package, "installed/PACKAGE/FILE".
    draft: A directory, file or repository, or the name of a bundled draft:
      "bundled/draft", "bundled/draft_weak", "bundled/eagle", "bundled/eagle3",
      "bundled/dspark", or for SmolLM2 "bundled/smollm2_eagle" and
      "bundled/smollm2_draft". "": no draft, and plain decoding alone.
    dtype: The type of both models' weights; "": as stored, but float32 on a
      CPU.
    revision: A commit of the target's repository; "": the newest.
    draft_revision: A commit of the draft's repository; "": the newest.
    template: How questions become prompts: "chat", "vicuna", "raw", or
      "without_thinking" (Qwen3's template with thinking turned off).
    devices: The number of devices that share the target's weights.
    shard_draft: Whether an independent draft is sharded as well.
  """

  target: str = ""
  draft: str = ""
  dtype: str = ""
  revision: str = ""
  draft_revision: str = ""
  template: str = "chat"
  devices: int = 1
  shard_draft: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
  """Settings of the speed measurement, one question at a time.

  Attributes:
    per_task: Number of questions of each task; 0: no measurement.
    rounds: How often each question is asked.
  """

  per_task: int = 1
  rounds: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explorer:
  """Settings of the report's tree explorer, which shows first turns.

  Attributes:
    per_task: Number of traced questions of each task; 0: none.
    cycles: Number of traced cycles of each question.
  """

  per_task: int = 1
  cycles: int = 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
  """A whole run: every field of a config. The defaults are the paper's table.

  Attributes:
    experiment: The run's name, and by default its folder's.
    models: The pair.
    questions: The path of a questions file, or "minibench", "tuning",
      "everyday", or "python" (for the template "raw"). After "spec_bench:" it
      is the path of Spec-Bench's file, which is checked to be whole.
    tasks: The categories to ask; "mt_bench" stands for all of MT-Bench's.
      Empty: all categories of the file.
    per_task: Number of questions of each task; 0: all.
    exact_match: Whether an answer's last line is compared with the reference.
    trees: Names that `tv_jax.tree.parse` reads.
    verifiers: Names, or module:function.
    proposals: How siblings are drawn.
    temperatures: The target's temperatures; 0 is greedy.
    seeds: Seeds of all random draws.
    plain: Whether to run plain decoding, too.
    baseline: The rule that all others are compared with on the same drafts.
    draft_temperature: The draft's temperature; 0: the target's, but at least
      0.1.
    draft_stop: Minimum confidence of a DSpark draft for drafting below a node.
    top_k: Number of likeliest tokens to sample from; 0: all tokens.
    top_p: Total probability of the tokens to sample from; 1: all tokens.
    max_new_tokens: Maximum length of an answer.
    max_tokens: Maximum length of a prompt with its answer; 0: the models'
      limit.
    batch_size: Number of answers that are decoded together.
    padded_to: Minimum length of padded prompts. With enough room for second
      turns, first and second turns share a compiled program.
    timing: The speed measurement.
    explorer: The cycles in the page's tree explorer.
  """

  experiment: str
  models: Models = Models()
  questions: str = "minibench"
  tasks: tuple[str, ...] = ()
  per_task: int = 0
  exact_match: bool = False
  trees: tuple[str, ...] = ("chain:5", "kary:2x5", "eagle")
  verifiers: tuple[str, ...] = ("token_level", "traversal")
  proposals: tuple[str, ...] = ("without_replacement",)
  temperatures: tuple[float, ...] = (1.0,)
  seeds: tuple[int, ...] = (0,)
  plain: bool = True
  baseline: str = "token_level"
  draft_temperature: float = 0.0
  draft_stop: float = 0.0
  top_k: int = 0
  top_p: float = 1.0
  max_new_tokens: int = 160
  max_tokens: int = 0
  batch_size: int = 16
  padded_to: int = 0
  timing: Timing = Timing()
  explorer: Explorer = Explorer()

  @functools.cached_property
  def named(self) -> Named:
    """The objects that the names stand for."""
    rules = dict.fromkeys((*self.verifiers, self.baseline))
    return Named(
      trees={name: tree_lib.parse(name) for name in self.trees},
      rules={name: verifiers.resolve(name) for name in rules},
      proposals={name: proposals.resolve(name) for name in self.proposals},
    )

  @functools.cached_property
  def rules(self) -> dict[tuple[str, str], tuple[str, ...]]:
    """The verifiers that are defined for each tree and proposal."""
    return {
      place: tuple(
        name
        for name in self.verifiers
        if not self.unsupported_reason(name, *place)
      )
      for place in itertools.product(self.trees, self.proposals)
    }

  def unsupported_reason(
    self, rule: str, tree: str, proposal: str
  ) -> str | None:
    """Returns why a rule is not defined for a tree and proposal, or None."""
    named = self.named
    return verifiers.unsupported_reason(
      named.rules[rule], named.trees[tree], named.proposals[proposal]
    )


class Named(NamedTuple):
  """The objects that the names of a config stand for."""

  trees: dict[str, Tree]
  rules: dict[str, Verifier]  # verifiers and the baseline
  proposals: dict[str, Proposal]


def to_dict(settings: Run) -> dict:
  """Returns the content of config.json, which `from_config` reads."""
  return dataclasses.asdict(settings)


def from_config(config) -> Run:
  """Freezes a config, which is a ConfigDict or a dict.

  Lists of names may be one text, with spaces between. The options of `generate`
  are checked later, by `decode_config`.

  Raises:
    ValueError: A field is invalid; the error names it.
  """
  raw = dict(config if isinstance(config, Mapping) else config.to_dict())
  if "draft_kind" in raw.get("models", ()):
    raise UserError(
      "config: models.draft_kind is gone, because a draft's kind is read from"
      " its checkpoint: remove the field"
    )
  try:
    for name in NAMES:
      text = raw[name] if isinstance(raw[name], str) else " ".join(raw[name])
      raw[name] = tuple(names.split(text))
    raw |= {
      "models": Models(**raw["models"]),
      "timing": Timing(**raw["timing"]),
      "explorer": Explorer(**raw["explorer"]),
      "temperatures": tuple(map(float, raw["temperatures"])),
      "seeds": tuple(raw["seeds"]),
    }
    settings = Run(**raw)
  except KeyError as error:
    raise UserError(f"config: {error} is missing") from error
  except (TypeError, ValueError) as error:
    raise UserError(f"config: {error}") from error
  _check(settings)
  return settings


def _check(settings: Run) -> None:
  """Refuses invalid values, rules that never run, an unusable baseline."""
  _VALUES(to_dict(settings))
  for axis in AXES:
    values = getattr(settings, f"{axis}s")
    if not values or len({*values}) < len(values):
      shown = " ".join(map(str, values))
      raise UserError(f"{axis}s={shown}: give some, each once")
  if not settings.experiment.strip(". ") or "/" in settings.experiment:
    raise UserError(f"experiment={settings.experiment!r}: give a folder's name")
  baseline, (first, *_) = settings.baseline, settings.rules
  if not settings.named.rules[baseline].offers:
    raise UserError(
      f"baseline={baseline!r} has no stopping distribution to compare"
      " with: give a Verifier(offers=..)"
    )
  for name in settings.verifiers:
    if not any(name in rules for rules in settings.rules.values()):
      reason = settings.unsupported_reason(name, *first)
      raise UserError(f"verifiers: {name!r} would never run: {reason}")
  for place in settings.rules:
    if reason := settings.unsupported_reason(baseline, *place):
      raise UserError(f"baseline: {reason}")


def grid(settings: Run) -> list[Method]:
  """Returns all methods, in the order in which they decode."""
  drafted = settings.rules if settings.models.draft else {}
  places = [(NONE, NONE, PLAIN)] if settings.plain or not drafted else []
  places += [(*place, rule) for place in drafted for rule in drafted[place]]
  # A config names an axis in the plural.
  values = [
    getattr(settings, f"{axis}s") for axis in AXES if axis not in DRAFTED_AXES
  ]
  points: list[dict[str, Any]] = [
    dict(zip(AXES, (*place, *point), strict=True))
    for place, point in itertools.product(places, itertools.product(*values))
  ]
  return [Method(**axes) for axes in points]


def decoding(
  settings: Run, method: Method, pair: Pair, batch_size: int, **drafted: Any
) -> DecodeConfig:
  """Returns how a pair decodes by a method.

  Args:
    settings: The run's settings.
    method: The method.
    pair: The models.
    batch_size: Number of answers that are decoded together.
    **drafted: Further options of `generate`; a plain method ignores them.

  Raises:
    ValueError: The pair cannot decode by this method.
  """
  fields = dict(vars(method))
  tree, proposal, verifier = (fields.pop(axis) for axis in DRAFTED_AXES)
  if method.plain:
    drafted = {"verifier": "plain"}
  else:
    named = settings.named
    drafted = {
      "tree": named.trees[tree],
      "proposal": named.proposals[proposal],
      "verifier": named.rules[verifier],
      "among": [named.rules[name] for name in settings.rules[tree, proposal]],
      "draft_stop": settings.draft_stop,
    } | drafted
  return decode_config(
    pair,
    Options(
      batch_size=batch_size,
      draft_temperature=settings.draft_temperature,
      top_k=settings.top_k,
      top_p=settings.top_p,
      max_new_tokens=settings.max_new_tokens,
      **fields,
      **drafted,
    ),
  )
