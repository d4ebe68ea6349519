"""Compiled programs: of this process, and of those to come."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import os
import pathlib
import platform
import sys
import threading
import time
from collections.abc import Iterator

import jax

from tv_jax.engine import decoding

# Below so many seconds of compiling jax keeps nothing unless it is told to.
_JAXS_LEAST = 1.0

# In so many seconds of a processor what was kept is there.
_PATIENCE = 1.0


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


def keep(folder: str | None = None) -> None:
  """Lets jax keep compiled programs from one start to the next.

  Args:
    folder: Where; "" for nowhere. By default where jax was told to, if it was
      (JAX_COMPILATION_CACHE_DIR, likewise), or a folder of this kind of machine
      in the user's cache: programs for one processor may crash on another that
      shares the home.
  """
  if folder is None:
    if jax.config.jax_compilation_cache_dir is not None:
      return
    try:
      folder = _folder()
    except (OSError, RuntimeError):  # no home, or none that can be written to
      return
  jax.config.update("jax_compilation_cache_dir", folder)
  # A start compiles many small programs: together they take as long as a large.
  if jax.config.jax_persistent_cache_min_compile_time_secs == _JAXS_LEAST:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _folder() -> str:
  home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
  kind = f"{jax.__version__} {cpu()} {_told('flags')}"
  digest = hashlib.sha256(kind.encode()).hexdigest()[:12]
  folder = pathlib.Path(home).expanduser() / "tv_jax" / digest
  folder.mkdir(parents=True, exist_ok=True)
  return str(folder)


@contextlib.contextmanager
def announced(wanted: bool) -> Iterator[None]:
  """Says once, on stderr, that something is compiled in here, if it is.

  A program that was kept is there before anything is said.
  """
  said = []

  def watch(done):
    begin = time.process_time()
    while not said and not done.wait(0.1):
      if time.process_time() - begin > _PATIENCE:
        folder = jax.config.jax_compilation_cache_dir
        kept = f", and keeps the program in {folder}" if folder else ""
        said.append(f"tv_jax compiles{kept}")
        print(said[0], file=sys.stderr, flush=True)

  @contextlib.contextmanager
  def compiling():
    done = threading.Event()
    threading.Thread(target=watch, args=(done,), daemon=True).start()
    try:
      yield
    finally:
      done.set()

  if not wanted:
    yield
    return
  before = decoding.COMPILING.set(compiling)
  try:
    yield
  finally:
    decoding.COMPILING.reset(before)


def cpu() -> str:
  """The processor's name, where the system tells it."""
  return _told("model name") or platform.processor() or "unknown CPU"


def _told(name: str) -> str:
  """A field of the first processor."""
  path = pathlib.Path("/proc/cpuinfo")
  for line in path.read_text().splitlines() if path.exists() else ():
    if line.startswith(name):
      return line.partition(":")[2].strip()
  return ""
