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

  Raises:
    ValueError: Ray is not installed.
  """
  try:
    import ray  # an extra
  except ImportError as error:
    raise UserError(
      f"--backend=ray: {error}: python -m pip install 'ray>=2.40'"
    ) from error
  passed = {k: v for k, v in os.environ.items() if k.startswith(_PASSED)}
  local = {"num_gpus": local_gpus, "include_dashboard": False}
  ray.init(
    address=address or "local",
    log_to_driver=False,
    runtime_env={"env_vars": passed},
    **({} if address else local),
  )
  try:
    _check_room(ray, units, cpus)
    task = ray.remote(max_calls=1, max_retries=_RESTARTS, num_cpus=cpus)(_work)
    running, failed = {}, []
    for unit in units:
      unit.folder.mkdir(parents=True, exist_ok=True)
      options = task.options(num_gpus=unit.gpus, name=unit.name)
      task_id = options.remote(unit.command[3:], os.getcwd(), str(unit.log))
      running[task_id] = unit
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
  finally:
    ray.shutdown()


def _check_room(ray, units: Sequence[Unit], cpus: float) -> None:
  """Refuses units that no machine can run; Ray would wait for ever."""
  nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
  gpus = max(int(node.get("GPU", 0)) for node in nodes)
  print(f"Ray: machines {len(nodes)}, GPUs of the largest {gpus}", flush=True)
  if (most := max(unit.gpus for unit in units)) > gpus:
    raise UserError(
      f"a unit needs {most} GPUs, and no machine has more than {gpus}: give"
      " --gpus_per_unit (0: units run on CPUs)"
    )
  if cpus > (cores := max(node.get("CPU", 0) for node in nodes)):
    raise UserError(f"--cpus_per_unit={cpus:g}: no machine has over {cores:g}")


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
