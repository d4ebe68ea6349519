"""What is in a run's folder, for readers: checked as it is read."""

import dataclasses
import json
import os
import pathlib

from tv_jax.edge import checks, disk, reading
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

_TEXTS = checks.list_of(checks.text)
_NUMBERS = checks.list_of(checks.number())
_COUNTS = checks.list_of(checks.integer())
_PAIR = {**dict.fromkeys(("target", "draft", "draft_kind"), checks.text)}
_CONFIG = checks.fields(
  {
    **dict.fromkeys(("experiment", "questions", "baseline"), checks.text),
    "models": checks.fields(_PAIR),
    **dict.fromkeys(("trees", "verifiers", "proposals"), _TEXTS),
    "temperatures": _NUMBERS,
    "seeds": _COUNTS,
  }
)
_ENVIRONMENTS = checks.list_of(checks.mapping_of(checks.anything))
_METHOD = checks.fields(
  {
    **dict.fromkeys(("tree", "proposal", "verifier"), checks.text),
    **dict.fromkeys(("temperature", "compile_seconds"), checks.number()),
    "questions": checks.list_of(checks.either(checks.integer(), checks.text)),
    "seconds": _NUMBERS,
    "tokens": _COUNTS,
    "cycles": checks.list_of(checks.integer(least=1)),
    "stages": checks.optional(checks.mapping_of(checks.anything)),
  }
)
_TIMING = checks.fields(
  {
    "methods": checks.list_of(_METHOD),
    "environment": checks.mapping_of(checks.anything),
  }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
  """A run's folder, read.

  Attributes:
    folder: Where it is.
    config: What was asked for.
    environments: All that wrote here.
    items: By rising key, see `in_order`.
    timing: None until speed was measured.
    done: Whether nothing is left to do.
  """

  folder: pathlib.Path
  config: dict
  environments: list[dict]
  items: tuple[Answer, ...]
  timing: dict | None
  done: bool


def read(folder: str | os.PathLike) -> Unit:
  """Reads a run's folder, whether or not a process is writing there.

  A torn last line is left out.

  Raises:
    ValueError: The folder is no run's, or a file in it is damaged.
    StoreError: A file could not be read.
  """
  folder = pathlib.Path(folder)
  config = load(folder / CONFIG, dict)
  if config is None:
    raise ValueError(f"{folder} is no run's folder: there is no {CONFIG}")
  _refuse(folder / CONFIG, checks.wrong(_CONFIG, config, most=3))
  # Before the rest: what a writer finished is not finished by half here.
  done = _bytes(folder / DONE) is not None
  environments = load(folder / ENVIRONMENTS, list) or []
  told = checks.wrong(_ENVIRONMENTS, environments, "environments")
  _refuse(folder / ENVIRONMENTS, told)
  path = folder / ITEMS
  items, _ = lines.parse(_bytes(path) or b"", path, Answer.of)
  for key, answer in items.items():
    tree = key.method.tree
    if not (answer.error or key.method.plain or tree in config["trees"]):
      _refuse(path, f"{key}: tree={tree!r} is none of the config's")
  timing = load(folder / TIMING, dict)
  if timing is not None:
    told = checks.wrong(_TIMING, timing, most=3) or _unlike(timing["methods"])
    _refuse(folder / TIMING, told)
  return Unit(
    folder=folder,
    config=config,
    environments=environments,
    items=in_order(items),
    timing=timing,
    done=done,
  )


def _unlike(methods: list[dict]) -> str:
  """Returns what cannot be compared among the times of some methods."""
  for method in methods:
    name = f"{method['verifier']} on {method['tree']}"
    if method["questions"] != methods[0]["questions"]:
      return f"{name} was timed on other questions"
    lists = ("questions", "seconds", "tokens", "cycles")
    if len({len(method[own]) for own in lists}) > 1:
      return f"{name} has other numbers of times"
  return ""


def _refuse(path: pathlib.Path, told: str) -> None:
  """Raises what is told of a file, if anything is."""
  if told:
    raise ValueError(f"{path}: {told}: remove it, or give another folder")


def read_many(root: str | os.PathLike) -> tuple[Unit, ...]:
  """Reads all runs in a folder and below it, sorted by path.

  Other folders are left out; runs that are not finished say so (`done`).

  Raises:
    ValueError: A run is damaged.
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
  """Returns the answers by rising key, numbers before strings.

  So whatever is made of them does not depend on the order of the lines.
  """

  def rank(key):
    return [(isinstance(value, str), value) for value in key.fields.values()]

  return tuple(found[key] for key in sorted(found, key=rank))


def load(path: pathlib.Path, kind: type):
  """Returns the JSON value in a file; None if there is no file.

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
  """Returns what differs between two dicts of JSON values, by dotted path."""
  found = []
  for field in sorted({*there, *now}):
    old, new = there.get(field), now.get(field)
    if isinstance(old, dict) and isinstance(new, dict):
      found += differences(old, new, f"{prefix}{field}.")
    elif (old := _text(there, field)) != (new := _text(now, field)):
      found.append(f"{prefix}{field}: {old} there, {new} now")
  return found


def changed(there: dict[str, str], now: dict[str, str]) -> list[str]:
  """Returns the names of which two sets of sources have different hashes.

  Names before a slash are groups. A group that is not known of both starts is
  no difference: the models of a finished run need not be there any more.
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
  """Returns a field's value as JSON, which tells 1 from 1.0 and from true."""
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
