"""Units as tasks of Ray: on this machine's GPUs, or on a cluster's.

Ray starts a task where its GPUs are free, and starts it again when its process
or its machine is lost. The run is the task's process itself, so it ends with
the task, and the GPU's memory is free again.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Sequence

from launch.units import Unit
from tv_jax.io.errors import UserError

# The launcher's variables that a unit on another machine must have.
_PASSED = ("JAX_", "XLA_", "HF_", "PYTHONPATH")
_RESTARTS = 2  # after the process or the machine of a unit is lost


def run(
  units: Sequence[Unit],
  address: str | None,
  cpus: float,
  local_gpus: int | None,
) -> list[Unit]:
  """Runs units, as many at once as there is room for.

  Args:
    units: The units, in the order of their starts.
    address: A Ray cluster's address; None: Ray is started here, and stopped.
    cpus: The number of CPUs for each unit.
    local_gpus: The number of this machine's GPUs, if Ray cannot detect them.

  Returns:
    The units that failed; the others go on without them.
  """
  try:
    import ray  # an extra
  except ImportError as error:
    raise UserError(
      f"--backend=ray: {error}: python -m pip install 'ray>=2.40'"
    ) from error
  passed = {k: v for k, v in os.environ.items() if k.startswith(_PASSED)}
  options: dict = {"address": address}
  if not address:
    options = {"address": "local", "num_gpus": local_gpus}
    options["include_dashboard"] = False
  with ray.init(
    log_to_driver=False, runtime_env={"env_vars": passed}, **options
  ):
    _check_room(ray.nodes(), units, cpus)
    task = ray.remote(max_calls=1, max_retries=_RESTARTS, num_cpus=cpus)(_work)
    running, failed = {}, []
    for unit in units:
      unit.folder.mkdir(parents=True, exist_ok=True)
      started = task.options(num_gpus=unit.gpus, name=unit.name).remote(
        unit.command[3:], os.getcwd(), str(unit.log)
      )
      running[started] = unit
    while running:
      (ended,), _ = ray.wait([*running])
      unit = running.pop(ended)
      try:
        status = ray.get(ended)
      except ray.exceptions.RayError as error:
        status = f"{error}".strip().splitlines()[-1]
      # Checked here, in case the unit's machine does not share the folder.
      success = not status and unit.done
      print(unit.progress + f" ({status})" * (not success), flush=True)
      if not success:
        failed.append(unit)
    return failed


def _check_room(nodes, units: Sequence[Unit], cpus: float) -> None:
  """Refuses units that no machine can run; Ray would wait for ever."""
  rooms = [node["Resources"] for node in nodes if node["Alive"]]
  gpus = max(unit.gpus for unit in units)
  for kind, wanted in (("GPU", gpus), ("CPU", cpus)):
    most = max(room.get(kind, 0) for room in rooms)
    print(f"Ray: {len(rooms)} machines with up to {most:g} {kind}s", flush=True)
    if wanted > most:
      raise UserError(
        f"a unit needs {wanted:g} {kind}s, and no machine has more than"
        f" {most:g}: give another --{kind.lower()}s_per_unit"
      )


def _work(arguments: Sequence[str], cwd: str, log: str) -> int | str | None:
  """Runs `tv_jax.main` in a fresh process; returns its exit status."""
  os.chdir(cwd)
  sys.path.insert(0, cwd)
  sys.argv = ["tv_jax.main", *arguments]
  with (
    open(log, "a", buffering=1) as file,
    contextlib.redirect_stdout(file),
    contextlib.redirect_stderr(file),
  ):
    os.dup2(file.fileno(), 2)  # for output of libraries
    try:
      runpy.run_module("tv_jax.main", run_name="__main__", alter_sys=True)
    except SystemExit as end:
      return end.code
  return 0
