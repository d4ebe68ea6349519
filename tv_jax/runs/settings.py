"""The settings of a run: every field of a config, frozen."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

from tv_jax import proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.engine.config import DecodeConfig, Options, decode_config
from tv_jax.engine.pair import Pair
from tv_jax.io import checks, names
from tv_jax.io.errors import UserError
from tv_jax.runs.records import AXES, DRAFTED_AXES, NONE, PLAIN, Method

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
  """

  target: str = ""
  draft: str = ""
  dtype: str = ""
  revision: str = ""
  draft_revision: str = ""
  template: str = "chat"
  devices: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
  """How many questions a part of a run uses.

  Attributes:
    per_task: Number of questions of each task; 0: none.
  """

  per_task: int = 1


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
    timing: Questions on which speed is measured, one at a time.
    explorer: The questions in the page's tree explorer, which shows the first
      cycles of first turns.
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
  timing: Sample = Sample()
  explorer: Sample = Sample()

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
    return verifiers.unsupported_reason(
      verifiers.resolve(rule),
      tree_lib.resolve(tree),
      proposals.resolve(proposal),
    )


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
  try:
    for name in NAMES:
      text = raw[name] if isinstance(raw[name], str) else " ".join(raw[name])
      raw[name] = tuple(names.split(text))
    raw |= {
      "models": Models(**raw["models"]),
      "timing": Sample(**raw["timing"]),
      "explorer": Sample(**raw["explorer"]),
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
  """Refuses axes without values, and rules that never run."""
  checks.integer(0)(settings.per_task, "per_task")
  for axis in AXES:
    values = getattr(settings, f"{axis}s")
    if not values or len({*values}) < len(values):
      shown = " ".join(map(str, values))
      raise UserError(f"{axis}s={shown}: give some, each once")
  for name in settings.verifiers:
    if not any(name in rules for rules in settings.rules.values()):
      reason = settings.unsupported_reason(name, *next(iter(settings.rules)))
      raise UserError(f"verifiers: {name!r} would never run: {reason}")
  for place in settings.rules:
    if reason := settings.unsupported_reason(settings.baseline, *place):
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
  options = dict(vars(method))
  if method.plain:
    del options["tree"], options["proposal"]
  else:
    among = settings.rules[method.tree, method.proposal]
    options |= {"among": among, "draft_stop": settings.draft_stop} | drafted
  return decode_config(
    pair,
    Options(
      batch_size=batch_size,
      draft_temperature=settings.draft_temperature,
      top_k=settings.top_k,
      top_p=settings.top_p,
      max_new_tokens=settings.max_new_tokens,
      **options,
    ),
  )
