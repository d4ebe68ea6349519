"""Units as tasks of Ray: on this machine's GPUs, or on a cluster's.

Ray starts a task where its GPUs are free, tells it which they are by
CUDA_VISIBLE_DEVICES, and starts it again when its process or its machine is
lost. The unit is a child process of the task: the store does the resuming, and
all of a device's memory is free again when it ends.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from launch import attempt, tries
from launch.units import Unit

LOCAL = "local"
# The launcher's variables that a unit on another machine must have.
_TAKEN = ("JAX_", "XLA_", "HF_", "PYTHONPATH")
_GRACE = 150.0  # seconds for units to end, after they were told


class TryAgainError(Exception):
  """A unit ended in a way that another try may help."""


class Asked(NamedTuple):
  """What the user asks of Ray.

  Attributes:
    address: Of a cluster; None: Ray is started here, and ended.
    gpus: Of each unit, where the user says so; None: the unit's, or none where
      the cluster has none.
    cpus: Of each unit.
    max_parallel: At most so many units at once; None: no limit.
    machine_gpus: Of this machine, where Ray is started here and cannot tell.
  """

  address: str | None = None
  gpus: int | None = None
  cpus: float = 1
  max_parallel: int | None = None
  machine_gpus: int | None = None


def run(
  units: Sequence[Unit],
  asked: Asked,
  *,
  workdir: pathlib.Path,
  retries: int,
  say: Callable[[str], None],
  listen: Callable[[], None],
) -> list[Unit]:
  """Runs units, as many at once as there is room for.

  Args:
    units: In the order of their starts.
    asked: What the user asks of Ray.
    workdir: Of the sweep: absolute, and seen by all machines.
    retries: Of a unit that was killed, or crashed, or whose machine was lost.
    say: Told what happens, a line at a time.
    listen: Called once Ray is up, which takes signals for itself.

  Returns:
    The units that failed; the others go on without them.

  Raises:
    ValueError: Ray is not installed or not there, or has no room for a unit.
  """
  try:
    import ray
  except ImportError as error:
    raise ValueError(
      "--backend=ray needs Ray: pip install 'tv-jax[ray]', or in a checkout"
      " .venv/bin/python -m pip install -e '.[ray]'"
    ) from error
  cluster = asked.address or os.environ.get("RAY_ADDRESS") or LOCAL
  check_address(cluster)
  own = {"num_gpus": asked.machine_gpus} if cluster == LOCAL else {}
  try:
    ray.init(
      address=cluster,
      log_to_driver=False,
      logging_level="ERROR",
      include_dashboard=False if cluster == LOCAL else None,
      **own,
    )
  except (ConnectionError, RuntimeError, ValueError, OSError) as error:
    first = str(error).strip().splitlines()[0]
    raise ValueError(f"--address={cluster}: {first}") from error
  listen()
  try:
    units = _with_room(ray, units, asked, say)
    with _token(workdir) as token:
      task = ray.remote(
        max_calls=1,
        max_retries=retries,
        retry_exceptions=[TryAgainError],  # pyright: ignore[reportArgumentType]
        num_cpus=asked.cpus,
      )(work)
      taken = {k: v for k, v in os.environ.items() if k.startswith(_TAKEN)}

      def start(unit):
        one = task.options(num_gpus=unit.gpus, name=unit.name)
        return one.remote(unit, token, os.getcwd(), taken)

      return _run(ray, units, start, asked.max_parallel or len(units), say)
  finally:
    ray.shutdown()


def check_address(address: str) -> None:
  """Refuses an address where nobody listens; Ray would try for minutes."""
  host, _, port = address.rpartition("://")[2].rpartition(":")
  if not port.isdigit():  # auto, or to be started here
    return
  try:
    socket.create_connection((host, int(port)), timeout=10).close()
  except (OSError, OverflowError) as error:
    reason = getattr(error, "strerror", None) or error
    raise ValueError(
      f"--address={address}: {reason}: is that where ray start --head said that"
      " it is?"
    ) from error


def _with_room(ray, units, asked: Asked, say) -> list[Unit]:
  """Returns the units with the GPUs that they get."""
  nodes = [one["Resources"] for one in ray.nodes() if one["Alive"]]
  gpus = [int(node.get("GPU", 0)) for node in nodes]
  say(f"Ray: machines {len(nodes)}, GPUs {sum(gpus)}")
  if not sum(gpus) and asked.gpus is None:
    say("there are no GPUs: units run on CPUs")
    units = [unit._replace(gpus=0) for unit in units]
  for unit in units:
    if unit.gpus > max(gpus):
      raise ValueError(
        f"{unit.name} needs {unit.gpus} GPUs, and no machine has more than"
        f" {max(gpus)}: give --gpus_per_unit"
      )
  if asked.cpus > (most := max(node.get("CPU", 0) for node in nodes)):
    raise ValueError(
      f"--cpus-per-unit={asked.cpus:g}: no machine has over {most:g}"
    )
  return [*units]


def _run(ray, units, start, max_parallel, say) -> list[Unit]:
  waiting, running, failed = [*units], {}, []
  try:
    while waiting or running:
      while waiting and len(running) < max_parallel:
        unit = waiting.pop(0)
        running[start(unit)] = unit
      # Not for long, so that a signal is heard.
      ended, _ = ray.wait([*running], timeout=1.0)
      for reference in ended:
        unit = running.pop(reference)
        try:
          line, well = ray.get(reference)
        except Exception as error:  # Ray's own, or the last try's
          line, well = f"{unit.name}: FAILED: {_words(error)}", False
          tries.give_up(unit.folder)
        say(line)
        if not well:
          failed.append(unit)
  except BaseException:
    say(f"{len(running)} units are told to end")
    for reference in running:
      ray.cancel(reference)
    # None is left behind that still writes.
    if running:
      ray.wait([*running], num_returns=len(running), timeout=_GRACE)
    raise
  return failed


def work(
  unit: Unit, token: pathlib.Path, cwd: str, variables: dict[str, str]
) -> tuple[str, bool]:
  """Runs a unit as a task; returns a line about it, and whether it ended well.

  Raises:
    TryAgainError: Another try may help.
  """
  if not token.exists():
    return (
      f"{unit.name}: FAILED: this machine does not see {token.parent}: give a"
      " --workdir that all machines share"
    ), False
  begin = time.monotonic()
  # What Ray sets, the devices for one, is this process's own.
  status = attempt.once(unit, cwd=cwd, environment={**variables, **os.environ})
  line = attempt.ended(unit, status, time.monotonic() - begin)
  well = attempt.succeeded(unit, status)
  if not well and status not in attempt.HOPELESS:
    raise TryAgainError(line)
  return line, well


@contextlib.contextmanager
def _token(workdir):
  """Makes a file that machines with the same folders see."""
  token = workdir / f".launched-{os.getpid()}"
  token.touch()
  try:
    yield token
  finally:
    token.unlink(missing_ok=True)


def _words(error) -> str:
  """Returns the last line that says something; of a unit's end, its line."""
  cause = getattr(error, "cause", None) or error
  lines = [line for line in str(cause).splitlines() if line.strip()]
  return lines[-1].strip() if lines else type(error).__name__
