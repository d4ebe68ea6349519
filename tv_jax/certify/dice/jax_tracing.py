"""Follows JAX's functions on random numbers.

While a function runs, JAX's current trace is a `Following`. It receives every
primitive, jitted or not, and under whatever name the program imported it. An
array of random numbers is a `Drawn`, a JAX tracer with an array of cells. JAX
computes all other arrays.

Keys are real keys. A key and an index identify a random bit, so equal keys give
equal numbers, even if `split` and `fold_in` made them separately. All keys must
be derived from the given key; other keys would give the same numbers in every
run. The given key alternates from run to run, so a function that reads it as a
number is noticed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core, source_info_util

from tv_jax.certify.dice import jax_rules as rules
from tv_jax.certify.dice import races
from tv_jax.certify.dice.cells import FINE
from tv_jax.certify.dice.choices import Uniform
from tv_jax.certify.dice.operations import OPERATIONS, computed
from tv_jax.certify.dice.paths import (
  Path,
  RefusedError,
  is_users,
  refuse,
  refuse_methods,
)

_DERIVED = ("random_split", "random_fold_in", "random_clone")
_UNSEEN = ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32")
_UNSEEN += ("rng_uniform", "rng_bit_generator", "random_gamma")
_CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat2")
_CALLS += ("custom_jvp_call", "custom_vjp_call")
_KEYS = "threefry2x32"  # a random bit depends on key and index
_ROOT = 0x9E3779B9, 0x7F4A7C15


class Drawn(core.Tracer):
  """An array with random numbers in it."""

  __slots__ = ("entries",)

  def __init__(self, trace: Following, entries: np.ndarray, dtype: Any):
    """Keeps the cells, and the array's dtype in JAX."""
    super().__init__(trace, core.ShapedArray(entries.shape, np.dtype(dtype)))
    self.entries = entries

  def __getattr__(self, name: str):
    """Refuses an attribute that arrays have and tracers lack."""
    caller = sys._getframe(1).f_code.co_filename
    if hasattr(jax.Array, name) and is_users(caller):
      refuse(f"takes {name} of a random array")
    return super().__getattr__(name)

  @property
  def sharding(self):
    """Raises the AttributeError that JAX expects of a tracer."""
    raise AttributeError("sharding")

  def _origin_msg(self) -> str:
    """Refuses, since JAX calls this for errors that only tracers raise."""
    return refuse("needs the value of a random array")

  def block_until_ready(self):
    """Returns the array."""
    return self


_REFUSED = ("__bool__", "__int__", "__float__", "__index__", "__array__")
_REFUSED += ("__complex__", "__reduce__", "__reduce_ex__", "__dlpack__")
_REFUSED += ("item", "tolist", "tobytes", "__str__", "__format__", "__repr__")
refuse_methods(Drawn, _REFUSED, "a random array")


class Following(core.Trace):
  """Executes JAX's primitives during a run of a function."""

  __slots__ = ("keys", "uniforms")

  def __init__(self):
    """Begins a run without draws."""
    super().__init__()
    self.keys: set[bytes] = set()  # derived from the given key
    self.uniforms: dict[tuple, Uniform] = {}

  def stage_value(self, val):
    """Returns a value as an array."""
    return val if isinstance(val, Drawn) else core.eval_trace.stage_value(val)

  def process_primitive(self, primitive, tracers, params, /):
    """Executes a primitive outside of jitted functions."""
    with core.set_current_trace(core.eval_trace):
      try:
        result = self._done(primitive, tracers, params)
      except Exception as error:
        if any(isinstance(x, Drawn) for x in tracers):
          refuse(f"gives random numbers to JAX's {primitive.name} ({error})")
        raise
      if primitive.multiple_results:
        return [*map(_as_jax, result)]
      return _as_jax(result)

  def process_custom_jvp_call(self, primitive, fun, *derivatives, **_):
    """Calls a function with a custom derivative; the last argument is given."""
    with core.set_current_trace(self):
      return fun.call_wrapped(*derivatives[-1])

  process_custom_vjp_call = process_custom_jvp_call

  def process_shard_map(self, *_, **__):
    """Refuses."""
    raise RefusedError("draws, or uses random numbers, in a shard_map")

  def _done(self, primitive, values: Sequence, params: dict) -> Any:
    """Executes a primitive; its results may be NumPy arrays."""
    name = primitive.name
    random = any(isinstance(x, Drawn) for x in values)
    if name == "random_bits":
      return self._draw(*values, **params)
    if name in _UNSEEN:
      refuse_draws(f"draws by {name}, which is not followed")
    inner = _jaxprs(params)
    if inner and (random or any(map(_draws, inner))):
      return self._entered(name, values, params)
    if random and name in rules.SAME:
      return [*values] if primitive.multiple_results else values[0]
    if random:
      return self._followed(primitive, values, params)
    result = core.eval_trace.process_primitive(primitive, values, params)
    if name in _DERIVED and all(x in self.keys for x in _rows(values[0])):
      self.keys.update(_rows(result))
    return result

  def run(self, jaxpr: Any, values: Sequence) -> list:
    """Executes a jitted function's equations in order."""
    inner = _equations(jaxpr)
    names = [*inner.constvars, *inner.invars]
    given = map(_as_numpy, [*getattr(jaxpr, "consts", ()), *values])
    env: dict = dict(zip(names, given, strict=True))

    def read(atom):
      if isinstance(atom, core.Literal):
        return np.asarray(atom.val, getattr(atom.aval, "dtype", None))
      return env[atom]

    for eqn in inner.eqns:
      try:
        arguments = [*map(read, eqn.invars)]
        result = self._done(eqn.primitive, arguments, eqn.params)
      except RefusedError as error:
        error.line = error.line or _line(eqn)
        raise
      results = result if eqn.primitive.multiple_results else [result]
      env.update(zip(eqn.outvars, map(_as_numpy, results), strict=True))
    return [*map(read, inner.outvars)]

  def _draw(self, keys, *, bit_width: int, shape: tuple) -> Drawn:
    """Draws random bits of the given shape for each key."""
    rows = self._given(keys)
    if bit_width not in (32, 64):
      refuse(f"draws {bit_width} random bits, whose chances are coarse")
    entries = np.empty((len(rows), math.prod(shape)), object)
    for i, j in np.ndindex(entries.shape):
      place = rows[i], j, bit_width
      if place not in self.uniforms:
        self.uniforms[place] = Uniform()
      entries[i, j] = rules.Bits(self.uniforms[place], bit_width)
    entries = entries.reshape((*keys.shape, *shape))
    return Drawn(self, entries, f"uint{bit_width}")

  def _given(self, keys) -> list[bytes]:
    """Returns the keys' data; refuses keys not derived from the given key."""
    rows = _rows(keys)
    if not all(row in self.keys for row in rows):
      refuse_draws(
        "draws by jax.random with a key that is not made from the rng that is"
        " given, so that its numbers are the same in each run"
      )
    return rows

  def _followed(self, primitive, values: Sequence, params: dict) -> Any:
    """Executes a primitive on random arrays."""
    name = primitive.name
    kept = params.get("new_dtype") or next(
      x.dtype for x in values if isinstance(x, Drawn)
    )
    data = rules.DATA.get(name, range(len(values)))
    if any(isinstance(x, Drawn) for i, x in enumerate(values) if i not in data):
      refuse("uses a random number as an index or as a condition")
    arrays = [
      _entries(x) if i in data else np.asarray(x) for i, x in enumerate(values)
    ]
    if name == "convert_element_type":
      if np.dtype(kept) not in FINE:
        refuse(f"rounds random numbers to {np.dtype(kept).name}")
      result = arrays[0]
    elif name in rules.MOVED:
      result = _moved(primitive, arrays, data, params)
    elif rules.NAMES.get(name, name) in OPERATIONS:
      result = computed(rules.NAMES.get(name, name), *arrays)
    elif name in rules.OTHERS:
      result = rules.OTHERS[name](*arrays, **params)
    else:
      if np.dtype(kept).kind == "u":
        raise RefusedError(
          f"gives random bits to JAX's {name}, as randint, permutation and"
          " choice without p do: draw by categorical or uniform"
        )
      raise RefusedError(
        f"gives random numbers to JAX's {name}, which cannot be followed: a"
        " uniform can be compared with numbers, and noise can race by argmax"
      )
    if isinstance(result, list):
      return [self._kept(x, kept) for x in result]
    return self._kept(result, kept)

  def _kept(self, result, dtype):
    """Returns a result as a `Drawn`, or as an array if no entry is random."""
    if not isinstance(result, np.ndarray):
      result = np.asarray(result, object)
    if result.dtype != object:
      return result
    result = np.asarray(_numbers(result), object).reshape(result.shape)
    if any(map(rules.is_random, result.flat)):
      return Drawn(self, result, dtype)
    return result.astype(dtype)

  def _entered(self, name: str, values: Sequence, params: dict) -> list:
    """Executes a primitive that calls functions."""
    if name == "cond":
      which, *values = values
      if isinstance(which, Drawn):
        refuse("uses a random number as a condition")
      branches = params["branches"]
      which = min(max(int(which), 0), len(branches) - 1)
      return self.run(branches[which], values)
    if name == "while":
      ends = params["cond_nconsts"], params["body_nconsts"]
      test, body = values[: ends[0]], values[ends[0] : sum(ends)]
      state = [*map(_as_numpy, values[sum(ends) :])]
      while (goes := self.run(params["cond_jaxpr"], [*test, *state])[0]).any():
        new = self.run(params["body_jaxpr"], [*body, *state])
        state = [self._where(goes, *x) for x in zip(new, state, strict=True)]
      return state
    if name == "scan":
      return self._scanned(values, **params)
    if name in _CALLS:
      return self.run(_jaxprs(params)[0], values)
    raise RefusedError(f"draws, or uses random numbers, in JAX's {name}")

  def _where(self, goes: np.ndarray, new, old):
    """Returns a loop's new state; under vmap only active rows change."""
    if goes.all():
      return new
    goes = goes.reshape(goes.shape + (1,) * (new.ndim - goes.ndim))
    if isinstance(new, Drawn) or isinstance(old, Drawn):
      return self._kept(np.where(goes, *map(_entries, (new, old))), new.dtype)
    return _as_numpy(jnp.where(goes, new, old))

  def _scanned(self, values, *, jaxpr, length, reverse, **params) -> list:
    """Executes a loop of known length."""
    if "ft_in" in params:  # since jax 0.11
      parts = [[*x] for x in params["ft_in"].update(values).unpack()]
    else:
      first = params["num_consts"]
      last = first + params["num_carry"]
      parts = [[*values[:first]], [*values[first:last]], [*values[last:]]]
    consts, state, rows = parts
    stacks: list = [None] * length
    for i in range(length)[:: -1 if reverse else 1]:
      row = [_row(x, i) for x in rows]
      results = self.run(jaxpr, [*consts, *state, *row])
      stacks[i] = results[len(state) :]
      state = results[: len(state)]
    if not length:
      outs: Any = (x.aval for x in _equations(jaxpr).outvars[len(state) :])
      return [*state, *(np.zeros((0, *x.shape), x.dtype) for x in outs)]
    return [*state, *map(self._stacked, zip(*stacks, strict=True))]

  def _stacked(self, rows: Sequence) -> Any:
    """Stacks the outputs of a loop's steps."""
    if any(isinstance(x, Drawn) for x in rows):
      dtype = rows[0].dtype
      return self._kept(np.stack([_entries(x) for x in rows]), dtype)
    if all(isinstance(x, np.ndarray) for x in rows):
      return np.stack(rows)
    return jnp.stack(rows)


def _row(x, i: int):
  if isinstance(x, Drawn):
    return x._trace._kept(x.entries[i], x.dtype)
  return _as_numpy(x[i])


def _as_numpy(x) -> Any:
  """Converts concrete arrays to NumPy; leaves keys and random arrays."""
  is_key = isinstance(x, jax.Array) and jnp.issubdtype(
    x.dtype, jax.dtypes.prng_key
  )
  return x if is_key or isinstance(x, Drawn) else np.asarray(x)


def _as_jax(x) -> Any:
  return x if isinstance(x, jax.Array) else jnp.asarray(x)


def _entries(x) -> np.ndarray:
  """Returns an array's entries, random or exact."""
  if isinstance(x, Drawn):
    return x.entries
  x = np.asarray(x)
  if x.dtype.kind not in "biu" and x.dtype not in FINE:
    refuse(f"rounds random numbers to {x.dtype.name}")
  return x.astype(object)


_numbers = np.frompyfunc(races.number, 1, 1)


def _moved(primitive, arrays, data, params) -> Any:
  """Runs a primitive on the entries' indices, then looks up the entries."""
  pool, moved = [], [*arrays]
  for i, x in enumerate(arrays):
    if i in data:
      places = len(pool) + np.arange(x.size, dtype=np.int32)
      moved[i] = places.reshape(x.shape)
      pool.extend(x.ravel())
  fill = params.get("fill_value")
  if "fill_value" in params:
    params = params | {"fill_value": -1}  # the place of the filling
  if params.get("update_jaxpr") is not None:
    params = params | {"update_jaxpr": None, "update_consts": ()}
  places = core.eval_trace.process_primitive(primitive, moved, params)
  filling = np.nan if fill is None else fill
  table = np.array([*pool, filling, None], object)[:-1]
  if isinstance(places, list | tuple):
    return [table[np.asarray(x)] for x in places]  # pyright: ignore
  return table[np.asarray(places)]


def _rows(keys) -> list[bytes]:
  """Returns the data of each key."""
  impl = str(jax.random.key_impl(keys))
  data = np.asarray(jax.random.key_data(keys))
  return [
    impl.encode() + row.tobytes() for row in data.reshape(-1, data.shape[-1])
  ]


def _jaxprs(params: dict) -> list:
  """Lists the functions that a primitive calls."""
  kinds = (core.Jaxpr, core.ClosedJaxpr)
  found = []
  for value in params.values():
    values = value if isinstance(value, tuple | list) else (value,)
    found += [x for x in values if isinstance(x, kinds)]
  return found


def _equations(jaxpr) -> core.Jaxpr:
  """Returns a jitted function's equations, without its constants."""
  return getattr(jaxpr, "jaxpr", jaxpr)


@functools.lru_cache(maxsize=4096)
def _draws(jaxpr) -> bool:
  """Tells whether a jitted function draws, or derives keys."""
  if any(isinstance(x, Drawn) for x in getattr(jaxpr, "consts", ())):
    return True
  return any(
    eqn.primitive.name in (*_DERIVED, *_UNSEEN, "random_bits", "shard_map")
    or any(map(_draws, _jaxprs(eqn.params)))
    for eqn in _equations(jaxpr).eqns
  )


def _line(eqn) -> str:
  """Returns the user's line that an equation comes from."""
  for frame in source_info_util.user_frames(eqn.source_info.traceback):
    if is_users(frame.file_name):
      return f"{frame.file_name}, line {frame.start_line}: "
  return ""


def refuse_draws(action: str) -> None:
  """Refuses draws that are not followed; the message has the remedy."""
  raise RefusedError(
    f"{action} (a program in JAX is given a key as its rng by --arrays=jax, in"
    ' Python by arrays="jax": make all keys of it)'
  )


_now: list[tuple[Following, int]] = []


@contextlib.contextmanager
def followed(path: Path) -> Iterator[None]:
  """Follows JAX's functions on this path."""
  trace = Following()
  _now.append((trace, path.number % 2))
  try:
    with core.set_current_trace(trace):
      yield
  finally:
    _now.pop()
    trace.invalidate()


@functools.cache
def _root(odd: int) -> tuple[Any, list[bytes]]:
  """Returns one of two keys that differ in each bit, and its data."""
  with core.set_current_trace(core.eval_trace):
    bits = jnp.array(_ROOT, jnp.uint32)
    key = jax.random.wrap_key_data(~bits if odd else bits, impl=_KEYS)
    return key, _rows(key)


def given_key() -> Any:
  """Returns the key that a function is given in this run."""
  config: Any = jax.config
  if not config.jax_threefry_partitionable:
    raise RefusedError("JAX_THREEFRY_PARTITIONABLE=0 is not followed")
  trace, odd = _now[-1]
  key, rows = _root(odd)
  trace.keys.update(rows)
  return key


def with_arrays(law: Callable) -> Callable:
  """Makes `law` return JAX arrays, each made once."""

  @functools.cache
  def known(prefix):
    with core.set_current_trace(core.eval_trace):
      return jnp.asarray(law(prefix))

  return lambda prefix: known(tuple(map(int, prefix)))
