"""What is in a unit's folder, for readers."""

import dataclasses
import hashlib
import json
import os
import pathlib

from tv_jax.edge import disk, reading
from tv_jax.runs.records import Answer, Key
from tv_jax.runs.store import lines

CONFIG = "config.json"
ENVIRONMENTS = "env.json"
SOURCES = "sources.json"
ITEMS = "items.jsonl"
TIMING = "timing.json"
COUNT = "COUNT"
DONE = "DONE"
# What only the process that holds the lock writes, and replaces as a whole.
OWN = CONFIG, ENVIRONMENTS, SOURCES, TIMING, COUNT, DONE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
  """A unit's folder, read.

  Attributes:
    folder: Where it is.
    config: What was asked for.
    environments: All that wrote here.
    items: By rising key, see `in_order`.
    timing: None until speed was measured.
    done: Whether nothing is left to do.
    answered: Whether all answers are there; times may be still to be taken.
  """

  folder: pathlib.Path
  config: dict
  environments: list[dict]
  items: tuple[Answer, ...]
  timing: dict | None
  done: bool
  answered: bool


def read(folder: str | os.PathLike) -> Unit:
  """Reads a unit's folder, whether or not a process is writing there.

  A torn last line is left out.

  Raises:
    ValueError: The folder is no unit, or a file in it is damaged.
    StoreError: A file could not be read.
  """
  folder = pathlib.Path(folder)
  config = load(folder / CONFIG, dict)
  if config is None:
    raise ValueError(
      f"{folder} is no unit of an experiment: there is no {CONFIG}"
    )
  # Before the rest: what a writer finished is not finished by half here.
  done = _bytes(folder / DONE) is not None
  path = folder / ITEMS
  items, _ = lines.parse(_bytes(path) or b"", path, Answer.of)
  count = _bytes(folder / COUNT)
  return Unit(
    folder=folder,
    config=config,
    environments=load(folder / ENVIRONMENTS, list) or [],
    items=in_order(items),
    timing=load(folder / TIMING, dict),
    done=done,
    answered=done or (count or b"").strip() == b"%d" % len(items),
  )


def read_many(root: str | os.PathLike) -> tuple[Unit, ...]:
  """Reads all units in a folder and below it, sorted by path.

  Other folders are left out; units that are not finished say so (`done`).

  Raises:
    ValueError: A unit is damaged.
    StoreError: There is no such folder, or a file could not be read.
  """

  def refuse(error):
    raise disk.StoreError(f"{error.filename} cannot be read: {error.strerror}")

  # A folder with nothing but a config.json is a model's, say.
  found = [
    pathlib.Path(folder)
    for folder, _, names in os.walk(root, onerror=refuse)
    if {ITEMS, ENVIRONMENTS} & {*names}
  ]
  return tuple(map(read, sorted(found)))


def in_order(found: dict[Key, Answer]) -> tuple[Answer, ...]:
  """The answers by rising key, field by field: numbers first, then strings.

  So whatever is made of them does not depend on the order of the lines.
  """

  def rank(key):
    return [(isinstance(value, str), value) for value in key.fields.values()]

  return tuple(found[key] for key in sorted(found, key=rank))


def unit_id(config: dict) -> str:
  """A short name for a config, the same in every process."""
  # Of the bytes of its config.json.
  data = disk.to_bytes(config, "the config", indent=2)
  return hashlib.sha256(data).hexdigest()[:12]


def load(path: pathlib.Path, kind: type):
  """The JSON value in a file; None if there is no file.

  Raises:
    ValueError: It is no JSON of this kind, a dict or a list.
    StoreError: The file could not be read.
  """
  data = _bytes(path)
  if data is None:
    return None
  try:
    value = disk.from_bytes(data)
  except ValueError as error:
    raise ValueError(f"{path} is no JSON: {error}") from error
  if not isinstance(value, kind):
    raise ValueError(f"{path} holds no {kind.__name__}")
  return value


def differences(there: dict, now: dict, prefix: str = "") -> list[str]:
  """What differs between two dicts of JSON values, by dotted path."""
  found = []
  for field in sorted({*there, *now}):
    sides = there.get(field), now.get(field)
    if all(isinstance(side, dict) for side in sides):
      found += differences(*sides, f"{prefix}{field}.")
    elif (old := _text(there, field)) != (new := _text(now, field)):
      found.append(f"{prefix}{field}: {old} there, {new} now")
  return found


def changed(there: dict[str, str], now: dict[str, str]) -> list[str]:
  """The names of which two sets of sources have different hashes.

  Names before a slash are groups. A group that is not known of both starts is
  no difference: an older version may not have kept it, and what made a run that
  is finished need not be there any more.
  """

  def groups(names):
    return {name.partition("/")[0] for name in names}

  both = groups(there) & groups(now)
  return [
    name
    for name in sorted({*there, *now})
    if groups([name]) <= both and there.get(name) != now.get(name)
  ]


def _text(mapping, field):
  """A field's value as JSON, which tells 1 from 1.0 and from true."""
  if field not in mapping:
    return "nothing"
  return json.dumps(mapping[field], ensure_ascii=False, sort_keys=True)


def _bytes(path):
  with disk.explained(f"{path} cannot be read"):
    try:
      path.stat()
    except (FileNotFoundError, NotADirectoryError):
      return None
  return reading.data(path)
