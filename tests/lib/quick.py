"""Programs that are compiled in a third of the time, and run more slowly.

The tests spend nearly all of their time compiling, most of it in LLVM.
"""

import os

import jax
import pytest

_OPTION = "JAX_DISABLE_MOST_OPTIMIZATIONS"
_EMITTERS = "xla_cpu_use_fusion_emitters"
_CHOICE = jax.__version_info__ < (0, 11)  # later versions lack the choice

# Compiler options with which a program of a test that is marked `optimised` is
# what users get.
AS_USERS = {_EMITTERS: True} if _CHOICE else {}


def flags(devices=1):
  """XLA_FLAGS of a process that compiles quickly, or may."""
  found = [f"--xla_force_host_platform_device_count={devices}"]
  if _CHOICE:
    found.append(f"--{_EMITTERS}=false")
  return " ".join(found)


def choose(wanted):
  """Whether this process, and all that it starts, compile so from now on."""
  os.environ[_OPTION] = str(int(wanted))
  jax.config.update(_OPTION.lower(), wanted)


def shorter(cases, keep=1):
  """Parameters: `make test` tries the first, `make check` tries all."""
  rest = (
    pytest.param(
      *(case if isinstance(case, tuple) else [case]), marks=pytest.mark.long
    )
    for case in cases[keep:]
  )
  return [*cases[:keep], *rest]
