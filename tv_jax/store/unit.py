"""What is in a unit's folder, for readers."""

import hashlib
import json
import os
import pathlib
from typing import NamedTuple

from tv_jax.store import files, records

CONFIG = "config.json"
ENVIRONMENTS = "env.json"
SOURCES = "sources.json"
ITEMS = "items.jsonl"
TIMING = "timing.json"
DONE = "DONE"


class Unit(NamedTuple):
  """A unit's folder, read."""

  config: dict
  environments: list[dict]
  items: tuple[dict, ...]  # by rising key, see records.in_order
  timing: dict | None  # None until speed was measured
  done: bool


def read(folder: str | os.PathLike) -> Unit:
  """Reads a unit's folder, whether or not a process is writing there.

  Args:
    folder: The unit's folder.

  Returns:
    What is in it; a torn last line is not.

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
  items, _ = records.parse(_bytes(path) or b"", path)
  return Unit(
    config=config,
    environments=load(folder / ENVIRONMENTS, list) or [],
    items=records.in_order(items),
    timing=load(folder / TIMING, dict),
    done=done,
  )


def unit_id(config: dict) -> str:
  """A short name for a config, the same in every process."""
  # Of the bytes of its config.json.
  data = files.to_bytes(config, "the config", indent=2)
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
    value = files.from_bytes(data)
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


def _text(mapping, field):
  """A field's value as JSON, which tells 1 from 1.0 and from true."""
  if field not in mapping:
    return "nothing"
  return json.dumps(mapping[field], ensure_ascii=False, sort_keys=True)


def _bytes(path):
  with files.explained(f"{path} cannot be read"):
    try:
      return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
      return None
