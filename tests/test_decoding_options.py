"""What the compiler is told, by the kind of machine."""

import types

import jax
import pytest

from tv_jax.engine import programs


@pytest.fixture
def machine(monkeypatch):
  """A machine of a backend whose client is of a version."""

  def pretend(backend, version):
    client = types.SimpleNamespace(platform_version=version)
    device = types.SimpleNamespace(client=client)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "devices", lambda: [device])

  monkeypatch.delenv("TV_JAX_CUDA_GRAPHS", raising=False)
  return pretend


@pytest.mark.parametrize("hurried", [False, True])
def test_loops_are_cuda_graphs_where_there_is_cuda(machine, hurried):
  machine("gpu", "PJRT C API\ncuda 13000")
  assert programs._flags(hurried=hurried, loops=True) == programs.CAPTURE
  assert programs._flags(hurried=hurried, loops=False) is None
  machine("gpu", "PJRT C API\nrocm 70000")
  assert programs._flags(hurried=hurried, loops=True) is None


def test_they_are_not_where_one_says_so(machine, monkeypatch):
  machine("gpu", "PJRT C API\ncuda 13000")
  monkeypatch.setenv("TV_JAX_CUDA_GRAPHS", "0")
  assert programs._flags(hurried=False, loops=True) is None
  monkeypatch.setenv("TV_JAX_CUDA_GRAPHS", "1")
  assert programs._flags(hurried=False, loops=True) == programs.CAPTURE
  monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_command_buffer=")
  assert programs._flags(hurried=False, loops=True) is None


def test_a_cpu_is_told_something_in_a_hurry_alone(machine):
  machine("cpu", "cpu")
  assert programs._flags(hurried=False, loops=True) is None
  assert programs._flags(hurried=True, loops=True)
