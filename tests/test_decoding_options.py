"""What the compiler is told, by the kind of machine."""

import types

import jax
import pytest

from tv_jax.engine import programs

CUDA, ROCM = "PJRT C API\ncuda 13000", "PJRT C API\nrocm 70000"
OFF = {"TV_JAX_CUDA_GRAPHS": "0"}
OWN = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}


@pytest.mark.parametrize(
  ("backend", "version", "environment", "loops", "captured"),
  [
    ("gpu", CUDA, {}, True, True),
    ("gpu", CUDA, {}, False, False),
    ("gpu", CUDA, OFF, True, False),
    ("gpu", CUDA, OWN, True, False),
    ("gpu", ROCM, {}, True, False),
    ("cpu", "cpu", {}, True, False),
  ],
)
def test_loops_are_cuda_graphs_where_there_is_cuda(
  monkeypatch, backend, version, environment, loops, captured
):
  client = types.SimpleNamespace(platform_version=version)
  device = types.SimpleNamespace(client=client)
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  monkeypatch.setattr(jax, "devices", lambda: [device])
  monkeypatch.delenv("TV_JAX_CUDA_GRAPHS", raising=False)
  for name, value in environment.items():
    monkeypatch.setenv(name, value)
  found = programs._flags(hurried=False, loops=loops)
  assert found == (programs.CAPTURE if captured else None)
