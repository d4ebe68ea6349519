"""What a run is told: every field of a config, checked and frozen."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

from tv_jax import drafting, probs, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.edge import checks, names
from tv_jax.models import templates
from tv_jax.models.config import DTYPES
from tv_jax.runs import asking
from tv_jax.runs.records import AXES


def _is(check: checks.Check, *default) -> Any:
  """Returns a field whose values are checked so; old runs lack a new one."""
  more = {"default": default[0]} if default else {}
  return dataclasses.field(metadata={"check": check}, **more)


def _temperature(value, where, faults):
  if checks.is_number(value) and probs.is_temperature(value):
    return float(value)
  wanted = f"0, or a number from {probs.COLDEST:g} to {1 / probs.COLDEST:g}"
  return checks.refuse(where, value, wanted, faults)


def _named(resolve) -> checks.Check:
  """Checks a name that can be resolved, and leaves it a name."""

  def check(value, where, faults):
    value = checks.text(value, where, faults)
    try:
      if value is not None:
        resolve(value)
    except ValueError as error:
      faults.append(f"{where}: {error}")
    return value

  return check


def _model(value, where, faults):
  if isinstance(value, str) and value:
    return value
  wanted = "a directory, a GGUF file or a hub repository"
  return checks.refuse(where, value, wanted, faults)


def _folder_name(value, where, faults):
  """A folder in runs/ is called so."""
  sound = isinstance(value, str) and value.strip(". ") and value.isprintable()
  if sound and "/" not in value:
    return value
  wanted = "a name without slashes, and not dots alone"
  return checks.refuse(where, value, wanted, faults)


_COUNT = checks.integer(least=0)
_POSITIVE = checks.integer(least=1)
_TREE = _named(tree_lib.parse)
_RULE = _named(verifiers.resolve)
_PROPOSAL = _named(proposals.resolve)


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

  target: str = _is(_model)
  draft: str = _is(_model)
  draft_kind: str = _is(checks.one_of(drafting.KINDS))
  dtype: str = _is(checks.one_of(("", *DTYPES)))
  revision: str
  draft_revision: str
  template: str = _is(checks.one_of(templates.TEMPLATES))
  devices: int = _is(_POSITIVE)
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

  per_task: int = _is(_COUNT)
  rounds: int = _is(_POSITIVE)
  stages: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explorer:
  """What is kept for the report's tree explorer.

  Attributes:
    per_task: Questions of each task whose first turn is traced; 0: none.
    cycles: First cycles of each.
  """

  per_task: int = _is(_COUNT)
  cycles: int = _is(_POSITIVE)


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

  experiment: str = _is(_folder_name)
  models: Models
  questions: str
  tasks: tuple[str, ...]
  per_task: int = _is(_COUNT)
  exact_match: bool
  trees: tuple[str, ...] = _is(checks.list_of(_TREE))
  verifiers: tuple[str, ...] = _is(checks.list_of(_RULE))
  proposals: tuple[str, ...] = _is(checks.list_of(_PROPOSAL))
  temperatures: tuple[float, ...] = _is(checks.list_of(_temperature))
  seeds: tuple[int, ...] = _is(checks.list_of(checks.integer(0, 2**32 - 1)))
  plain: bool
  baseline: str = _is(_RULE)
  draft_temperature: float = _is(_temperature)
  draft_stop: float = _is(checks.number(0, below=1), 0.0)
  top_k: int = _is(_COUNT)
  top_p: float = _is(checks.number(above=0, most=1))
  max_new_tokens: int = _is(_POSITIVE)
  max_tokens: int = _is(_COUNT)
  batch_size: int = _is(_POSITIVE)
  padded_to: int = _is(_COUNT)
  timing: Timing
  explorer: Explorer

  @functools.cached_property
  def rules(self) -> dict[tuple, tuple[str, ...]]:
    """By tree and proposal, the verifiers that are defined for both."""
    return {
      place: tuple(name for name in self.verifiers if not _misfit(name, *place))
      for place in itertools.product(self.trees, self.proposals)
    }


def to_dict(settings: Run) -> dict:
  """Returns what is kept with the results; `from_config` reads it again."""
  raw = dataclasses.asdict(settings)
  if not settings.draft_stop:  # as in runs from before there was such a thing
    del raw["draft_stop"]
  return raw


def from_config(config) -> Run:
  """Checks a config, a ConfigDict or a dict, all of it, and freezes it.

  Lists of names may be one text, with spaces between.

  Raises:
    ValueError: All that is wrong, by name.
  """
  raw = dict(config if isinstance(config, Mapping) else config.to_dict())
  for name in ("tasks", "trees", "verifiers", "proposals"):
    raw[name] = _names(raw.get(name, ()))
  if isinstance(raw.get("timing"), Mapping):
    stages = _names(raw["timing"].get("stages", ()))
    if stages in (("all",), ("first",)) and isinstance(raw["trees"], tuple):
      stages = raw["trees"][: None if "all" in stages else 1]
    raw["timing"] = {**raw["timing"], "stages": stages}
  settings = checks.read(checks.build(Run), raw)
  if faults := [*_wrong_names(settings)] or [*_useless(settings)]:
    raise ValueError("; ".join(faults))
  asking.read_questions(settings)
  return settings


def _names(value):
  """Returns names of which several may be in one text."""
  if isinstance(value, str):
    return tuple(names.split(value))
  if isinstance(value, list | tuple) and all(
    isinstance(one, str) for one in value
  ):
    return tuple(name for one in value for name in names.split(one))
  return value


def _wrong_names(settings: Run):
  """Yields what is empty, there twice, or none of the trees."""
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


def _useless(settings: Run):
  """Yields rules that would never run, and a baseline that expects nothing."""
  if not verifiers.resolve(settings.baseline).offers:
    yield (
      f"baseline={settings.baseline!r} has no stop law to compare with: give a"
      " Verifier(offers=..)"
    )
  first, *_ = settings.rules
  for name in settings.verifiers:
    if not any(name in own for own in settings.rules.values()):
      yield f"verifiers: {name!r} would never run: {_misfit(name, *first)}"
  for place in settings.rules:
    if reason := _misfit(settings.baseline, *place):
      yield f"baseline: {reason}"


def _misfit(name: str, tree: str, proposal: str) -> str | None:
  """Returns why a rule is not defined for a tree and a proposal, if so."""
  return verifiers.misfit(
    verifiers.resolve(name), tree_lib.parse(tree), proposals.resolve(proposal)
  )
