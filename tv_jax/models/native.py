"""Products with weights on a CPU, in C++ (few_tokens.cc and quantised.cc).

XLA takes two to four times as long for 2 to 8 rows as for a single row, and has
no product with quantised weights. These products take little longer than
reading the weights. `make` or the first use compiles them into a library in the
user's cache. Without a compiler, or with TV_JAX_NATIVE=0, XLA multiplies, and
quantised weights are dequantised when they are loaded.
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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.io import disk

SWITCH = "TV_JAX_NATIVE"
MOST = 26  # rows; with more XLA's product is as fast
_FOLDER = pathlib.Path(__file__).parent
_SOURCES = _FOLDER / "few_tokens.cc", _FOLDER / "quantised.cc"
_MACHINE = "-mcpu=native" if sys.platform == "darwin" else "-march=native"
_FLAGS = "-O3", "-std=c++17", "-shared", "-fPIC", "-w", _MACHINE


def used() -> bool:
  """Returns whether this process uses the library."""
  on = os.environ.get(SWITCH) != "0" and jax.default_backend() == "cpu"
  return on and _library() is not None


def lanes() -> int:
  """Returns the number of rows in a vector of quantised weights."""
  return _loaded().lanes


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
  call = _call("few_tokens", len(x), len(weights))
  return call(x.astype(jnp.float32), weights)


def quantised(
  x: jax.Array, words: jax.Array, numbers: np.ndarray, outputs: int
) -> jax.Array:
  """Returns the product of x [T, K] with quantised weights; see quantised.cc.

  Args:
    x: Rows in float32.
    words: The weights.
    numbers: The fields of `Form` in quantised.cc, for each part.
    outputs: Number of rows of the weights, filled up to whole vectors.
  """
  return _call("quantised", len(x), outputs)(x, words, numbers=numbers)


def _call(product: str, rows: int, outputs: int):
  shape = jax.ShapeDtypeStruct((rows, outputs), jnp.float32)
  name = f"{_loaded().name}_{product}"
  return jax.ffi.ffi_call(name, shape, vmap_method="sequential")


class _Library(NamedTuple):
  name: str
  lanes: int


def _loaded() -> _Library:
  library = _library()
  assert library is not None
  return library


@functools.cache
def _library() -> _Library | None:
  """Registers the products in XLA; returns None if they cannot be compiled."""
  # A compiled program on disk finds the products by their names.
  sources = [path.read_text() for path in (*_SOURCES, _FOLDER / "panels.h")]
  recipe = f"{sources} {_FLAGS} {jax.__version__} {_processor()}"
  name = f"tv_jax_{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
  path = disk.cache_folder() / f"{name}.so"
  try:
    if not path.exists():
      _compile(path)
    library = ctypes.CDLL(str(path))
  except (OSError, subprocess.CalledProcessError) as error:
    why = (getattr(error, "stderr", "") or str(error)).splitlines()[0]
    print(f"XLA multiplies few tokens too, more slowly: {why}", file=sys.stderr)
    return None
  for product, symbol in (
    ("few_tokens", library.FewTokens),
    ("quantised", library.Quantised),
  ):
    call = jax.ffi.pycapsule(symbol)
    jax.ffi.register_ffi_target(f"{name}_{product}", call, platform="cpu")
  return _Library(name, library.Lanes())


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
    command = [compiler, *_FLAGS, include, *_SOURCES, "-o", made]
    subprocess.run(command, check=True, capture_output=True, text=True)
    made.replace(library)
