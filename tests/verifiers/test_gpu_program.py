"""The level-parallel forms as an H200 would run them, compiled without one."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks import gpu_program
from tv_jax import proposals, tree
from tv_jax.verifiers import VERIFIERS, Draft

pytestmark = pytest.mark.gpu_program

V = 128256
# Kernels of a decision as measured; launches are most of its cost.
KERNELS = {
  ("traversal", "chain:5"): 20,
  ("traversal", "kary:2x5"): 61,
  ("traversal", "eagle"): 48,
  ("token_level", "chain:5"): 12,
  ("token_level", "kary:2x5"): 22,
  ("token_level", "eagle"): 33,
}


@pytest.mark.parametrize(("name", "shape"), KERNELS)
def test_few_kernels_and_no_vocabulary_sized_temporary(name, shape):
  shaped = tree.parse(shape)
  N = len(shaped)

  def decide(tokens, q, p, eta):
    draft = Draft(shaped, proposals.WITHOUT_REPLACEMENT, tokens, q, p)
    return VERIFIERS[name].decide(draft, eta)

  laws = jax.ShapeDtypeStruct((N, V), jnp.float32)
  program = gpu_program.compile_for(
    decide,
    jax.ShapeDtypeStruct((N,), jnp.int32),
    laws,
    laws,
    jax.ShapeDtypeStruct((N,), jnp.float32),
  )
  # A newer XLA may fuse a little differently.
  assert len(program.kernels) <= KERNELS[name, shape] + 4
  assert program.memory.temp_size_in_bytes < 4 * V / 8
