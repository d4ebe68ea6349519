"""Experiments: runs of a config, and the tables and figures made of them.

A shard is a part of a config's grid in a separate folder: a run that can be
killed, continued and moved to another machine.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from tv_jax import runs
from tv_jax.io import config_flag, names
from tv_jax.io.errors import UserError
from tv_jax.models import native
from tv_jax.runs import store
from tv_jax.runs.records import AXES, PLAIN, key_of
from tv_jax.runs.tables import Report

# The object of each experiment, by name, in the order of the results page.
NAMES = {
  "main_table": "experiments.sweeps:MAIN_TABLE",
  "temperature": "experiments.sweeps:TEMPERATURE",
  "depth": "experiments.sweeps:DEPTH",
  "quality": "experiments.quality:QUALITY",
  "drafts": "experiments.trees:DRAFTS",
}

# The parts of a config's grid: by the name of each one's folder, the fields to
# set, by dotted name.
Shards = Mapping[str, Mapping[str, Any]]


class Planned(NamedTuple):
  """A run of an experiment.

  Attributes:
    name: The config's name and the shard's, which is also its folder.
    flags: The config and its fields, as `tv_jax.main` takes them.
    settings: What the flags say.
  """

  name: str
  flags: tuple[str, ...]
  settings: runs.Run


@dataclasses.dataclass(frozen=True)
class Group:
  """The runs of a config, and therefore of a pair of models.

  Attributes:
    name: The config's name.
    units: The runs that have begun.
    missing: The names of runs that have not begun, or are not finished.
  """

  name: str
  units: tuple[store.StoredRun, ...]
  missing: tuple[str, ...] = ()

  @property
  def config(self) -> dict:
    """The first run's config; others differ in what `sweep` sets."""
    return self.units[0].config

  @functools.cached_property
  def cycles(self) -> pd.DataFrame:
    """All cycles; see `tv_jax.frame`."""
    return runs.frame(_unique(self.units))

  @functools.cached_property
  def answers(self) -> pd.DataFrame:
    """All answers; see `tv_jax.runs.answers`."""
    return runs.answers(_unique(self.units))

  @property
  def drafted(self) -> pd.DataFrame:
    """All cycles that drafted."""
    return self.cycles[self.cycles["verifier"] != PLAIN]

  @property
  def rules(self) -> list[str]:
    """The baseline, and the other rules of the runs."""
    ran = (rule for unit in self.units for rule in unit.config["verifiers"])
    return [*dict.fromkeys([self.config["baseline"], *ran])]

  @property
  def models(self) -> str:
    """The names of the target and the draft."""
    models = self.config["models"]
    return f"{models['target']} with {models['draft']}"

  @property
  def notes(self) -> list[str]:
    """Describes the models and questions, and lists missing runs."""
    answers = self.answers
    seeds = {seed for unit in self.units for seed in unit.config["seeds"]}
    lines = [
      f"{self.name}: {self.models}; {answers['question'].nunique()} questions,"
      f" seeds {', '.join(map(str, sorted(seeds)))}."
    ]
    if failed := answers["error"].notna().sum():
      lines.append(f"{self.name}: {failed} ANSWERS FAILED.")
    if self.missing:
      lines.append(f"{self.name}: NOT FINISHED: {', '.join(self.missing)}.")
    return lines


def _unique(units: Sequence[store.StoredRun]) -> list[store.StoredRun]:
  """Leaves out answers that a larger run has as well."""
  by_size = sorted(units, key=lambda unit: len(unit.items))
  owner = {key_of(line): unit.folder for unit in by_size for line in unit.items}
  result = []
  for unit in units:
    own = (line for line in unit.items if owner[key_of(line)] == unit.folder)
    result.append(dataclasses.replace(unit, items=tuple(own)))
  return result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
  """A table or figure of the paper or a user, and the runs that it needs.

  Attributes:
    name: The name of its folder and files.
    title: A short title.
    sweep: `(config, smoke) -> shards`, the runs to make of a config; with
      `smoke` a minimal run that shows that everything works.
    render: Makes the report of all groups.
    configs: The bundled configs to run by default.
    base: Fields of the config to set in all runs.
  """

  name: str
  title: str
  sweep: Callable[[Any, bool], Shards]
  render: Callable[[Sequence[Group]], Report]
  configs: tuple[str, ...] = ("quickstart",)
  base: dict = dataclasses.field(default_factory=dict)


def find(name: str) -> Experiment:
  """Returns the experiment of this name, or a user's by `module:name`."""
  if name not in NAMES and ":" not in name:
    raise UserError(
      f"experiment {name!r} is not one of {', '.join(NAMES)}, nor module:name"
    )
  return names.load(NAMES.get(name, name), "experiment")


# Runs of the same grid may differ in these fields.
_OF_A_SHARD = (
  "experiment",
  "tasks",
  *(f"{axis}s" for axis in AXES),
  "plain",
  "batch_size",
  "padded_to",
  "timing",
  "explorer",
)
# Settings of runs that measure lengths and answers only.
LENGTHS_ALONE = {"timing.per_task": 0, "explorer.per_task": 0}
# Settings of a smoke run: everything happens, and nothing takes long.
SMOKE = {"per_task": 1, "seeds": (0,), "max_new_tokens": 16, **LENGTHS_ALONE}
_ROWS = 8  # more would be padding
SEEDS = (0, 1, 2)  # the paper's three runs


def planned(
  experiment: Experiment,
  argv: Sequence[str],
  smoke: bool = False,
  devices: int | None = None,
) -> list[Planned]:
  """Returns the runs of an experiment.

  Args:
    experiment: The experiment.
    argv: The command line. Its configs are run, or else the experiment's own,
      with the fields that it sets.
    smoke: Whether to make minimal runs that show that everything works: of one
      config, if none is given, and of the first and the last of three trees.
    devices: The number of devices that share a target; None: as configs say.
  """
  result: dict[str, Planned] = {}
  defaults = experiment.configs[: 1 if smoke else None]
  for source, (config, given) in config_flag.several(argv, defaults).items():
    always = dict(SMOKE if smoke else {})
    trees = names.split(config.trees)
    if smoke and trees[2:]:
      always["trees"] = f"{trees[0]} {trees[-1]}"
    if smoke and config.batch_size > _ROWS:
      always["batch_size"] = _ROWS
    if devices and devices != config.models.devices:
      always["models.devices"] = devices
    shards = experiment.sweep(config, smoke)
    swept = set.intersection(*map(set, shards.values()))
    _check_fields(experiment, source, config, swept, given)
    for shard, own in shards.items():
      # A tuple that is given twice would be joined, so give it once.
      fields = {**given, **always, **experiment.base, **own}
      values = (f"--config.{field}={value}" for field, value in fields.items())
      flags = f"--config={source}", *values
      name = f"{config.experiment}/{shard}"
      if name in result:
        raise UserError(
          f"{name} is several runs: give each config another name"
        )
      whole = copy.deepcopy(config)
      whole.update_from_flattened_dict(fields)
      result[name] = Planned(name, flags, runs.from_config(whole))
  return [*result.values()]


def _check_fields(
  experiment: Experiment,
  source: str,
  config: Any,
  swept: Collection[str],
  given: Collection[str],
) -> None:
  """Refuses a flag, and tells of a config's own grid, that would be ignored."""
  own = {*swept, *experiment.base} - {"seeds"}
  if wrong := own.intersection(given):
    raise UserError(
      f"config.{min(wrong)} is set by the experiment itself: leave it out, or"
      " run the config with tv_jax.main"
    )
  usual = runs.Run(experiment="")
  for field in sorted(own.intersection(f"{axis}s" for axis in AXES)):
    value = config[field]
    words = value if isinstance(value, str) else " ".join(map(str, value))
    if words != " ".join(map(str, getattr(usual, field))):
      line = f"{source}: {field}={words} is not run: {experiment.name} sets it"
      print(line, file=sys.stderr)


def by_seed(
  config, smoke: bool, seeds: Sequence[int] = SEEDS
) -> dict[str, dict]:
  """Makes a shard for each of a config's seeds; with `smoke` only the first.

  Where the config has but one seed, `seeds` are taken.
  """
  seeds = tuple(config.seeds if len(config.seeds) > 1 else seeds)
  run = seeds[:1] if smoke else seeds
  return {f"seed-{seed}": {"seeds": (seed,)} for seed in run}


def read(folder: pathlib.Path, wanted: Sequence[str] = ()) -> Group:
  """Reads the runs in a folder, or a single run's folder.

  Args:
    folder: The folder of a config's shards.
    wanted: The names of the shards to read; by default all in the folder.
  """
  units = tuple(
    unit
    for unit in store.read_many(folder)
    if not wanted or unit.folder.name in wanted
  )
  if not units:
    raise UserError(f"{folder}: there is no run in it")
  shared = [
    {k: v for k, v in unit.config.items() if k not in _OF_A_SHARD}
    for unit in units
  ]
  for unit, config in zip(units, shared, strict=True):
    if differences := store.differences(shared[0], config):
      raise UserError(
        f"{units[0].folder} and {unit.folder} are not of one config:"
        f" {'; '.join(differences)}: give one of the two"
      )
    # Machines may differ, and other tasks have other questions.
    ignored = {native.SWITCH, "weights"}
    if unit.config["tasks"] != units[0].config["tasks"]:
      ignored.add("questions")
    changed = store.changed(units[0].sources, unit.sources, {})
    if changed := [name for name in changed if name not in ignored]:
      raise UserError(
        f"{units[0].folder} and {unit.folder} were made with different"
        f" {', '.join(changed)}: give one of the two"
      )
  done = {unit.folder.name for unit in units if unit.done}
  wanted = wanted or [unit.folder.name for unit in units]
  missing = tuple(name for name in wanted if name not in done)
  return Group(folder.absolute().name, units, missing)


def read_all(place: pathlib.Path) -> list[Group]:
  """Reads the runs of an experiment: a group for each config."""
  folders = sorted(place.iterdir()) if place.is_dir() else []
  groups = [
    read(folder)
    for folder in folders
    if folder.is_dir() and store.read_many(folder)
  ]
  if not groups:
    raise UserError(f"{place}: there is no run in it")
  return groups
