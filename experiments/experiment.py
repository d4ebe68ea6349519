"""What an experiment is: what to run, and what is made of it.

A shard is a part of a config's grid with a folder of its own: a run that can be
killed, continued and moved to another machine by itself.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import ml_collections

from tv_jax.edge import names
from tv_jax.runs import store
from tv_jax.runs.records import AXES, Answer
from tv_jax.runs.store import unit as unit_lib

if TYPE_CHECKING:  # a launcher reads sweeps, and does without jax
  from tv_jax.runs.report.tables import Table


class Shard(NamedTuple):
  """A run of an experiment.

  Attributes:
    name: Of its folder.
    overrides: Of the config's fields, by dotted name.
  """

  name: str
  overrides: dict

  def of(self, config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """The config of this run."""
    own = config.copy_and_resolve_references()
    own.unlock()
    own.update_from_flattened_dict(self.overrides)
    return own.lock()


class Group(NamedTuple):
  """The runs of one config: one pair of models.

  Attributes:
    name: The config's.
    units: Of the shards, as far as they have begun.
    missing: The shards that have not, or are not finished.
  """

  name: str
  units: tuple[store.Unit, ...]
  missing: tuple[str, ...] = ()

  @property
  def config(self) -> dict:
    """The first run's; shards differ in what `sweep` sets."""
    return self.units[0].config

  @property
  def answers(self) -> list[Answer]:
    """Of all runs; of one that several have, that of the run with the most."""
    by_size = sorted(self.units, key=lambda unit: len(unit.items))
    found = {one.key: one for unit in by_size for one in unit.items}
    keys = dict.fromkeys(one.key for unit in self.units for one in unit.items)
    return [found[key] for key in keys]

  @property
  def trees(self) -> list[str]:
    """Of all runs, in the order of their configs."""
    found = [tree for unit in self.units for tree in unit.config["trees"]]
    return [*dict.fromkeys(found)]

  @property
  def models(self) -> str:
    """Which they are."""
    models = self.config["models"]
    eight = ", weights of eight bits" * (models.get("dtype") == "int8")
    return f"{models['target']} with {models['draft']}{eight}"


class Artefact(NamedTuple):
  """What an experiment comes to.

  Attributes:
    reading: What it shows, in sentences, with errors.
    tables: Of all groups.
    figures: SVG, by name.
    notes: What the numbers are of.
  """

  reading: Sequence[str]
  tables: Sequence[Table]
  figures: dict[str, str]
  notes: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
  """An experiment.

  Attributes:
    name: Of its module.
    title: A line.
    sweep: `(config, smoke) -> shards`: what to run of a config; `smoke`: as
      little as shows that it works.
    render: What is made of all groups that there are.
    configs: Bundled ones, to run where none is asked for.
    base: Overrides of all its runs.
    apart: Fields that are no axis of a grid, in which its runs differ all the
      same: the law of an answer, by question and method, is that of any run.
  """

  name: str
  title: str
  sweep: Callable[[ml_collections.ConfigDict, bool], Iterator[Shard]]
  render: Callable[[Sequence[Group]], Artefact]
  configs: tuple[str, ...] = ("quickstart",)
  base: dict = dataclasses.field(default_factory=dict)
  apart: tuple[str, ...] = ()

  @property
  def measures_speed(self) -> bool:
    """Whether other work on the same machine would change what it finds."""
    return bool(self.configs) and self.base.get("timing.per_task") != 0


# In these the runs of one grid may differ; answers do not depend on the rest.
_OF_A_SHARD = (
  "experiment",
  *(f"{axis}s" for axis in AXES),
  "plain",
  "baseline",
  "batch_size",
  "padded_to",
  "timing",
  "explorer",
)
# Of runs in which nothing but lengths and answers is asked for.
LENGTHS_ALONE = {"timing.per_task": 0, "explorer.per_task": 0}
# What a smoke run makes of any config: everything happens, nothing takes long.
SMOKE = {
  "per_task": 1,
  "seeds": (0,),
  "max_new_tokens": 16,
  **LENGTHS_ALONE,
}
_ROWS = 8  # more would be padding


def shards(
  experiment: Experiment, config: ml_collections.ConfigDict, smoke: bool
) -> list[Shard]:
  """What to run of a config, with everything that is set in it."""
  little = _little(config) if smoke else {}
  return [
    Shard(one.name, {**little, **experiment.base, **one.overrides})
    for one in experiment.sweep(config, smoke)
  ]


def _little(config) -> dict:
  """A smoke run's; of three trees and more it has the first and the last."""
  trees, little = names.split(config.trees), dict(SMOKE)
  if trees[2:]:
    little["trees"] = f"{trees[0]} {trees[-1]}"
  if config.batch_size > _ROWS:
    little["batch_size"] = _ROWS
  return little


def refuse_what_is_swept(
  experiment: Experiment,
  configs: Iterable[ml_collections.ConfigDict],
  fields: Iterable[str],
  smoke: bool,
) -> None:
  """A field that is set from outside must not be without effect.

  Where some shards leave it as it is given it has one.
  """
  own = [
    {*shard.overrides}
    for config in configs
    for shard in shards(experiment, config, smoke)
  ]
  swept = set.intersection(*own) - {"seeds"} if own else set()
  for field in fields:
    if field in swept:
      raise ValueError(
        f"config.{field} is set by the experiment itself: leave it out, or run"
        " the config with tv_jax.main"
      )


def seeds(config: ml_collections.ConfigDict) -> tuple[int, ...]:
  """Those of a config that has several; else the paper's three runs."""
  return tuple(config.seeds) if len(config.seeds) > 1 else (0, 1, 2)


def asked_of(experiment: Experiment, smoke: bool) -> tuple[str, ...]:
  """The configs where none is asked for; a smoke run does with one."""
  return experiment.configs[: 1 if smoke else None]


def common(config: dict, *more: str) -> dict:
  """What is alike in runs of which the answers are taken together.

  Args:
    config: A run's.
    *more: Further fields that do not matter.
  """
  own = {*_OF_A_SHARD, *more}
  return {name: value for name, value in config.items() if name not in own}


def read(
  folder: pathlib.Path,
  name: str,
  wanted: Sequence[str] = (),
  apart: Sequence[str] = (),
) -> Group:
  """The runs in a folder, or the one that it is.

  Args:
    folder: Of a config's shards.
    name: The config's.
    wanted: The shards; others that are there are of another sweep. By default
      all that are there.
    apart: As the experiment's.

  Raises:
    ValueError: There is none, or they are no parts of one grid.
  """
  units = tuple(
    unit
    for unit in store.read_many(folder)
    if not wanted or unit.folder.name in wanted
  )
  if not units:
    raise ValueError(f"{folder}: there is no run in it")
  first = units[0]
  for unit in units[1:]:
    configs = (common(one.config, *apart) for one in (first, unit))
    other = unit_lib.differences(*configs)
    if other:
      raise ValueError(
        f"{first.folder} and {unit.folder} are not of one config:"
        f" {'; '.join(other)}: give one of the two"
      )
  done = {unit.folder.name for unit in units if unit.done}
  wanted = wanted or [unit.folder.name for unit in units]
  return Group(name, units, tuple(one for one in wanted if one not in done))
