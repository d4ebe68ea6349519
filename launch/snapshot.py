"""A sweep's configs, kept as they are when it is submitted."""

from __future__ import annotations

import pprint
from collections.abc import Sequence

from launch.sweep import Sweep
from launch.units import Pair
from tv_jax.edge import disk as files


def take(sweep: Sweep, pairs: Sequence[Pair]) -> Sweep:
  """The sweep with its configs as they are now: a job may start in a week."""
  folder, places = sweep.folder / "configs", {}
  folder.mkdir(exist_ok=True)
  for pair in pairs:
    fields = pair.config.copy_and_resolve_references().to_dict()
    path = folder / f"{pair.config.experiment}.py"
    text = _SNAPSHOT.format(
      name=pair.name, fields=pprint.pformat(fields, sort_dicts=False)
    )
    files.write_atomic(path, text)
    places[pair.name] = str(path)
  units = [unit._replace(config=places[unit.config]) for unit in sweep.units]
  return sweep._replace(units=tuple(units))


_SNAPSHOT = '''"""The config {name}, as it was when its sweep was submitted."""

import ml_collections

FIELDS = {fields}


def get_config():
  """All fields."""
  return ml_collections.ConfigDict(FIELDS)
'''
