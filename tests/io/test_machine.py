"""The cores and memory of a process that has fewer than its machine."""

import os

import pytest

from tv_jax.io import machine


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
  """No job of SLURM, and no cgroup."""
  for name in [*os.environ]:
    if name.startswith("SLURM_"):
      monkeypatch.delenv(name)
  monkeypatch.setattr(machine, "_GROUP", tmp_path / "group")
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


def test_the_least_limit_of_a_cgroup_counts(tmp_path):
  memory = machine.memory()
  (tmp_path / "group").write_text("0::/job/step\n")
  (tmp_path / "job" / "step").mkdir(parents=True)
  assert machine.memory() == memory
  (tmp_path / "job" / "step" / "memory.max").write_text("max\n")
  (tmp_path / "job" / "memory.max").write_text(f"{5 << 20}\n")
  assert machine.memory() == 5 << 20
  (tmp_path / "job" / "step" / "memory.max").write_text(f"{3 << 20}\n")
  assert machine.memory() == 3 << 20
