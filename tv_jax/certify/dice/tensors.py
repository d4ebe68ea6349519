"""Tensors of random numbers.

A tensor becomes random in place: its class becomes `Random`, and its memory
holds the indices of its numbers in a list of cells. So torch makes its views,
copies and selections. Code that bypasses the class and reads the memory sees
other numbers in every second run (`_written`). It is noticed, because runs with
the same draws must return the same result.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import torch

from tv_jax.certify.dice import paths, races
from tv_jax.certify.dice.cells import Cell
from tv_jax.certify.dice.operations import (
  ANSWERS,
  OPERATIONS,
  SHORT,
  computed,
  searched,
)
from tv_jax.certify.dice.paths import RefusedError, refuse

_CLAMPS = ("clamp", "clip", "clamp_min")
# Functions that move numbers and change none.
_MOVED = ("to", "float", "double", "half", "bfloat16", "cpu", "cuda", "type_as")
_MOVED += ("contiguous", "clone", "detach", "type", "data", "ravel", "unbind")
_MOVED += ("view", "reshape", "squeeze", "unsqueeze", "flatten", "expand", "t")
_MOVED += ("transpose", "permute", "getitem", "select", "narrow", "gather")
_MOVED += ("index_select", "take_along_dim", "expand_as", "view_as", "iter")
_MOVED += ("T", "mT", "H", "mH")
_FACTS = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda")
_FACTS += ("layout", "names", "is_leaf", "grad_fn", "is_sparse", "is_meta")
_FACTS += ("size", "dim", "numel", "ndimension", "is_floating_point", "len")
# Half precision is refused: its uniforms are multiples of 2**-8.
FINE = (torch.float32, torch.float64)
# Scales of the numbers in memory, which are all exact in float32.
_LARGE, _TINY = 2.0**20, 2.0**-43


class Random(torch.Tensor):
  """A tensor of random numbers; its memory holds indices into `cells`."""

  cells: list  # shared by all tensors that may share its memory

  @classmethod
  def __torch_function__(cls, func, types, args=(), kwargs=None):
    """Executes a torch function on random numbers, or refuses it."""
    del types
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
      name = getattr(func.__self__, "__name__", name)
    with torch._C.DisableTorchFunctionSubclass():
      return _applied(func, name, args, kwargs or {})


def _applied(func, name: str, args, kwargs):
  short, into = _short(name), None
  if name.startswith("__i") and _short(short[1:]) in OPERATIONS:
    short, into = _short(short[1:]), args[0]
  elif name.endswith("_") and not name.startswith("__"):
    into = args[0]  # add_ and similar functions change their first tensor
  if name.startswith("__r") and _short(short[1:]) in OPERATIONS:
    short, args = _short(short[1:]), args[::-1]
  if short in _FACTS:
    return func(*args, **kwargs)
  if short == "view" and any(
    isinstance(x, torch.dtype) for x in (*args, *kwargs.values())
  ):
    refuse("reads the bits of random numbers")
  if short in _MOVED and kwargs.get("out") is None:
    return _moved(func, args, kwargs)
  try:
    return _computed(func, name, short, into, args, kwargs)
  except Exception as error:
    refuse(f"gives random numbers to torch's {name} ({error})")


def _short(name: str) -> str:
  """Returns NumPy's name of a torch function."""
  name = name.strip("_")
  return "array_equal" if name == "equal" else SHORT.get(name, name)


def _beside(cls, func, types, args=(), kwargs=None):
  """Executes a torch function on tensors and a random number."""
  del cls, types
  name = getattr(func, "__name__", str(func))
  for x in args:
    if isinstance(x, torch.Tensor) and x.dtype in (torch.half, torch.bfloat16):
      refuse(f"rounds random numbers to {x.dtype}")
  if _short(name) not in ANSWERS or kwargs:
    refuse(f"gives a random number to torch's {name} (draw it by torch.rand)")
  return torch.as_tensor(computed(_short(name), *map(_entries, args)))


Cell.__torch_function__ = classmethod(_beside)  # pyright: ignore


def _computed(func, name: str, short: str, into, args, kwargs):
  """Executes a function that computes with random numbers."""
  if short in _CLAMPS:
    return _clamped(into, *args, **kwargs)
  known = short in OPERATIONS and len(args) == OPERATIONS[short].nin
  if known and not kwargs and (into is None or short not in ANSWERS):
    return _operated(short, into, args)
  if short == "setitem":
    return _assigned(*args)
  if short == "searchsorted":
    return _searched(*args, **kwargs)
  if short in ("argmax", "argmin", "max", "min"):
    return _raced(short, *args, **kwargs)
  if short == "topk":
    return _ranked(*args, **kwargs)
  if short in ("item", "tolist"):
    return getattr(np.asarray(_entries(args[0]), object), short)()
  if short in ("repr", "format", "str"):
    refuse("prints a random number")
  raise RefusedError(
    f"gives random numbers to torch's {name}, which cannot be followed: a"
    " uniform can be compared with numbers, and noise can race by argmax"
  )


def _operated(name: str, into, args):
  """Executes an operation of the table."""
  tensors = [x for x in args if isinstance(x, torch.Tensor)]
  dtype = torch.result_type(tensors[0], tensors[-1])
  if dtype not in FINE:
    refuse(f"rounds random numbers to {dtype}")
  result = computed(name, *map(_entries, args))
  if name in ANSWERS:
    return torch.as_tensor(result)
  return fill(result, torch.empty((), dtype=dtype), into)


def _moved(func, args, kwargs):
  """Moves numbers: torch moves their indices in memory."""
  tensor = args[0]
  if not isinstance(tensor, Random):
    refuse("uses a random number as an index")

  def marked(value):
    if value is tensor or isinstance(value, str):  # type() names the type
      return value
    if not isinstance(value, torch.Tensor):
      refuse(f"turns a random number into a {type(value).__name__}")
    if value.dtype not in FINE:
      refuse(f"rounds random numbers to {value.dtype}")
    moved = value.detach().as_subclass(Random)
    moved.cells = tensor.cells
    return moved

  value = func(*args, **kwargs)
  if isinstance(value, tuple):
    return tuple(map(marked, value))
  return map(marked, value) if hasattr(value, "__next__") else marked(value)


def _raced(name: str, tensor, dim=None, keepdim=False):
  """Stands for argmax, argmin, and max and min of a single tensor."""
  if isinstance(dim, torch.Tensor):
    refuse("takes the larger of two tensors of random numbers")
  entries, axis = np.asarray(_entries(tensor), object), dim or 0
  if dim is None:
    entries = entries.ravel()
  race = races.winner if "max" in name else races.loser
  values, places = races.best(race, entries, axis)
  if dim is None or not keepdim:
    values, places = values.squeeze(axis), places.squeeze(axis)
  winners = torch.as_tensor(places)
  if name.startswith("arg"):
    return winners
  if dim is None:
    return fill(values, tensor)
  return getattr(torch.return_types, name)((fill(values, tensor), winners))


def _ranked(tensor, k, dim=-1, largest=True, sorted=True):
  """Stands for torch.topk."""
  del sorted
  race = races.winner if largest else races.loser
  values, places = races.best(race, _entries(tensor), dim, k)
  pair = fill(values, tensor), torch.as_tensor(places).contiguous()
  return torch.return_types.topk(pair)


def _assigned(tensor, index, value) -> None:
  """Writes random numbers into a tensor, or numbers into a random tensor."""
  if not _is_random(tensor):
    fill(_entries(tensor), tensor, tensor)
  if any(map(_is_random, index if isinstance(index, tuple) else (index,))):
    refuse("uses a random number as an index")
  memory = tensor.as_subclass(torch.Tensor)
  entries = np.asarray(_entries(value), object)
  if isinstance(value, Random) and value.dtype != tensor.dtype:
    refuse("writes random numbers into a tensor of another dtype")
  entries = np.broadcast_to(entries, tuple(memory[index].shape))
  memory[index] = _kept(tensor, entries).to(memory.dtype)


def _is_random(value) -> bool:
  return isinstance(value, Random)


def _clamped(into, tensor, min=None, max=None):
  """Clamps random numbers; see `Cell.clamp`."""
  limits: list[Any] = [min, max]
  limits = [x.item() if hasattr(x, "item") else x for x in limits]
  entries = computed("clip", _entries(tensor), *limits)
  return fill(entries, tensor, into)


def _searched(row, values, *, right=False, side="left", out_int32=False):
  """Stands for torch.searchsorted."""
  find = functools.partial(searched, right=right or side == "right")
  rows, entries = _entries(row), np.asarray(_entries(values), object)
  if rows.ndim == 1:
    found = find(rows, entries)
  else:
    found = np.empty(entries.shape, np.int64)
    for at in np.ndindex(entries.shape[:-1]):
      found[at] = find(rows[at], entries[at])
  return torch.as_tensor(found).to(torch.int32 if out_int32 else torch.int64)


def _written(places: torch.Tensor) -> torch.Tensor:
  """Encodes indices as large or as tiny numbers; runs alternate."""
  if paths.current().number % 2:
    return _LARGE + places.double()
  return (_LARGE * 8 - places.double()) * _TINY


def _places(memory: torch.Tensor, count: int) -> np.ndarray:
  """Decodes the indices in memory; refuses any other than 0 .. count - 1."""
  held = memory.detach().double().cpu().numpy()
  large = held >= _LARGE
  places = np.where(large, held - _LARGE, _LARGE * 8 - held / _TINY)
  if not ((places >= 0) & (places < count) & (places % 1 == 0)).all():
    refuse("writes into a tensor of random numbers past torch's functions")
  return places.astype(int)


def _entries(value):
  """Returns a tensor's numbers, random or exact, as an array."""
  if isinstance(value, Random):
    places = _places(value.as_subclass(torch.Tensor), len(value.cells))
    return np.array([*value.cells, None], object)[places]
  if isinstance(value, torch.Tensor):
    value = value.detach().cpu()
    wide = value.double() if value.is_floating_point() else value
    return np.asarray(wide.clone().numpy(), object)
  return value


def fill(entries, like: torch.Tensor, into: Any = None):
  """Makes a new random tensor, or makes the tensor `into` random."""
  entries = np.asarray(entries, object)
  if into is None:
    into = torch.empty(entries.shape, dtype=like.dtype, device=like.device)
  elif tuple(into.shape) != entries.shape or (
    not isinstance(into, Random) and _is_shared(into)
  ):
    refuse(
      "changes a part of a tensor to random numbers, or one whose memory"
      " another tensor or array shares (clone it)"
    )
  if into.dtype not in FINE:
    refuse(f"rounds random numbers to {into.dtype}")
  if not isinstance(into, Random):
    into.__class__ = Random  # as torch's own uninitialised parameters do
    into.cells = []
  into.as_subclass(torch.Tensor).copy_(_kept(into, entries))
  return into


def _kept(tensor: Random, entries: np.ndarray) -> torch.Tensor:
  """Adds numbers to a tensor's cells; returns their encoded indices."""
  begin = len(tensor.cells)
  tensor.cells.extend(entries.ravel())
  if len(tensor.cells) > _LARGE:
    refuse("keeps a tensor of random numbers from run to run")
  places = torch.arange(begin, len(tensor.cells)).reshape(entries.shape)
  return _written(places)


def _is_shared(tensor: torch.Tensor) -> bool:
  """Tells whether another tensor or array shares the tensor's memory."""
  base = tensor._base
  storage = tensor.untyped_storage()
  count = getattr(torch._C, "_storage_Use_Count", lambda _: 0)(storage._cdata)
  # Counted are the tensor, `storage` and the base of a view.
  if count > 2 + (base is not None) or not storage.resizable():
    return True
  # This function, getrefcount and torch hold the base: 3 references.
  return base is not None and sys.getrefcount(base) > 3
