"""Compiled programs: cached in the process, and on disk for later processes.

A program is an engine function, compiled for `Static` options and for arrays of
given shapes.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable

import jax

from tv_jax.engine.config import Static
from tv_jax.io import disk
from tv_jax.models import native

logger = logging.getLogger(__name__)

# jax's default for the shortest compilation kept on disk, in seconds.
_JAXS_LEAST = 1.0

# Maximum number of programs in the cache. On a CPU, XLA maps each loop of a
# program into memory separately, 1,300 times for the two programs of the EAGLE
# tree. Linux allows a process 65,530 mappings, and XLA aborts beyond that.
_MOST = 48

# Trees with more nodes, levels or children than this take minutes to compile.
_QUICK = 128, 12, 8

# Compiler options that put a whole loop, with its condition, into one CUDA
# graph. Otherwise the host checks the condition after every cycle. The option
# replaces the default list of commands, so all of them are named.
CAPTURE = {
  "xla_gpu_enable_command_buffer": (
    "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,"
    "CONDITIONAL,WHILE"
  ),
  "xla_gpu_graph_min_graph_size": 1,
}


def program(
  function: Callable,
  static: Static,
  *arguments,
  loops: bool,
  results: int,
) -> jax.stages.Compiled:
  """Compiles `function(static, *arguments)`, or finds it in the cache.

  Args:
    function: The function to compile.
    static: The options to compile for.
    *arguments: Parameters, the state, which is donated, and other arrays.
    loops: Whether the function loops over cycles. A GPU runs such a loop as one
      CUDA graph.
    results: Number of results. The first is the next state, with the shardings
      of the state.
  """
  leaves, structure = jax.tree.flatten(arguments)
  shapes = tuple(
    jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) for x in leaves
  )
  numerics = _config("default_matmul_precision"), _config("enable_x64")
  numerics += (native.used(),)
  return _compile(function, static, shapes, structure, loops, results, numerics)


@functools.lru_cache(maxsize=_MOST)
def _compile(function, static, shapes, structure, loops, results, numerics):
  del numerics  # part of the cache's key only: jax reads these settings
  _announce(function.__name__, static)
  arguments = jax.tree.unflatten(structure, shapes)
  state = jax.tree.map(lambda x: x.sharding, arguments[1])
  jitted = jax.jit(
    functools.partial(function, static),
    donate_argnums=1,
    out_shardings=state if results == 1 else (state, *[None] * (results - 1)),
  )
  return jitted.lower(*arguments).compile(_graphs() if loops else None)


def _announce(name: str, static: Static) -> None:
  """Logs each compilation; warns if the tree makes it slow."""
  level, note, method = logging.INFO, "", "plain decoding"
  if tree := static.tree:
    method = f"{' or '.join(rule.name for rule in static.among)} on {tree!r}"
    sizes = len(tree), tree.max_depth, tree.max_children
    if any(size > quick for size, quick in zip(sizes, _QUICK, strict=True)):
      level = logging.WARNING
      note = ": large trees take minutes (kary:2x10 took 3, grown:768 took 6)"
  logger.log(level, "compiling %s for %s%s", name, method, note)


def _graphs() -> dict | None:
  """Returns compiler options for a loop on an NVIDIA GPU, else None.

  Only loops get them. A program for a single cycle is called with other buffers
  each time, and each call would build a new graph. XLA_FLAGS take precedence.
  """
  nvidia = "cuda" in jax.devices()[0].client.platform_version
  flagged = "xla_gpu_enable_command_buffer" in os.environ.get("XLA_FLAGS", "")
  return CAPTURE if nvidia and not flagged else None


def forget_programs() -> None:
  """Drops all compiled programs of the engine; later calls compile again.

  jax holds references to some of them. `jax.clear_caches()`, called afterwards,
  frees these too, together with all other compiled functions of the process.
  """
  _compile.cache_clear()


def keep_programs(folder: str | None = None) -> None:
  """Makes jax keep compiled programs on disk for later processes.

  It changes jax's configuration for the whole process. Commands that decode
  call it; functions of the library do not.

  Args:
    folder: The folder, or "" to keep nothing. By default jax's own setting
      (JAX_COMPILATION_CACHE_DIR), if it has one, else ~/.cache/tv_jax/MACHINE.
      Machines that share a home folder do not share programs, since programs
      for one processor may crash on another.
  """
  if folder is None:
    if _config("compilation_cache_dir") is not None:
      return
    place = disk.cache_folder()
    try:
      place.mkdir(parents=True, exist_ok=True)
    except OSError:  # the home folder is not writable
      return
    folder = str(place)
  jax.config.update("jax_compilation_cache_dir", folder)
  # A process compiles many small programs, which together take as long as a
  # large one. So all are kept.
  if _config("persistent_cache_min_compile_time_secs") == _JAXS_LEAST:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _config(name: str):
  """Reads a setting of jax. Type checkers do not know these attributes."""
  return getattr(jax.config, f"jax_{name}")
