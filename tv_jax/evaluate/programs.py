"""Compiled programs, kept from one start to the next."""

from __future__ import annotations

import hashlib
import os
import pathlib

import jax

from tv_jax.evaluate import environment


def keep_programs(folder: str | None = None) -> None:
  """Lets jax keep compiled programs, and find them again.

  Args:
    folder: Where; "" for nowhere. By default what JAX_COMPILATION_CACHE_DIR
      says, or a folder of this kind of machine in the user's cache: programs
      for one processor may crash on another that shares the home.
  """
  if folder is None:
    if jax.config.jax_compilation_cache_dir:
      return
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    kind = f"{jax.__version__} {environment.cpu()} {environment.features()}"
    digest = hashlib.sha256(kind.encode()).hexdigest()[:12]
    folder = str(pathlib.Path(home).expanduser() / "tv_jax" / digest)
  jax.config.update("jax_compilation_cache_dir", folder or None)
  # A start compiles many small programs: together they take as long as a large.
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
