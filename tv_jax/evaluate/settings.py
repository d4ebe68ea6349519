"""What a run is told: frozen, and checked before any model is loaded."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

from tv_jax import drafting, names, probs, prompts, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.evaluate import frozen, selecting
from tv_jax.records import AXES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
  """The pair.

  Attributes:
    target: A directory, a hub repository, or "bundled/target".
    draft: Likewise; "bundled/draft", "bundled/draft_weak" or "bundled/eagle".
    draft_kind: One of `drafting.KINDS`.
    dtype: Of both; "": as stored, but float32 on a CPU.
    revision: A commit of the target's repository; "": the newest.
    draft_revision: Likewise.
    template: How questions become prompts: "chat", "vicuna" or "raw".
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
    stages: The trees on which the stages of a cycle are timed as well, and of
      plain decoding; their programs take as long to compile as all others. In a
      config "all" stands for all trees, "first" for the first.
  """

  per_task: int
  rounds: int
  stages: tuple[str, ...]


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
    experiment: Its name, and that of its folder.
    models: The pair.
    questions: A file in Spec-Bench's format, "spec_bench:" and the path of
      Spec-Bench's own, which is then checked to be whole, or "minibench",
      or "python", which is for the template "raw".
    tasks: Of these alone, by Spec-Bench's names; empty: of all.
    per_task: Questions of each task; 0: all.
    exact_match: Whether references are the answers' last lines.
    trees: What `tv_jax.tree.parse` reads.
    verifiers: Names, or module:function.
    proposals: How siblings are drawn.
    temperatures: 0 is greedy.
    seeds: Of all draws.
    plain: Whether to decode plainly, too.
    baseline: The rule that all are compared with on the same drafts.
    draft_temperature: 0: the target's, but not below a floor.
    top_k: 0: all tokens.
    top_p: 1: all tokens.
    max_new_tokens: In an answer.
    max_tokens: In a prompt and its answer; 0: what the models can take.
    batch_size: Rows decoded together.
    padded_to: Prompts are padded to at least so many tokens. Then one program
      serves second turns too.
    timing: Speed.
    explorer: What can be looked at.
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
  top_k: int
  top_p: float
  max_new_tokens: int
  max_tokens: int
  batch_size: int
  padded_to: int
  timing: Timing
  explorer: Explorer


_NAMES = ("tasks", "trees", "verifiers", "proposals")
# The least value of each number.
_LEAST = {
  "per_task": 0,
  "top_k": 0,
  "max_new_tokens": 1,
  "max_tokens": 0,
  "batch_size": 1,
  "padded_to": 0,
  "models.devices": 1,
  "timing.per_task": 0,
  "timing.rounds": 1,
  "explorer.per_task": 0,
  "explorer.cycles": 1,
}


def from_config(config) -> Run:
  """Checks a config, all of it, and freezes it.

  Args:
    config: As a file in configs/ returns it, or a dict. Lists of names may be
      one text, with spaces between.

  Returns:
    The settings.

  Raises:
    ValueError: All that is wrong, by name.
  """
  raw = dict(config if isinstance(config, Mapping) else config.to_dict())
  for name in _NAMES:
    raw[name] = _names(raw.get(name, ()))
  if isinstance(raw.get("timing"), Mapping):
    stages = _names(raw["timing"].get("stages", ()))
    short = {("all",): raw["trees"], ("first",): raw["trees"][:1]}
    stages = short.get(stages, stages) if isinstance(stages, tuple) else stages
    raw["timing"] = {**raw["timing"], "stages": stages}
  settings = frozen.build(Run, raw)
  faults = [*_wrong_names(settings), *_wrong_numbers(settings)]
  if faults:
    raise ValueError("; ".join(faults))
  selecting.questions(settings)
  return settings


def to_dict(settings: Run) -> dict:
  """What is kept with the results; `from_config` reads it again."""
  return dataclasses.asdict(settings)


def rules_on(settings: Run, tree: str, proposal: str) -> tuple[str, ...]:
  """The verifiers that are defined on a tree and for a proposal."""
  return tuple(
    name for name in settings.verifiers if not _misfit(name, tree, proposal)
  )


def _names(value):
  """Names of which several may be in one text."""
  if isinstance(value, str):
    return tuple(names.split(value))
  if all(isinstance(one, str) for one in value):
    return tuple(name for one in value for name in names.split(one))
  return value


def _wrong_names(settings: Run):
  """What is no name of anything."""
  models = settings.models
  choices = (
    ("models.draft_kind", models.draft_kind, [*drafting.KINDS]),
    ("models.template", models.template, [*prompts.TEMPLATES]),
    ("models.dtype", models.dtype, ("", "float32", "bfloat16", "float16")),
  )
  for name, value, known in choices:
    if value not in known:
      yield f"{name}={value!r} is not one of {', '.join(map(repr, known))}"
  for name in ("target", "draft"):
    if not getattr(models, name):
      yield f"models.{name} is empty: give a directory or a hub repository"
  experiment = settings.experiment
  if not experiment.strip(". ") or not _is_name(experiment):
    yield (
      f"experiment={experiment!r} must be a name without slashes, and not dots"
      " alone"
    )
  for name in ("tasks", *(f"{axis}s" for axis in AXES)):
    values = getattr(settings, name)
    if not values and name != "tasks":
      yield f"{name} is empty"
    for value in sorted({v for v in values if values.count(v) > 1}):
      yield f"{name} holds {value!r} twice"
  for tree in settings.timing.stages if settings.timing.per_task else ():
    if tree not in settings.trees:
      yield (
        f"timing.stages: {tree!r} is none of the trees"
        f' {" ".join(settings.trees)}: give some of these, "first", "all", or'
        ' "" for none'
      )
  rules = (*settings.verifiers, settings.baseline)
  bad = [
    *_refused(tree_lib.parse, "trees", settings.trees),
    *_refused(verifiers.resolve, "verifiers", dict.fromkeys(rules)),
    *_refused(proposals.resolve, "proposals", settings.proposals),
  ]
  yield from bad or _useless(settings)


def _is_name(text) -> bool:
  """Whether a folder in runs/ can be called so."""
  return "/" not in text and text.isprintable()


def _refused(function, name, values):
  """What a function says against values."""
  for value in values:
    try:
      function(value)
    except ValueError as error:
      yield f"{name}: {error}"


def _useless(settings):
  """Rules that would never run, and a baseline that expects nothing."""
  baseline = verifiers.resolve(settings.baseline)
  if baseline.stop_law is None:
    yield (
      f"baseline={settings.baseline!r} has no stop law to compare with: give a"
      " Verifier(decide=.., stop_law=..)"
    )
  places = [*itertools.product(settings.trees, settings.proposals)]
  if not places:  # which is said of itself
    return
  used = {name for place in places for name in rules_on(settings, *place)}
  for name in settings.verifiers:
    if name not in used:
      yield f"verifiers: {name!r} would never run: {_misfit(name, *places[0])}"
  for place in places:
    if reason := _misfit(settings.baseline, *place):
      yield f"baseline: {reason}"


def _misfit(name, tree, proposal):
  """Why a rule is not defined for a tree and a proposal; None: it is."""
  return verifiers.misfit(
    verifiers.resolve(name), tree_lib.parse(tree), proposals.resolve(proposal)
  )


def _wrong_numbers(settings: Run):
  """What is out of range."""
  for path, least in _LEAST.items():
    value = settings
    for name in path.split("."):
      value = getattr(value, name)
    if value < least:
      yield f"{path}={value} must be {least} or more"
  for value in settings.temperatures:
    if not probs.is_temperature(value):
      yield (
        f"temperatures: {value} must be 0 or a positive number, at least"
        f" {probs.COLDEST:g}"
      )
  for value in settings.seeds:
    if not 0 <= value < 2**32:
      yield f"seeds: {value} must be 0 or more, and below 2^32"
  if not probs.is_temperature(settings.draft_temperature):
    yield (
      f"draft_temperature={settings.draft_temperature} must be 0, for the"
      f" target's, or at least {probs.COLDEST:g}"
    )
  if not 0 < settings.top_p <= 1:
    yield f"top_p={settings.top_p} must be above 0, and 1 at most"
