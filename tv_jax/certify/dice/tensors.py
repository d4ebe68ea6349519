"""Tensors of random numbers.

A tensor becomes random in place, as torch's own functions make it: its class is
`Random`, and its memory holds the places of its numbers in a list of cells. So
its views, copies and selections are those that torch makes. Whoever reads that
memory past the class sees other numbers in every other run (`_written`), and
runs that drew the same must return the same.
"""

from __future__ import annotations

import functools
import operator
import sys
from typing import Any

import numpy as np
import torch

from tv_jax.certify.dice import paths
from tv_jax.certify.dice.paths import RefusedError, refuse

_COMPARED = {x: getattr(operator, x) for x in ("lt", "le", "gt", "ge")}
_COMPARED |= {"eq": operator.eq, "ne": operator.ne}
_COMPUTED = {x: getattr(operator, x) for x in ("add", "sub", "mul", "truediv")}
_COMPUTED |= {"neg": operator.neg, "log": np.log}
_COMPUTED |= {
  f"r{x}": lambda x, y, by=_COMPUTED[x]: by(y, x)
  for x in ("add", "sub", "mul", "truediv")
}
# By torch's other names.
_ALIASES = {"less": "lt", "less_equal": "le", "greater": "gt"}
_ALIASES |= {"greater_equal": "ge", "subtract": "sub", "multiply": "mul"}
_ALIASES |= {"negative": "neg", "rdiv": "rtruediv"}
_ALIASES |= dict.fromkeys(("div", "divide", "true_divide"), "truediv")
# What moves numbers and changes none.
_MOVED = ("to", "float", "double", "half", "bfloat16", "cpu", "cuda", "type_as")
_MOVED += ("contiguous", "clone", "detach", "type", "data", "ravel", "unbind")
_MOVED += ("view", "reshape", "squeeze", "unsqueeze", "flatten", "expand", "t")
_MOVED += ("transpose", "permute", "getitem", "select", "narrow", "gather")
_MOVED += ("index_select", "take_along_dim", "expand_as", "view_as", "iter")
_MOVED += ("T", "mT", "H", "mH")
# What joins tensors, or repeats their numbers.
_JOINED = ("stack", "cat", "concat", "concatenate", "hstack", "vstack")
_JOINED += ("repeat", "repeat_interleave", "tile", "flip", "roll")
_FACTS = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda")
_FACTS += ("layout", "names", "is_leaf", "grad_fn", "is_sparse", "is_meta")
_FACTS += ("size", "dim", "numel", "ndimension", "is_floating_point", "len")
# Half precision rounds uniforms to 2**-8: their chances are others.
FINE = (torch.float32, torch.float64)
# Of what memory holds; float32 has all of them exactly.
_LARGE, _TINY = 2.0**20, 2.0**-43


class Random(torch.Tensor):
  """A tensor of random numbers; its memory holds their places in `cells`."""

  cells: list  # shared by all tensors that may share its memory

  @classmethod
  def __torch_function__(cls, func, types, args=(), kwargs=None):
    """Does what can be done with random numbers."""
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
    into = args[0]  # add_ and the like change their first tensor
  short = _ALIASES.get(short, short)
  if short in _FACTS:
    return func(*args, **kwargs)
  if short == "view" and any(
    isinstance(x, torch.dtype) for x in (*args, *kwargs.values())
  ):
    refuse("reads the bits of random numbers")
  if short in _MOVED and kwargs.get("out") is None:
    return _moved(func, args, kwargs)
  if short in _COMPARED and into is None and not kwargs:
    if all(isinstance(x, torch.Tensor) for x in args):
      dtype = torch.result_type(*args)
      if dtype not in FINE:
        refuse(f"rounds random numbers to {dtype}")
    answer = _COMPARED[short](*map(_entries, args[:2]))
    return torch.from_numpy(np.asarray(answer, bool))
  if short in _COMPUTED and not kwargs:
    with np.errstate(divide="ignore"):
      entries = _COMPUTED[short](*map(_entries, args))
    return fill(entries, args[0] if into is None else into, into)
  if short in _JOINED and kwargs.get("out") is None:
    return _joined(func, *args, **kwargs)
  if short == "setitem":
    return _assigned(*args)
  if short in ("clamp", "clip", "clamp_min"):
    return _clamped(into, *args, **kwargs)
  if short == "searchsorted":
    return _searched(*args, **kwargs)
  if short == "bucketize":
    return _searched(args[1], args[0], *args[2:], **kwargs)
  if short in ("argmax", "argmin"):
    return _raced(getattr(np, short), *args, **kwargs)
  if short in ("max", "min"):
    return _best(short, *args, **kwargs)
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


def _moved(func, args, kwargs):
  """Moves numbers as torch moves the places in its memory."""
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


def _raced(function, tensor, dim=None, keepdim=False):
  winners = function(_entries(tensor), axis=dim)
  if keepdim and dim is not None:
    winners = np.expand_dims(winners, dim)
  return torch.as_tensor(winners)


def _best(name: str, tensor, dim=None, keepdim=False):
  """Stands for torch.max and torch.min of one tensor: a race."""
  entries = _entries(tensor)
  race = np.argmax if name == "max" else np.argmin
  if dim is None:
    return fill(entries.ravel()[race(entries)], tensor)
  if isinstance(dim, torch.Tensor):
    refuse("takes the larger of two tensors of random numbers")
  places = np.expand_dims(race(entries, axis=dim), dim)
  values = np.take_along_axis(entries, places, dim)
  if not keepdim:
    values, places = values.squeeze(dim), places.squeeze(dim)
  pair = fill(values, tensor), torch.as_tensor(places)
  return getattr(torch.return_types, name)(pair)


def _ranked(tensor, k, dim=-1, largest=True, sorted=True):
  """Stands for torch.topk: the winner of a race, then of the others' race."""
  del sorted
  rows = np.moveaxis(_entries(tensor), dim, -1)
  race = np.argmax if largest else np.argmin
  places = np.zeros((*rows.shape[:-1], k), int)
  for at in np.ndindex(rows.shape[:-1]):
    left = [*range(rows.shape[-1])]
    for rank in range(k):
      places[at][rank] = left.pop(race(rows[at][left]))
  values = np.take_along_axis(rows, places, -1)
  values, places = (np.moveaxis(x, -1, dim) for x in (values, places))
  pair = fill(values, tensor), torch.as_tensor(places.copy())
  return torch.return_types.topk(pair)


def _joined(func, tensors, *args, **kwargs):
  """Moves numbers of several tensors, or of one to several places.

  Torch moves their places in a list of all.
  """
  several = isinstance(tensors, list | tuple)
  cells, places = [], []
  for tensor in tensors if several else (tensors,):
    entries = np.asarray(_entries(tensor), object)
    begin = len(cells)
    cells.extend(entries.ravel())
    at = torch.arange(begin, len(cells)).reshape(entries.shape)
    places.append(at)
  if any(map(_is_random, (*args, *kwargs.values()))):
    refuse("uses a random number as an index")
  moved = func(places if several else places[0], *args, **kwargs)
  like = next(x for x in (tensors if several else (tensors,)) if _is_random(x))
  if several:
    dtype = functools.reduce(torch.promote_types, (x.dtype for x in tensors))
    if dtype != like.dtype:
      refuse("joins random numbers with numbers of another dtype")
  return fill(np.array([*cells, None], object)[moved.numpy()], like)


def _assigned(tensor, index, value) -> None:
  """Writes random numbers into a tensor, or numbers into a random one."""
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
  """Clamps noise away from 0, which changes next to nothing."""
  limits = (x.item() if hasattr(x, "item") else x for x in (min, max))
  low, high = limits
  entries = np.asarray(_entries(tensor), object)
  made = np.empty(entries.shape, object)
  for at in np.ndindex(entries.shape):
    made[at] = entries[at].clamp(low, high)
  return fill(made, tensor, into)


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
  """Returns what memory holds for places: large, or in the next run tiny."""
  if paths.current().number % 2:
    return _LARGE + places.double()
  return (_LARGE * 8 - places.double()) * _TINY


def _places(memory: torch.Tensor, count: int) -> np.ndarray:
  """Returns the places that memory holds: of `count` that there are."""
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
  """Makes a random tensor, or makes one that is there random."""
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
  """Keeps numbers with a tensor; returns what its memory holds for them."""
  begin = len(tensor.cells)
  tensor.cells.extend(entries.ravel())
  if len(tensor.cells) > _LARGE:
    refuse("keeps a tensor of random numbers from run to run")
  places = torch.arange(begin, len(tensor.cells)).reshape(entries.shape)
  return _written(places)


def _is_shared(tensor: torch.Tensor) -> bool:
  """Tells whether what is no random tensor shares its memory."""
  base = tensor._base
  storage = tensor.untyped_storage()
  count = getattr(torch._C, "_storage_Use_Count", lambda _: 0)(storage._cdata)
  # The tensor and its storage's object; the base of a view is one more.
  if count > 2 + (base is not None) or not storage.resizable():
    return True
  # Here, in getrefcount and in torch itself it is held; and nowhere else?
  return base is not None and sys.getrefcount(base) > 3
