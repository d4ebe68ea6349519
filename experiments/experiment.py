"""What an experiment is: shards to run of a config, and what is made of them.

A shard is a part of a config's grid with a folder of its own: a run that can be
killed, continued and moved to another machine.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_collections

from tv_jax.edge import names
from tv_jax.edge.tables import Table
from tv_jax.runs import store
from tv_jax.runs.records import AXES, Answer


class Shard(NamedTuple):
  """A run of an experiment."""

  name: str  # of its folder
  overrides: dict  # fields of the config to set, by dotted name

  def of(self, config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns the config of this run."""
    own = config.copy_and_resolve_references()
    own.unlock()
    own.update_from_flattened_dict(self.overrides)
    return own.lock()


class Group(NamedTuple):
  """The runs of one config: one pair of models."""

  name: str  # the config's
  units: tuple[store.Unit, ...]  # the shards that have begun
  missing: tuple[str, ...] = ()  # those that have not, or are not finished

  @property
  def config(self) -> dict:
    """The first run's config; others differ in what `sweep` sets."""
    return self.units[0].config

  @property
  def answers(self) -> list[Answer]:
    """All answers; one that several runs have is the largest run's."""
    by_size = sorted(self.units, key=lambda unit: len(unit.items))
    found = {one.key: one for unit in by_size for one in unit.items}
    keys = dict.fromkeys(one.key for unit in self.units for one in unit.items)
    return [found[key] for key in keys]

  @property
  def models(self) -> str:
    """The names of the target and the draft."""
    models = self.config["models"]
    return f"{models['target']} with {models['draft']}"

  @property
  def notes(self) -> list[str]:
    """Says what the numbers are of, and what is missing."""
    answers = self.answers
    asked = {(one.task, one.question) for one in answers}
    seeds = {seed for unit in self.units for seed in unit.config["seeds"]}
    lines = [
      f"{self.name}: {self.models}; {len(asked)} questions, seeds"
      f" {', '.join(map(str, sorted(seeds)))}."
    ]
    if failed := sum(one.error is not None for one in answers):
      lines.append(f"{self.name}: {failed} ANSWERS FAILED.")
    if self.missing:
      lines.append(f"{self.name}: NOT FINISHED: {', '.join(self.missing)}.")
    return lines


@dataclasses.dataclass
class Artefact:
  """What is made of an experiment's runs: sentences, tables, SVG by name."""

  reading: list[str] = dataclasses.field(default_factory=list)
  tables: list[Table] = dataclasses.field(default_factory=list)
  figures: dict[str, str] = dataclasses.field(default_factory=dict)
  notes: list[str] = dataclasses.field(default_factory=list)  # on the numbers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
  """An experiment.

  Attributes:
    name: Of its folder and its files.
    title: One line.
    sweep: `(config, smoke) -> shards`: what to run of a config; `smoke`: as
      little as shows that it works.
    render: Makes the artefact of all groups that there are.
    configs: The bundled configs to run by default.
    base: Overrides of all runs.
    apart: Fields outside the grid in which the runs may differ: an answer does
      not depend on them.
  """

  name: str
  title: str
  sweep: Callable[[ml_collections.ConfigDict, bool], Iterator[Shard]]
  render: Callable[[Sequence[Group]], Artefact]
  configs: tuple[str, ...] = ("quickstart",)
  base: dict = dataclasses.field(default_factory=dict)
  apart: tuple[str, ...] = ()


# The runs of one grid may differ in these; answers do not depend on the rest.
_OF_A_SHARD = (
  "experiment",
  "tasks",
  *(f"{axis}s" for axis in AXES),
  "plain",
  "baseline",
  "batch_size",
  "padded_to",
  "timing",
  "explorer",
)
# For runs in which only lengths and answers are wanted.
LENGTHS_ALONE = {"timing.per_task": 0, "explorer.per_task": 0}
# What a smoke run sets: everything happens, nothing takes long.
SMOKE = {"per_task": 1, "seeds": (0,), "max_new_tokens": 16, **LENGTHS_ALONE}
_ROWS = 8  # more would be padding
SEEDS = (0, 1, 2)  # the paper's three runs


def shards(
  experiment: Experiment, config: ml_collections.ConfigDict, smoke: bool
) -> list[Shard]:
  """Returns what to run of a config, with everything that is set in it.

  A smoke run has the first and the last of three trees and more.
  """
  little = {}
  if smoke:
    asked: Any = config
    little, trees = dict(SMOKE), names.split(asked.trees)
    if trees[2:]:
      little["trees"] = f"{trees[0]} {trees[-1]}"
    if asked.batch_size > _ROWS:
      little["batch_size"] = _ROWS
  return [
    Shard(one.name, {**little, **experiment.base, **one.overrides})
    for one in experiment.sweep(config, smoke)
  ]


def by_seed(
  config, count: int | None, seeds: Sequence[int] = SEEDS
) -> Iterator[Shard]:
  """Makes a shard for each of a config's seeds, `count` of them at most.

  Where the config has but one seed, `seeds` are taken.
  """
  own = config.seeds if len(config.seeds) > 1 else seeds
  for seed in tuple(own)[:count]:
    yield Shard(f"seed-{seed}", {"seeds": (seed,)})


def refuse_what_is_swept(
  experiment: Experiment,
  configs: Iterable[ml_collections.ConfigDict],
  fields: Iterable[str],
  smoke: bool,
) -> None:
  """Refuses to set a field from outside that all shards set themselves."""
  own = [
    {*shard.overrides}
    for config in configs
    for shard in shards(experiment, config, smoke)
  ]
  swept = set.intersection(*own) - {"seeds"} if own else set()
  if wrong := swept.intersection(fields):
    raise ValueError(
      f"config.{min(wrong)} is set by the experiment itself: leave it out, or"
      " run the config with tv_jax.main"
    )


def asked_of(experiment: Experiment, smoke: bool) -> tuple[str, ...]:
  """Returns the default configs; a smoke run has one."""
  return experiment.configs[: 1 if smoke else None]


def read(
  folder: pathlib.Path,
  name: str,
  wanted: Sequence[str] = (),
  apart: Sequence[str] = (),
) -> Group:
  """Reads the runs in a folder, or the one that it is.

  Args:
    folder: The folder of a config's shards.
    name: The config's.
    wanted: The shards to read; by default all that are there.
    apart: As the experiment's.
  """
  units = tuple(
    unit
    for unit in store.read_many(folder)
    if not wanted or unit.folder.name in wanted
  )
  if not units:
    raise ValueError(f"{folder}: there is no run in it")
  may_differ = {*_OF_A_SHARD, *apart}
  first, *others = (
    {k: v for k, v in unit.config.items() if k not in may_differ}
    for unit in units
  )
  for unit, other in zip(units[1:], others, strict=True):
    if told := store.differences(first, other):
      raise ValueError(
        f"{units[0].folder} and {unit.folder} are not of one config:"
        f" {'; '.join(told)}: give one of the two"
      )
  done = {unit.folder.name for unit in units if unit.done}
  wanted = wanted or [unit.folder.name for unit in units]
  return Group(name, units, tuple(one for one in wanted if one not in done))
