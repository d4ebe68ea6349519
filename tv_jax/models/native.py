"""Products of few rows with weights on a CPU, in C++ (few_tokens.cc).

XLA takes two to four times as long for 2 to 8 rows as for a single row. This
product takes little longer than reading the weights. `make` or the first use
compiles it into a library in the user's cache. Without a compiler, or with
TV_JAX_NATIVE=0, XLA multiplies.
"""

import ctypes
import functools
import hashlib
import math
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp

from tv_jax.io import disk

SWITCH = "TV_JAX_NATIVE"
MOST = 26  # rows; with more XLA's product is as fast
_SOURCE = pathlib.Path(__file__).with_name("few_tokens.cc")
_MACHINE = "-mcpu=native" if sys.platform == "darwin" else "-march=native"
_FLAGS = "-O3", "-std=c++17", "-shared", "-fPIC", "-w", _MACHINE


def used() -> bool:
  """Returns whether this process uses the library."""
  on = os.environ.get(SWITCH) != "0" and jax.default_backend() == "cpu"
  return on and _target() is not None


def fits(x: jax.Array, weights: jax.Array) -> bool:
  """Returns whether `product` takes these arguments and the library is used."""
  *rows, size = x.shape
  known = x.dtype == weights.dtype and x.dtype in (jnp.float32, jnp.bfloat16)
  known &= size == weights.shape[-1] and not size % 32
  return known and 0 < math.prod(rows) <= MOST and used()


def product(x: jax.Array, weights: jax.Array) -> jax.Array:
  """Returns the product [.., O] of x [.., K] and weights [O, K] in float32.

  A row's result has the same bits whatever the number of rows. Programs for
  other platforms use XLA's product.
  """
  y = _product(x.reshape(-1, x.shape[-1]), weights)
  return y.reshape(*x.shape[:-1], -1)


@jax.custom_jvp  # XLA multiplies in gradients
def _product(x, weights):
  return jax.lax.platform_dependent(x, weights, cpu=_few, default=_xla)


_product.defjvps(
  lambda change, _, x, weights: _xla(change, weights),
  lambda change, _, x, weights: _xla(x, change),
)


def _xla(x, weights):
  return jnp.einsum("TK,OK->TO", x, weights, preferred_element_type=jnp.float32)


def _few(x: jax.Array, weights: jax.Array):
  shape = jax.ShapeDtypeStruct((len(x), len(weights)), jnp.float32)
  name = str(_target())
  call = jax.ffi.ffi_call(name, shape, vmap_method="sequential")
  return call(x.astype(jnp.float32), weights)


@functools.cache
def _target() -> str | None:
  """Returns the product's name in XLA; None if it could not be compiled."""
  # A compiled program on disk finds the product by its name.
  recipe = f"{_SOURCE.read_text()} {_FLAGS} {jax.__version__} {_processor()}"
  digest = hashlib.sha256(recipe.encode()).hexdigest()[:16]
  name = f"tv_jax_few_tokens_{digest}"
  library = disk.cache_folder() / f"{name}.so"
  try:
    if not library.exists():
      _compile(library)
    call = jax.ffi.pycapsule(ctypes.CDLL(str(library)).FewTokens)
  except (OSError, subprocess.CalledProcessError) as error:
    why = (getattr(error, "stderr", "") or str(error)).splitlines()[0]
    print(f"XLA multiplies few tokens too, more slowly: {why}", file=sys.stderr)
    return None
  jax.ffi.register_ffi_target(name, call, platform="cpu")
  return name


def _processor() -> str:
  """Returns the processor's features: code for others could crash it."""
  try:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
  except OSError:
    return platform.processor()
  named = ("flags", "Features")
  return next((line for line in lines if line.startswith(named)), "")


def _compile(library: pathlib.Path) -> None:
  """Compiles the library for this machine's processor."""
  compiler = next(filter(shutil.which, ("c++", "g++", "clang++")), None)
  if compiler is None:
    raise OSError("there is no C++ compiler (c++, g++ or clang++)")
  library.parent.mkdir(parents=True, exist_ok=True)
  include = f"-I{jax.ffi.include_dir()}"
  with tempfile.TemporaryDirectory(dir=library.parent) as folder:
    made = pathlib.Path(folder, library.name)
    command = [compiler, *_FLAGS, include, _SOURCE, "-o", made]
    subprocess.run(command, check=True, capture_output=True, text=True)
    made.replace(library)
