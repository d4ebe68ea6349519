"""What a run is told: frozen, and checked before any model is loaded."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from tv_jax import frozen, probs, prompts, verifiers
from tv_jax import tree as tree_lib
from tv_jax.pair import DRAFT_KINDS
from tv_jax.prompts import Question
from tv_jax.proposals import PROPOSALS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
  """The pair.

  Attributes:
    target: A directory, a hub repository, or "bundled/target".
    draft: Likewise; "bundled/draft" or "bundled/eagle".
    draft_kind: "llama" or "eagle".
    dtype: Of both; "": as stored, but float32 on a CPU.
    revision: A commit of the target's repository; "": the newest.
    draft_revision: Likewise.
    template: How questions become prompts: "chat", "vicuna" or "raw".
    devices: To split the target over; 1: no splitting.
    shard_draft: Whether to split a "llama" draft as well.
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
      plain decoding; their programs take as long to compile as all others.
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
class Settings:
  """A whole run: every field of a config.

  Attributes:
    experiment: Its name, and that of its folder.
    models: The pair.
    questions: A file in Spec-Bench's format, "spec_bench:" and the path of
      Spec-Bench's own, which is then checked to be whole, or "minibench".
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


def from_config(config) -> Settings:
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
    raw["timing"] = {**raw["timing"], "stages": stages}
  settings = frozen.build(Settings, raw)
  faults = [*_wrong_names(settings), *_wrong_numbers(settings)]
  if faults:
    raise ValueError("; ".join(faults))
  questions(settings)
  return settings


def to_dict(settings: Settings) -> dict:
  """What is kept with the results; `from_config` reads it again."""
  return dataclasses.asdict(settings)


def questions(settings: Settings) -> tuple[Question, ...]:
  """The questions that are asked."""
  kind, colon, path = settings.questions.partition(":")
  if kind == "spec_bench" and colon:
    found = prompts.load_spec_bench(path)
  else:
    found = prompts.load_questions(settings.questions)
  there = list(dict.fromkeys(question.task for question in found))
  for task in settings.tasks:
    if task not in there:
      raise ValueError(
        f"tasks: {task!r} is none of the questions': {', '.join(there)}"
      )
  if settings.tasks:
    found = [question for question in found if question.task in settings.tasks]
  return prompts.limit(found, per_task=settings.per_task or None)


def rules_on(settings: Settings, tree: str) -> tuple[str, ...]:
  """The verifiers that are defined on a tree."""
  chain = tree_lib.parse(tree).is_chain
  return tuple(
    name
    for name in settings.verifiers
    if chain or not verifiers.find(name).chains_only
  )


def _names(value):
  """Names of which several may be in one text."""
  if isinstance(value, str):
    return tuple(value.split())
  if all(isinstance(one, str) for one in value):
    return tuple(name for one in value for name in one.split())
  return value


def _wrong_names(settings: Settings):
  """What is no name of anything."""
  models = settings.models
  choices = (
    ("models.draft_kind", models.draft_kind, DRAFT_KINDS[:2]),
    ("models.template", models.template, [*prompts.TEMPLATES]),
    ("models.dtype", models.dtype, ("", "float32", "bfloat16", "float16")),
  )
  for name, value, known in choices:
    if value not in known:
      yield f"{name}={value!r} is not one of {', '.join(map(repr, known))}"
  for name in ("target", "draft"):
    if not getattr(models, name):
      yield f"models.{name} is empty: give a directory or a hub repository"
  if not settings.experiment or "/" in settings.experiment:
    yield f"experiment={settings.experiment!r} must be a name without slashes"
  for name in (*_NAMES, "temperatures", "seeds"):
    values = getattr(settings, name)
    if not values and name != "tasks":
      yield f"{name} is empty"
    for value in sorted({v for v in values if values.count(v) > 1}):
      yield f"{name} holds {value!r} twice"
  yield from _refused(tree_lib.parse, "trees", settings.trees)
  rules = (*settings.verifiers, settings.baseline)
  bad = [*_refused(verifiers.find, "verifiers", dict.fromkeys(rules))]
  yield from bad
  yield from (
    f"proposals: {name!r} is not one of {', '.join(PROPOSALS)}"
    for name in settings.proposals
    if name not in PROPOSALS
  )
  if not bad:
    yield from _useless(settings)


def _refused(function, name, values):
  """What a function says against values."""
  for value in values:
    try:
      function(value)
    except ValueError as error:
      yield f"{name}: {error}"


def _useless(settings):
  """Rules that would never run, and a baseline that expects nothing."""
  if verifiers.find(settings.baseline).stop_law is None:
    yield f"baseline={settings.baseline!r} has no stop law to compare with"
  if list(_refused(tree_lib.parse, "trees", settings.trees)):
    return
  used = {rule for tree in settings.trees for rule in rules_on(settings, tree)}
  for rule in settings.verifiers:
    if rule not in used:
      yield (
        f"verifiers: {rule!r} is defined for chains only, and no tree is one:"
        ' give one like "chain:5"'
      )


def _wrong_numbers(settings: Settings):
  """What is out of range."""
  for path, least in _LEAST.items():
    value = settings
    for name in path.split("."):
      value = getattr(value, name)
    if value < least:
      yield f"{path}={value} must be {least} or more"
  for value in settings.temperatures:
    if not 0 <= value < math.inf:
      yield f"temperatures: {value} must be 0 or a positive number"
  for value in (*settings.temperatures, settings.draft_temperature):
    if 0 < value < probs.COLDEST:
      yield f"temperature {value} is too low for float32: give 0 for greedy"
  for value in settings.seeds:
    if not 0 <= value < 2**32:
      yield f"seeds: {value} must be 0 or more, and below 2^32"
  if not 0 <= settings.draft_temperature < math.inf:
    yield f"draft_temperature={settings.draft_temperature} must be 0 or more"
  if not 0 < settings.top_p <= 1:
    yield f"top_p={settings.top_p} must be above 0, and 1 at most"
