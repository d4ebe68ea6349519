"""Compiled programs: made, kept for the next start, let go.

A program is what jax compiled of a function of the engine, for a plan and for
arrays of some shapes. Each is made once in a process.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import gc
import hashlib
import os
import pathlib
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from tv_jax.engine.plan import Plan

# Below so many seconds of compiling jax keeps nothing unless it is told to.
_JAXS_LEAST = 1.0

# In so many seconds of a processor what was kept is there.
_PATIENCE = 1.0

# On a CPU each loop of a program is mapped into memory by itself, 1,300 of them
# for the two programs of the EAGLE tree. Linux lets a process have 65,530, and
# XLA aborts beyond.
_MOST = 48

# Products of matrices, nearly all of a pass, are not LLVM's to make faster.
_HURRY = {
  "xla_backend_optimization_level": 0,
  "xla_llvm_disable_expensive_passes": True,
}
if jax.__version_info__ < (0, 11):  # there is nothing else later
  _HURRY["xla_cpu_use_fusion_emitters"] = False

# Options that put a whole loop, its condition too, into one CUDA graph, where
# otherwise the host asks after every cycle whether to go on. Of the kinds of
# commands all are named: those that are on by default too.
CAPTURE = {
  "xla_gpu_enable_command_buffer": (
    "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,"
    "CONDITIONAL,WHILE"
  ),
  "xla_gpu_graph_min_graph_size": 1,
}

# What goes on around a compilation; see `announced`.
_around: contextvars.ContextVar[Callable] = contextvars.ContextVar(
  "around", default=contextlib.nullcontext
)


@functools.lru_cache(maxsize=_MOST)
def compile(
  function: Callable,
  plan: Plan,
  shapes: tuple[jax.ShapeDtypeStruct, ...],
  structure: Any,
  *,
  donated: tuple[int, ...] = (),
  places: Callable | None = None,
  loops: bool = False,
  hurried: bool = False,
  context: tuple = (),
  **static,
) -> jax.stages.Compiled:
  """Returns the program of `function(plan, *arguments, **static)`.

  Args:
    function: What to compile.
    plan: The plan.
    shapes: A ShapeDtypeStruct, with sharding, of each array of the arguments.
    structure: The tree that these are the leaves of; see `shapes_of`.
    donated: Which arguments are not needed any more.
    places: Of the arguments, to the shardings of the results: trees of them,
      or one for a whole tree, or None where it is of no account.
    loops: Whether it is a loop over cycles, which a GPU runs as one graph.
    hurried: Whether it runs so few times that to compile it would be most of
      its time: on a CPU a third of that, for a program that is slower.
    context: Of `context`, so that it makes a program of its own.
    **static: Arguments that are no arrays.
  """
  del context
  arguments = jax.tree.unflatten(structure, shapes)
  options = {}
  if places is not None:
    options["out_shardings"] = places(*arguments)
  bound = functools.partial(function, plan, **static)
  program = jax.jit(bound, donate_argnums=donated, **options)
  lowered = program.lower(*arguments)
  with _around.get()():
    return lowered.compile(_flags(hurried=hurried, loops=loops))


def context() -> tuple:
  """Returns what jax is told that a program depends on."""
  return _config("default_matmul_precision"), _config("enable_x64")


def shapes_of(*arguments) -> tuple[tuple[jax.ShapeDtypeStruct, ...], Any]:
  """Returns `shapes` and `structure` of arguments, as `compile` takes them."""
  leaves, structure = jax.tree.flatten(arguments)
  shapes = tuple(
    jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) for x in leaves
  )
  return shapes, structure


def forget() -> None:
  """Gives back the memory of `generate`'s programs: the next compiles anew.

  Every tree, batch size and bucket of lengths that a process has decoded with
  keeps a program, and the allocator keeps what compiling took.
  """
  compile.cache_clear()
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
    if _config("compilation_cache_dir") is not None:
      return
    try:
      folder = _folder()
    except (OSError, RuntimeError):  # no home, or none that can be written to
      return
  jax.config.update("jax_compilation_cache_dir", folder)
  # A start compiles many small programs: together they take as long as a large.
  if _config("persistent_cache_min_compile_time_secs") == _JAXS_LEAST:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _config(name):
  """Returns what jax is told; its configuration has no declared attributes."""
  return getattr(jax.config, f"jax_{name}")


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
        folder = _config("compilation_cache_dir")
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
  before = _around.set(compiling)
  try:
    yield
  finally:
    _around.reset(before)


def _flags(*, hurried: bool, loops: bool) -> dict | None:
  """The compiler's options: for a CPU in a hurry; for loops on an NVIDIA GPU.

  Programs of less than a cycle are called again and again with other buffers: a
  graph would be made anew each time. What XLA_FLAGS says of graphs stands.
  """
  if jax.default_backend() == "cpu":
    return _HURRY if hurried else None
  nvidia = "cuda" in jax.devices()[0].client.platform_version
  told = "xla_gpu_enable_command_buffer" in os.environ.get("XLA_FLAGS", "")
  wanted = os.environ.get("TV_JAX_CUDA_GRAPHS", "1") != "0" and not told
  return CAPTURE if loops and nvidia and wanted else None


def cpu() -> str:
  """Returns the processor's name, where the system tells it."""
  return _told("model name") or platform.processor() or "unknown CPU"


def _told(name: str) -> str:
  """A field of the first processor."""
  path = pathlib.Path("/proc/cpuinfo")
  for line in path.read_text().splitlines() if path.exists() else ():
    if line.startswith(name):
      return line.partition(":")[2].strip()
  return ""
