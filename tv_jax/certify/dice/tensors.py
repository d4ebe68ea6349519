"""Tensors of random numbers.

A tensor becomes random in place: its class becomes `Random`, and its memory
holds the indices of its numbers in a list of cells. So torch makes its views,
copies and selections. Code that bypasses the class and reads the memory sees
other numbers in every second run (`_written`). It is noticed, because runs with
the same draws must return the same result.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import torch

from tv_jax.certify.dice import paths, races
from tv_jax.certify.dice.arrays import Array
from tv_jax.certify.dice.cells import COMPARED, COMPUTED, Cell, clamped
from tv_jax.certify.dice.paths import RefusedError, refuse

_COMPUTED = COMPUTED | {"truediv": np.true_divide, "log": np.log}
_COMPUTED |= {
  f"r{x}": lambda x, y, by=_COMPUTED[x]: by(y, x)
  for x in ("add", "sub", "mul", "truediv")
}
# Torch's other names for these functions.
_ALIASES = {"less": "lt", "less_equal": "le", "greater": "gt"}
_ALIASES |= {"greater_equal": "ge", "subtract": "sub", "multiply": "mul"}
_ALIASES |= {"negative": "neg", "rdiv": "rtruediv"}
_ALIASES |= dict.fromkeys(("div", "divide", "true_divide"), "truediv")
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
_FACTS_OF = "isnan", "isinf", "isfinite"
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
  short, into = name.strip("_"), None
  if name.startswith("__i") and _ALIASES.get(short[1:], short[1:]) in _COMPUTED:
    short, into = short[1:], args[0]
  elif name.endswith("_") and not name.startswith("__"):
    into = args[0]  # add_ and similar functions change their first tensor
  short = _ALIASES.get(short, short)
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


def _beside(cls, func, types, args=(), kwargs=None):
  """Executes a torch function on tensors and a random number."""
  del cls, types
  name = getattr(func, "__name__", str(func))
  short = name.strip("_")
  for x in args:
    if isinstance(x, torch.Tensor) and x.dtype in (torch.half, torch.bfloat16):
      refuse(f"rounds random numbers to {x.dtype}")
  if _ALIASES.get(short, short) not in COMPARED or kwargs:
    refuse(f"gives a random number to torch's {name} (draw it by torch.rand)")
  answer = COMPARED[_ALIASES.get(short, short)](*map(_entries, args))
  return torch.as_tensor(np.asarray(answer, bool))


Cell.__torch_function__ = classmethod(_beside)  # pyright: ignore


def _computed(func, name: str, short: str, into, args, kwargs):
  """Executes a function that computes with random numbers."""
  if short in COMPARED and into is None and not kwargs:
    if all(isinstance(x, torch.Tensor) for x in args):
      dtype = torch.result_type(*args)
      if dtype not in FINE:
        refuse(f"rounds random numbers to {dtype}")
    answer = COMPARED[short](*map(_entries, args[:2]))
    return torch.from_numpy(np.asarray(answer, bool))
  # NumPy's functions would take a third argument as their output.
  if short in _COMPUTED and not kwargs and len(args) <= 2:
    with np.errstate(divide="ignore"):
      entries = _COMPUTED[short](*map(_entries, args))
    return fill(entries, args[0] if into is None else into, into)
  if short == "setitem":
    return _assigned(*args)
  if short in ("clamp", "clip", "clamp_min"):
    return _clamped(into, *args, **kwargs)
  if short == "searchsorted":
    return _searched(*args, **kwargs)
  if short in ("argmax", "argmin", "max", "min"):
    return _raced(short, *args, **kwargs)
  if short == "topk":
    return _ranked(*args, **kwargs)
  if short in ("item", "tolist"):
    return getattr(np.asarray(_entries(args[0]), object), short)()
  if short in _FACTS_OF and not kwargs:
    answer = getattr(np, short)(_entries(args[0]).view(Array))
    return torch.as_tensor(answer)
  if short in ("repr", "format", "str"):
    refuse("prints a random number")
  raise RefusedError(
    f"gives random numbers to torch's {name}, which cannot be followed: a"
    " uniform can be compared with numbers, and noise can race by argmax"
  )


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
  low, high = (x.item() if hasattr(x, "item") else x for x in limits)
  return fill(clamped(_entries(tensor), low, high), tensor, into)


def _searched(row, values, *, right=False, side="left", out_int32=False):
  """Returns how many of the sorted numbers are below each uniform."""
  if isinstance(row, Random):
    refuse("searches among random numbers")
  below = operator.le if right or side == "right" else operator.lt
  entries = np.asarray(_entries(values), object)
  rows = row.expand(*entries.shape[:-1], row.shape[-1]) if row.ndim > 1 else row
  counts = np.zeros(entries.shape, int)
  for at in np.ndindex(entries.shape):
    numbers = rows[at[:-1]] if row.ndim > 1 else rows
    counts[at] = sum(bool(below(x, entries[at])) for x in numbers.tolist())
  return torch.as_tensor(counts).to(torch.int32 if out_int32 else torch.int64)


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
