"""A config, checked before any model is loaded, and frozen."""

import itertools
import operator
from collections.abc import Mapping

from tv_jax import drafting, probs, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.edge import checks, names
from tv_jax.models import templates
from tv_jax.models.config import DTYPES, INT8
from tv_jax.runs import asking
from tv_jax.runs.records import AXES
from tv_jax.runs.settings import Run

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
  """Checks a config, a ConfigDict or a dict, all of it, and freezes it.

  Lists of names may be one text, with spaces between.

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
  settings = checks.read(checks.build(Run), raw)
  faults = [*_wrong_names(settings), *_wrong_numbers(settings)]
  if faults:
    raise ValueError("; ".join(faults))
  asking.read_questions(settings)
  return settings


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
    ("models.template", models.template, [*templates.TEMPLATES]),
    ("models.dtype", models.dtype, ("", *DTYPES, INT8)),
  )
  for name, value, known in choices:
    if value not in known:
      yield f"{name}={value!r} is not one of {', '.join(map(repr, known))}"
  for name in ("target", "draft"):
    if not getattr(models, name):
      yield f"models.{name} is empty: give a directory or a hub repository"
  experiment = settings.experiment
  # A folder in runs/ is called so.
  printable = "/" not in experiment and experiment.isprintable()
  if not (experiment.strip(". ") and printable):
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
  used = {
    name for place in places for name in asking.rules_on(settings, *place)
  }
  for name in settings.verifiers:
    if name not in used:
      reason = asking.misfit(name, *places[0])
      yield f"verifiers: {name!r} would never run: {reason}"
  for place in places:
    if reason := asking.misfit(settings.baseline, *place):
      yield f"baseline: {reason}"


def _wrong_numbers(settings: Run):
  """What is out of range."""
  for path, least in _LEAST.items():
    if (value := operator.attrgetter(path)(settings)) < least:
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
      f" target's or the tuned tree's, or at least {probs.COLDEST:g}"
    )
  if not 0 < settings.top_p <= 1:
    yield f"top_p={settings.top_p} must be above 0, and 1 at most"
