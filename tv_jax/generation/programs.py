"""Compiled programs of this process, and the memory that they hold."""

from __future__ import annotations

import ctypes
import gc
import sys

import jax

from tv_jax import decoding


def forget() -> None:
  """Gives back the memory of `generate`'s programs: the next compiles anew.

  Every tree, batch size and bucket of lengths that a process has decoded with
  keeps a program, and the allocator keeps what compiling took.
  """
  decoding.compile.cache_clear()
  jax.clear_caches()
  gc.collect()
  if sys.platform == "linux":
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
      trim(0)
