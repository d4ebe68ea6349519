import jax
import jax.numpy as jnp
import pytest

from benchmarks import gpu_program

pytestmark = pytest.mark.gpu_program


@pytest.mark.parametrize("target", ["h200", "a6000"])
def test_a_function_compiles_for_a_gpu_that_is_not_here(target):
  program = gpu_program.compile_for(
    lambda x: jnp.sum(x * 2, -1),
    jax.ShapeDtypeStruct((4, 128256), jnp.float32),
    target=target,
  )
  assert 1 <= len(program.kernels) <= 2
  assert "fusion" in program.kernels[0]
  assert program.memory.temp_size_in_bytes < 4 * 128256
