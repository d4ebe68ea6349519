"""Every test runs strict: no silent promotion, warnings are errors.

And most run quickly compiled: nearly all of the time is that of compiling, and
without LLVM's optimiser it is a third. Where machine code is what is tested, or
where it runs for longer than it is compiled, a module is marked `optimised`.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

from tv_jax import decoding

_FLAGS = ["--xla_force_host_platform_device_count=2"]
if jax.__version_info__ < (0, 11):  # where it can still be chosen
  _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_FLAGS])

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def _own_programs(request):
  """Thousands of live executables crash a process; a module needs its own."""
  optimised = request.node.get_closest_marker("optimised") is not None
  jax.config.update("jax_disable_most_optimizations", not optimised)
  if optimised:
    decoding.compile.cache_clear()
  yield
  jax.clear_caches()
  if optimised:
    decoding.compile.cache_clear()


@pytest.fixture
def x64():
  """Float64 for the tests that compare with exact numbers."""
  with jax.enable_x64(True):
    yield
