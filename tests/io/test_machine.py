"""The cores and memory of a process that has fewer than its machine."""

import os

import pytest

from tv_jax.io import machine

GROUPS = {
  "version 2": ("0::/job/step\n", "job/memory.max", "job/step/memory.max"),
  "version 1": (
    "3:cpuset:/\n2:memory:/job/step\n0::/\n",
    "memory/job/memory.limit_in_bytes",
    "memory/job/step/memory.limit_in_bytes",
  ),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
  """No job of SLURM, and no cgroup."""
  for name in [*os.environ]:
    if name.startswith("SLURM_"):
      monkeypatch.delenv(name)
  monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
  monkeypatch.setattr(machine, "_CGROUPS", tmp_path)


def test_a_job_of_slurm_has_its_own_cores_and_memory(monkeypatch):
  cores, memory = machine.cores(), machine.memory()
  monkeypatch.setenv("SLURM_MEM_PER_NODE", "512")
  assert machine.memory() == 512 << 20 < memory
  monkeypatch.delenv("SLURM_MEM_PER_NODE")
  monkeypatch.setenv("SLURM_CPUS_ON_NODE", "1")
  monkeypatch.setenv("SLURM_MEM_PER_CPU", "300")
  assert machine.memory() == 300 << 20
  assert machine.cores() == 1 <= cores


@pytest.mark.parametrize("version", GROUPS)
def test_the_least_limit_of_a_cgroup_counts(version, tmp_path):
  memory = machine.memory()
  text, outer, inner = GROUPS[version]
  (tmp_path / "groups").write_text(text)
  (tmp_path / inner).parent.mkdir(parents=True)
  assert machine.memory() == memory
  (tmp_path / inner).write_text("max\n")
  (tmp_path / outer).write_text(f"{5 << 20}\n")
  assert machine.memory() == 5 << 20
  (tmp_path / inner).write_text(f"{3 << 20}\n")
  assert machine.memory() == 3 << 20
