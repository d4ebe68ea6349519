"""The crash-safe store of a run: a folder.

    config.json   the run's config
    env.json      the environments in which the run was started or continued
    sources.json  hashes of all inputs: files, questions, rules, switches
    items.jsonl   one line for each finished item
    timing.json   speed, once it is measured
    COUNT         the expected number of items
    DONE          exists when the run is finished
    lock          the writer: host and process

One process writes, and any number may read. A written item is on the disk when
the call returns: after a crash at any moment the same command continues with
the next item.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from tv_jax.io import disk
from tv_jax.io.disk import StoreError
from tv_jax.io.errors import UserError
from tv_jax.runs.records import AXES, key_in_words, key_of

CONFIG = "config.json"
ENVIRONMENTS = "env.json"
SOURCES = "sources.json"
ITEMS = "items.jsonl"
TIMING = "timing.json"
COUNT = "COUNT"
DONE = "DONE"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredRun:
  """The content of a run's folder.

  Attributes:
    folder: The run's folder.
    config: The run's config.
    environments: All environments that wrote here.
    sources: Hashes of all inputs.
    items: The answers' lines, sorted by key.
    timing: None until speed is measured.
    done: Whether the run is finished.
  """

  folder: pathlib.Path
  config: dict
  environments: list[dict] = dataclasses.field(default_factory=list)
  sources: dict[str, str] = dataclasses.field(default_factory=dict)
  items: tuple[dict, ...] = ()
  timing: dict | None = None
  done: bool = False


def read(folder: str | os.PathLike) -> StoredRun:
  """Reads a run's folder, whether or not a process is writing there.

  A torn last line is left out. Raises ValueError if the folder is not a run's,
  or is damaged.
  """
  folder = pathlib.Path(folder)
  config = load(folder / CONFIG)
  if config is None:
    raise UserError(
      f"{folder} is not a run's folder, or nothing is asked yet: it has no"
      f" {CONFIG}"
    )
  # Read first: everything was written before DONE.
  done = (folder / DONE).exists()
  answers, _ = _parse(folder / ITEMS)
  return StoredRun(
    folder=folder,
    config=config,
    environments=load(folder / ENVIRONMENTS) or [],
    sources=load(folder / SOURCES) or {},
    items=tuple(answers[key] for key in sorted(answers)),
    timing=load(folder / TIMING),
    done=done,
  )


def read_many(root: str | os.PathLike) -> tuple[StoredRun, ...]:
  """Reads all runs in a folder and below it, finished or not, by path."""
  # A folder with only a config.json may be a model's.
  folders = {path.parent for path in pathlib.Path(root).rglob(ENVIRONMENTS)}
  return tuple(map(read, sorted(folders)))


class Store:
  """A run's folder, locked for writing; a context manager.

  Attributes:
    folder: The folder.
    answers: The answers' lines by key, in their order.
    done: Whether the folder is marked as done.
    timing: The content of timing.json; None until speed is measured.
    sources: The content of sources.json; empty before the first start.
  """

  def __init__(
    self, folder: str | os.PathLike, config: dict, environment: dict
  ):
    """Makes a run's folder, or continues in it, and holds its lock.

    Args:
      folder: The run's folder; it is made, with its parents.
      config: The run's config, which cannot change once there are items.
      environment: Versions, device and "date".

    Raises:
      ValueError: The run has another config, or a damaged file.
      StoreError: Another process is writing there.
    """
    self.folder = folder = pathlib.Path(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
      disk.sync_folder(path.parent)
    with contextlib.ExitStack() as resources:
      disk.lock(folder, resources)
      disk.clear(folder)
      self.answers, size = _parse(folder / ITEMS)
      self._config, self._environment = disk.round_trip(config), environment
      self._former: dict = load(folder / CONFIG) or {}
      _check_config(self._config, self._former, folder, self.answers)
      file = (folder / ITEMS).open("ab", buffering=0)
      self._file = resources.enter_context(file)
      if size < file.tell():  # a torn line
        file.truncate(size)
        os.fsync(file.fileno())
      disk.sync_folder(folder)
      self._resources = resources.pop_all()
    self.sources: dict[str, str] = load(folder / SOURCES) or {}
    self.timing = load(folder / TIMING)
    self.done = (folder / DONE).exists()

  def __enter__(self) -> Store:
    """Returns the store itself."""
    return self

  def __exit__(self, *_) -> None:
    """Releases the lock."""
    self._resources.close()

  close = __exit__

  def keep_sources(self, sources: dict[str, str]) -> None:
    """Keeps the hashes of a run's inputs, by "group/name" or "group".

    Raises ValueError if items were made from other inputs.
    """
    known = self.sources if self.answers else {}
    if known and (names := changed(known, sources, self._former)):
      raise UserError(
        f"{self.folder}: changed since this run began: {', '.join(names)}: put"
        " back what was there, or give another --workdir"
      )
    self.sources = known | sources

  def begin(self, count: int) -> None:
    """Writes what the run is, now that its inputs are checked.

    Until then the folder is as it was, so that its former config can still be
    given if the new one is refused.

    Args:
      count: The expected number of items, which `launch` shows.
    """
    (self.folder / DONE).unlink(missing_ok=True)
    self.done = False
    disk.write_json(self.folder / SOURCES, self.sources)
    disk.write_json(self.folder / CONFIG, self._config)
    # An environment that differs only in its date is not stored again.
    path, now = self.folder / ENVIRONMENTS, self._environment
    before = load(path) or []
    if now | {"date": ""} not in [entry | {"date": ""} for entry in before]:
      disk.write_json(path, [*before, now])
    disk.write_json(self.folder / COUNT, count)

  def append(self, answer: dict) -> None:
    """Writes an answer's line; on return it is on the disk.

    Raises:
      ValueError: The answer exists already, or is not valid JSON.
      StoreError: The answer could not be written. All earlier answers are safe,
        and the store is closed; the next store removes a torn line.
    """
    key = key_of(answer)
    words = key_in_words(key)
    if key in self.answers:
      raise UserError(f"{self.folder}: {words} is there already")
    left = line = disk.to_bytes(answer)
    try:
      # A full disk takes only a part. The next write then raises the error.
      while left:
        left = left[self._file.write(left) :]
      os.fsync(self._file.fileno())
    except OSError as error:
      self.close()
      raise StoreError(
        f"{self.folder / ITEMS}: cannot write {words}: {error.strerror}; the"
        f" {len(self.answers)} items before it are safe, and the same command"
        " continues after them"
      ) from error
    self.answers[key] = json.loads(line)

  def save_timing(self, timing: dict) -> None:
    """Writes timing.json."""
    disk.write_json(self.folder / TIMING, timing)
    self.timing = timing

  def finish(self) -> None:
    """Marks the run as done."""
    disk.write_atomic(self.folder / DONE, "")
    self.done = True


def _check_config(
  config: dict, before: dict, folder: pathlib.Path, items: Collection
) -> None:
  """Refuses a change of a config, unless its grid has grown.

  Without items any config is accepted: a user can correct a config that fails
  at the first item.
  """
  path = folder / CONFIG
  if before and not before.keys() & config:  # perhaps a model's
    raise UserError(f"{path} is not a run's config: give another --workdir")
  if items and (changes := differences(before, _shrunk(config, before))):
    raise UserError(
      f"{folder} was made with another config: {'; '.join(changes)}: give the"
      " config that is there, or another --workdir; the lists of the grid may"
      " get more values"
    )


def _shrunk(config: dict, before: dict) -> dict:
  """Returns a config without the values that its grid has gained."""
  result = dict(config)
  for name in (f"{axis}s" for axis in AXES):
    known = before.get(name)
    if known and [x for x in config.get(name, ()) if x in known] == known:
      result[name] = known
  if before.get("plain") is False:
    result["plain"] = False
  return result


def load(path: pathlib.Path) -> Any:
  """Returns the JSON value in a file, or None without the file."""
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except (FileNotFoundError, NotADirectoryError):
    return None
  except ValueError as error:
    raise UserError(f"{path} is not JSON: {error}") from error


def differences(before: dict, now: dict, prefix: str = "") -> list[str]:
  """Returns what differs between two dicts of JSON values, by dotted path."""
  lines = []
  for field in sorted({*before, *now}):
    old, new = before.get(field), now.get(field)
    if isinstance(old, dict) and isinstance(new, dict):
      lines += differences(old, new, f"{prefix}{field}.")
    elif (old := _shown(before, field)) != (new := _shown(now, field)):
      lines.append(f"{prefix}{field}: {old} there, {new} now")
  return lines


def changed(
  before: dict[str, str], now: dict[str, str], config: Mapping
) -> list[str]:
  """Returns the names whose hashes differ.

  The part of a name before a slash is its group. A group that only one side has
  is ignored, since a finished run's models may have been removed. A tree, rule
  or proposal is compared if both sides have a hash of it, or if `config` names
  it. So the grid may grow, but a rule in it that was installed, and therefore
  had no hash, may not become a file of the user's.

  Args:
    before: The hashes of a run.
    now: The hashes of its continuation.
    config: The config of `before`.
  """
  grid = {
    "trees": config.get("trees", ()),
    "rules": [*config.get("verifiers", ()), config.get("baseline")],
    "proposals": config.get("proposals", ()),
  }
  shared = {name.partition("/")[0] for name in before}
  shared &= {name.partition("/")[0] for name in now}

  def is_compared(name: str) -> bool:
    group, _, value = name.partition("/")
    if group in grid:
      return value in grid[group] or (name in before and name in now)
    return group in shared

  return [
    name
    for name in sorted({*before, *now})
    if before.get(name) != now.get(name) and is_compared(name)
  ]


def _shown(mapping, field) -> str:
  """Returns a field's value as JSON, which tells 1 from 1.0 and from true."""
  if field not in mapping:
    return "nothing"
  return json.dumps(mapping[field], ensure_ascii=False, sort_keys=True)


def _parse(path: pathlib.Path) -> tuple[dict[tuple, dict], int]:
  """Returns a file's items without a torn last line, and their size in bytes.

  A crash tears the last line only. The line then lacks its newline, or holds
  zeros if the whole machine crashed. Any other damage raises ValueError.
  """
  items, size = {}, 0
  # Only b"\n" ends a line: a string may hold other separators, like U+2028.
  *lines, rest = (path.read_bytes() if path.exists() else b"").split(b"\n")
  for number, line in enumerate(lines, 1):
    where = f"{path}, line {number}"
    try:
      answer = json.loads(line.decode())
      key = key_of(answer)
    except KeyError as error:
      raise UserError(
        f"{where}: no {error}: an older version made it: give another --workdir"
      ) from error
    except ValueError as error:
      if number == len(lines) and not rest:
        break
      raise UserError(f"{where}: not JSON: {error}") from error
    if key in items:
      raise UserError(f"{where}: {key_in_words(key)} is there twice")
    items[key] = answer
    size += len(line) + 1
  return items, size
