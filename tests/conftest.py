"""Every test runs strict: no silent promotion, warnings are errors."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = (
  os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
)

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def _drop_compiled_programs():
  """Thousands of live executables crash a process; a module needs its own."""
  yield
  jax.clear_caches()


@pytest.fixture
def x64():
  """Float64 for the tests that compare with exact numbers."""
  with jax.enable_x64(True):
    yield
