"""Compiled programs: made once in a process, kept on disk for the next.

A program is what jax compiled of a function of the engine, for a config and for
arrays of some shapes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import jax

from tv_jax.edge import disk
from tv_jax.engine.config import DecodeConfig

# Below so many seconds of compiling jax keeps nothing unless it is told to.
_JAXS_LEAST = 1.0

# On a CPU each loop of a program is mapped into memory by itself, 1,300 of them
# for the two programs of the EAGLE tree. Linux lets a process have 65,530, and
# XLA aborts beyond.
_MOST = 48

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


def program(
  function: Callable,
  config: DecodeConfig,
  *arguments,
  loops: bool,
  outputs=None,
) -> jax.stages.Compiled:
  """Compiles `function(config, *arguments)`, unless it is there already.

  Args:
    function: What to compile.
    config: How to decode, static.
    *arguments: Arrays; the last is donated.
    loops: Whether it is a loop over cycles, which a GPU runs as one graph.
    outputs: Where results lie, over several devices: a tree of shardings.
  """
  leaves, structure = jax.tree.flatten(arguments)
  shapes = tuple(
    jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) for x in leaves
  )
  outputs = jax.tree.flatten(outputs)
  numerics = _config("default_matmul_precision"), _config("enable_x64")
  return _compile(
    function,
    config,
    shapes,
    structure,
    loops,
    (*outputs[0],),
    outputs[1],
    numerics,
  )


@functools.lru_cache(maxsize=_MOST)
def _compile(
  function, config, shapes, structure, loops, places, results, numerics
):
  del numerics  # another program, though nothing here says so
  arguments = jax.tree.unflatten(structure, shapes)
  jitted = jax.jit(
    functools.partial(function, config),
    donate_argnums=len(arguments) - 1,
    out_shardings=jax.tree.unflatten(results, places),
  )
  return jitted.lower(*arguments).compile(_graphs() if loops else None)


def _graphs() -> dict | None:
  """The compiler's options for loops on an NVIDIA GPU.

  Programs of less than a cycle are called again and again with other buffers: a
  graph would be made anew each time. What XLA_FLAGS says of graphs stands.
  """
  nvidia = "cuda" in jax.devices()[0].client.platform_version
  flagged = "xla_gpu_enable_command_buffer" in os.environ.get("XLA_FLAGS", "")
  wanted = os.environ.get("TV_JAX_CUDA_GRAPHS", "1") != "0" and not flagged
  return CAPTURE if nvidia and wanted else None


def forget_programs() -> None:
  """Gives back the memory of all compiled programs: the next compiles anew."""
  _compile.cache_clear()
  jax.clear_caches()


def keep_programs(folder: str | None = None) -> None:
  """Lets jax keep compiled programs from one start to the next.

  Args:
    folder: Where; "" for nowhere. By default where jax was told to, if it was
      (JAX_COMPILATION_CACHE_DIR, likewise), or a folder of this machine in the
      user's cache: programs for one processor may crash on another that shares
      the home.
  """
  if folder is None:
    if _config("compilation_cache_dir") is not None:
      return
    place = disk.cache_folder()
    try:
      place.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home that can be written to
      return
    folder = str(place)
  jax.config.update("jax_compilation_cache_dir", folder)
  # A start compiles many small programs: together they take as long as a large.
  if _config("persistent_cache_min_compile_time_secs") == _JAXS_LEAST:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _config(name: str):
  """Returns what jax is told; its configuration has no declared attributes."""
  return getattr(jax.config, f"jax_{name}")
