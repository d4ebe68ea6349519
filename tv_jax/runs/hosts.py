"""Several processes, one run: what they agree on, and how they end.

All run the same program in lockstep, over the devices of all. What may go
wrong in one of them alone (a lock, a file, a full disk, a signal) is done where
they meet, in `Hosts.together`: there all go on, or all end.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import re
import socket
from collections.abc import Callable

import jax
import numpy as np
from jax.experimental import multihost_utils

from tv_jax.runs.store import unit

# Seconds without a sign of life after which a process is given up, and jax
# ends the others.
SILENCE = 30
_ROOM = 1024  # bytes of what one process tells the others


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hosts:
  """The processes of a run.

  Attributes:
    index: This one's; process 0 alone writes and prints.
    count: How many there are.
    interrupted: Whether this one was told to end.
  """

  index: int = 0
  count: int = 1
  interrupted: Callable[[], bool] = bool

  @property
  def first(self) -> bool:
    """Whether this is process 0."""
    return self.index == 0

  @property
  def several(self) -> bool:
    """Whether there are others."""
    return self.count > 1

  def together(self, function: Callable = lambda: None):
    """What `function` returns here, once it returned in all processes.

    Raises:
      Exception: What it raised here.
      KeyboardInterrupt: This process was told to end.
      ValueError: In one line, what happened to another process.
    """
    if not self.several:
      return function()
    value, error, interrupted = None, None, self.interrupted()
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
    """What `function` returns in process 0, as JSON gives it back, in all."""
    if not self.several:
      return function()
    text = self.together(lambda: json.dumps(function()) if self.first else "")
    data = np.frombuffer(text.encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    padded = np.zeros(1 << size.bit_length(), np.uint8)
    padded[: len(data)] = data
    found = multihost_utils.broadcast_one_to_all(padded)
    return json.loads(found[:size].tobytes())

  def check_same(self, value: dict) -> None:
    """Refuses what is not the same in all processes, by its differences."""
    if not self.several:
      return
    there, here = self.of_first(lambda: value), json.loads(json.dumps(value))

    def check():
      if changes := unit.differences(there, here):
        raise ValueError(f"not as in process 0: {'; '.join(changes)}")

    self.together(check)

  def leave(self) -> None:
    """Parts from the others, once they all come here."""
    if self.several:
      jax.distributed.shutdown()

  @contextlib.contextmanager
  def explained(self):
    """Makes of another process's loss an error of one line."""
    try:
      yield
    except jax.errors.JaxRuntimeError as error:
      if not self.several:
        raise
      raise ValueError(
        f"process {self.index} lost the others, and the same command goes on"
        f" ({error})"
      ) from error


ALONE = Hosts()


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
    return ALONE
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
  return Hosts(
    index=jax.process_index(),
    count=jax.process_count(),
    interrupted=interrupted,
  )


def _options(told):
  """What `jax.distributed.initialize` calls the parts of the flag."""
  found = re.fullmatch(r"(\S+:(\d+)),(\d+),(\d+)", told)
  port, count, index = map(int, found.groups()[1:]) if found else (0, 0, 0)
  if index >= count:
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
  """What each process tells."""
  own = np.zeros(_ROOM, np.uint8)
  data = told.encode()[:_ROOM]
  own[: len(data)] = np.frombuffer(data, np.uint8)
  found = multihost_utils.process_allgather(own)
  return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in found]
