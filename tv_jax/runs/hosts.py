"""Several processes, one run: what they agree on, and how they end.

All run the same program in lockstep, over the devices of all. What may go
wrong in one of them alone (a lock, a file, a full disk, a signal) is told where
they meet, in `Hosts.together`: there all go on, or all end. They meet at each
act of the store, which is all that a run knows of them.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import re
import socket
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from tv_jax.runs.records import Answer
from tv_jax.runs.store import Store, unit

# Seconds without a sign of life after which a process is given up, and jax
# ends the others.
SILENCE = 30
_ROOM = 1024  # bytes of what one process tells the others
# What the programs that run in lockstep are made by.
_ALIKE = ("tv_jax", "jax", "jaxlib", "flax", "transformers", "device")


class Hosts:
  """The processes of a run.

  Attributes:
    index: This one's; process 0 alone writes and prints.
    several: Whether there are others, from which it has not parted.
  """

  def __init__(
    self,
    index: int = 0,
    count: int = 1,
    interrupted: Callable[[], bool] = bool,
  ):
    """Knows of `count` processes, and whether this one was told to end."""
    self.index, self.several = index, count > 1
    self._interrupted = interrupted

  def together(self, function: Callable[[], Any] = lambda: None) -> Any:
    """Returns what `function` returns here, once it returned in all processes.

    Raises:
      Exception: What it raised here.
      KeyboardInterrupt: This process was told to end.
      ValueError: In one line, what happened to another process.
    """
    if not self.several:
      return function()
    value, error, interrupted = None, None, self._interrupted()
    try:
      value = function()
    except Exception as caught:
      error = caught
    told = " ".join(str(error).split()) or repr(error) if error else ""
    all_told = _gather(told or "interrupted" * interrupted)
    if not any(all_told):
      return value
    self.leave()
    if error:
      raise error
    if interrupted:
      raise KeyboardInterrupt
    index, told = next(pair for pair in enumerate(all_told) if pair[1])
    raise ValueError(f"process {index}: {told}")

  def of_first(self, function: Callable):
    """Returns what `function` returns in process 0, as JSON gives it back."""
    text = self.together(lambda: "" if self.index else json.dumps(function()))
    data = np.frombuffer(text.encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    padded = np.zeros(1 << size.bit_length(), np.uint8)
    padded[: len(data)] = data
    found = multihost_utils.broadcast_one_to_all(padded)
    return json.loads(found[:size].tobytes())

  def check_same(self, value: dict) -> None:
    """Refuses what is not the same in all processes, by its differences."""
    there, here = self.of_first(lambda: value), json.loads(json.dumps(value))

    def check():
      if changes := unit.differences(there, here):
        raise ValueError(f"not as in process 0: {'; '.join(changes)}")

    self.together(check)

  def leave(self) -> None:
    """Parts from the others, once they all come here."""
    if self.several:
      self.several = False
      jax.distributed.shutdown()

  @contextlib.contextmanager
  def ending(self):
    """Ends all processes with an error of one; a loss is an error of a line."""
    try:
      yield
    except jax.errors.JaxRuntimeError as error:
      if not self.several:
        raise
      raise ValueError(
        f"process {self.index} lost the others, and the same command continues"
        f" ({error})"
      ) from error
    except (ValueError, OSError) as error:
      self.together(functools.partial(_raise, error))

  def store(
    self, folder: str | os.PathLike, config: dict, environment: dict
  ) -> Store:
    """Opens the store of a run, for one process or for several."""
    if self.several:
      return _SharedStore(self, folder, config, environment)
    return Store(folder, config, environment)


class _SharedStore(Store):
  """A store whose acts are done in all processes, or in none.

  The others have copies of their own, without traces, in folders that go.
  """

  def __init__(self, hosts, folder, config, environment):
    self._hosts = hosts
    alike = {name: environment[name] for name in _ALIKE}
    hosts.check_same({"config": config, "environment": alike})
    hosts.together(functools.partial(_check_devices, config))
    self._copy = tempfile.TemporaryDirectory() if hosts.index else None
    place = self._copy.name if self._copy else folder
    hosts.together(
      functools.partial(super().__init__, place, config, environment)
    )
    there = hosts.of_first(
      lambda: {
        "lines": [dataclasses.replace(x, trace=None).line for x in self.items],
        "done": self.done,
        "timed": self.timed,
        "changes": self.environment_changes,
      }
    )
    for line in there["lines"] if hosts.index else ():
      super().append(Answer.of(line))
    self.done, self.timed = there["done"], there["timed"]
    self.environment_changes = there["changes"]

  def close(self) -> None:
    super().close()
    if self._copy:
      self._copy.cleanup()

  def append(self, answer: Answer) -> None:
    self._hosts.together(functools.partial(super().append, answer))

  def keep_sources(self, sources: dict[str, str]) -> None:
    self._hosts.together(functools.partial(super().keep_sources, sources))
    self._hosts.check_same({"sources": sources})

  def save_timing(self, timing: dict) -> None:
    self._hosts.together(functools.partial(super().save_timing, timing))

  def expect(self, count: int) -> None:
    self._hosts.together(functools.partial(super().expect, count))

  def finish(self) -> None:
    self._hosts.together(super().finish)

  def meet(self) -> None:
    self._hosts.together()


def _check_devices(config):
  own, there = config["models"]["devices"], jax.device_count()
  if own != there:
    raise ValueError(
      f"models.devices={own}: the {jax.process_count()} processes have {there}"
      f" devices, of which each must be used: give models.devices={there}"
    )


def _raise(error):
  raise error


def join(told: str | None, interrupted: Callable[[], bool]) -> Hosts:
  """Waits for all processes of a run; to be called before devices are used.

  Args:
    told: "auto" for what jax finds out about its launcher, or
      "HOST:PORT,COUNT,INDEX"; None if there is one process.
    interrupted: Whether this process was told to end.

  Raises:
    ValueError: There is no such launcher, or it is no such text.
  """
  if told is None:
    return Hosts()
  options = {} if told == "auto" else _options(told)
  # jax would take SIGTERM away from who hears it.
  jax.config.update("jax_enable_preemption_service", False)
  jax.config.update("jax_cpu_collectives_implementation", "gloo")
  start = functools.partial(
    jax.distributed.initialize, heartbeat_timeout_seconds=SILENCE, **options
  )
  try:
    # In a thread: then a signal is heard.
    concurrent.futures.ThreadPoolExecutor(1).submit(start).result()
  except (RuntimeError, ValueError) as error:
    raise ValueError(
      f"--distributed={told}: {error} Or give HOST:PORT,COUNT,INDEX"
    ) from error
  return Hosts(jax.process_index(), jax.process_count(), interrupted)


def _options(told):
  """Returns what `jax.distributed.initialize` calls the parts of the flag."""
  found = re.fullmatch(r"(\S+:(\d+)),(\d+),(\d+)", told)
  port, count, index = map(int, found.groups()[1:]) if found else (0, 0, 0)
  if found is None or index >= count:
    raise ValueError(
      f"--distributed={told}: give auto, or HOST:PORT,COUNT,INDEX: where"
      " process 0 is to be found, how many there are, and which this is, from 0"
    )
  if index == 0:  # of a port that is taken jax would crash
    try:
      socket.create_server(("", port)).close()
    except (OSError, OverflowError) as error:
      raise ValueError(
        f"--distributed={told}: port {port} cannot be had ({error})"
      ) from error
  return {
    "coordinator_address": found[1],
    "num_processes": count,
    "process_id": index,
    # All devices, where a launcher's rule would be one for each process.
    "cluster_detection_method": "deactivate",
  }


def _gather(told: str) -> list[str]:
  """Returns what each process tells."""
  own = np.zeros(_ROOM, np.uint8)
  data = told.encode()[:_ROOM]
  own[: len(data)] = np.frombuffer(data, np.uint8)
  found = multihost_utils.process_allgather(own)
  return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in found]
