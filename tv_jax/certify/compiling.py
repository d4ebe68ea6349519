"""Compiling for programs that run a few times on small arrays."""

import jax


def jit(function):
  """`jax.jit` that skips LLVM's optimisation on a CPU.

  A certificate spends its time compiling, not running. XLA's own passes, which
  decide what is computed in which order, are as ever.
  """
  if jax.default_backend() != "cpu":
    return jax.jit(function)
  options = {"xla_backend_optimization_level": 0}
  return jax.jit(function, compiler_options=options)
