"""Random tensors of torch in a function that is explored.

A tensor becomes random in place, as torch's own functions make it: its class is
`Random`, and its entries are those of cells.py. What cannot be followed is
refused by name; everything that draws whole tokens gives ordinary tensors.
"""

from __future__ import annotations

import functools
import operator
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tv_jax.certify.dice import cells, exploring, sources
from tv_jax.certify.dice.cells import Uniform
from tv_jax.certify.dice.exploring import RefusedError
from tv_jax.certify.dice.noise import Noise

_COMPARED = {
  name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
} | {
  "less": operator.lt,
  "less_equal": operator.le,
  "greater": operator.gt,
  "greater_equal": operator.ge,
}
_COMPUTED = {
  "add": operator.add,
  "radd": lambda x, y: y + x,
  "sub": operator.sub,
  "subtract": operator.sub,
  "rsub": lambda x, y: y - x,
  "mul": operator.mul,
  "multiply": operator.mul,
  "rmul": lambda x, y: y * x,
  "div": operator.truediv,
  "divide": operator.truediv,
  "true_divide": operator.truediv,
  "truediv": operator.truediv,
  "rdiv": lambda x, y: y / x,
  "rtruediv": lambda x, y: y / x,
  "neg": operator.neg,
  "negative": operator.neg,
  "log": np.log,
  "log1p": np.log1p,
}
# What changes no value, and what shape alone it depends on.
_SAME = ("to", "float", "double", "half", "bfloat16", "cpu", "cuda", "type_as")
_SAME += ("contiguous", "clone", "detach", "type", "requires_grad", "data")
_MOVED = ("view", "reshape", "squeeze", "unsqueeze", "flatten", "expand", "t")
_MOVED += ("transpose", "permute", "getitem", "select", "narrow", "gather")
_MOVED += ("index_select", "take_along_dim", "expand_as", "view_as", "ravel")
_MOVED += ("T", "mT", "H", "mH")
_FACTS = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda")
_FACTS += ("layout", "names", "is_leaf", "grad_fn", "itemsize", "nbytes")
_FACTS += ("is_sparse", "is_quantized", "is_meta", "is_mps", "is_nested")
# Half precision rounds uniforms to 2**-8: their chances are others.
_FINE = (torch.float32, torch.float64)
_ASKED = ("size", "dim", "numel", "ndimension", "is_floating_point", "len")


class Random(torch.Tensor):
  """A tensor of random numbers that were not compared yet."""

  @classmethod
  def __torch_function__(cls, func, types, args=(), kwargs=None):
    """Does what can be done with random numbers."""
    del types
    kwargs = kwargs or {}
    name = getattr(func, "__name__", str(func))
    with torch._C.DisableTorchFunctionSubclass():
      if name == "__get__":
        name = getattr(func.__self__, "__name__", name)
        if name in _FACTS:
          return func(*args, **kwargs)
      elif name in _ASKED or name.strip("_") in _ASKED:
        return func(*args, **kwargs)
      return _applied(func, name, args, kwargs)


def _applied(func, name: str, args, kwargs):
  short = name.strip("_")
  # Names such as `add_` change their first tensor.
  into = args[0] if name.endswith("_") and not name.startswith("__") else None
  if name.startswith("__i") and short[1:] in _COMPUTED:
    short, into = short[1:], args[0]
  if short in _SAME and not name.startswith("__"):
    return _same(func, short, args, kwargs)
  if into is not None and (short in _MOVED or short in _COMPARED):
    into = None  # these would be changed to what is not random, or in shape
  elif short in _MOVED:
    return _moved(func, args, kwargs)
  elif short in _COMPARED and not kwargs:
    found = _COMPARED[short](*map(_entries, args[:2]))
    return torch.from_numpy(np.asarray(found, bool))
  if short in _COMPUTED and not kwargs:
    with np.errstate(divide="ignore"):
      found = np.asarray(_COMPUTED[short](*map(_entries, args)), object)
    return as_random(found, args[0] if into is None else into, into)
  if short in ("searchsorted", "bucketize"):
    return _searched(short, *args, **kwargs)
  if short in ("argmax", "argmin"):
    return _raced(getattr(np, short), *args, **kwargs)
  if short in ("item", "tolist", "numpy", "array"):
    found = _entries(args[0])
    if isinstance(args[0], Random):
      _kin(args[0]).append(lambda: found)  # it is in use for ever
    return found if short in ("numpy", "array") else getattr(found, short)()
  if short in ("iter", "unbind"):
    rows = [
      _of_kin(as_random(np.asarray(x, object), args[0]), args[0])
      for x in _entries(args[0])
    ]
    return iter(rows) if short == "iter" else tuple(rows)
  if short in ("repr", "format", "str"):
    cells.refuse("prints a random number")
  raise RefusedError(
    f"gives random numbers to torch's {name}, which cannot be followed: a"
    " uniform can be compared with numbers, and noise can race by argmax"
  )


def _same(func, short: str, args, kwargs):
  """Returns a tensor of the same numbers: maybe it is the same in memory."""
  found = func(*args, **kwargs)
  if not isinstance(found, torch.Tensor):  # type() names the type
    return found
  if found.dtype not in _FINE:
    cells.refuse(f"rounds random numbers to {found.dtype}")
  if short == "requires_grad":
    return args[0]
  new = as_random(_entries(args[0]), found.detach())
  return new if short == "clone" else _of_kin(new, args[0])


def _kin(tensor: Random) -> list:
  """Returns references to the tensors that may share its memory."""
  return tensor.__dict__.setdefault("kin", [weakref.ref(tensor)])


def _of_kin(new: Random, tensor: Random) -> Random:
  """Notes that a new tensor may share another's memory."""
  _kin(tensor).append(weakref.ref(new))
  new.__dict__["kin"] = _kin(tensor)
  return new


def _raced(function, tensor, dim=None, keepdim=False):
  found = function(_entries(tensor), axis=dim)
  if keepdim and dim is not None:
    found = np.expand_dims(found, dim)
  return torch.as_tensor(found)


def _searched(name, one, other, *, right=False, side="left", **_):
  """Returns how many of the sorted numbers are below each uniform."""
  row, values = (one, other) if name == "searchsorted" else (other, one)
  if isinstance(row, Random) or row.ndim != 1:
    cells.refuse("searches in other numbers than a row of them")
  below = operator.le if right or side == "right" else operator.lt
  entries = np.asarray(_entries(values))
  found = np.zeros(entries.shape, int)
  for number in row.tolist():
    found += np.asarray(below(number, entries), int)
  return torch.as_tensor(found)


def _moved(func, args, kwargs):
  """Moves entries as torch moves their numbers."""
  tensor = args[0]
  if not isinstance(tensor, Random):
    cells.refuse("uses a random number as an index")
  numbers = torch.arange(tensor.numel()).reshape(tuple(tensor.shape))
  # gather and its like want numbers of no special kind.
  places = func(numbers, *args[1:], **kwargs)
  if places.dtype != numbers.dtype:
    cells.refuse("reads the bits of a random number")
  flat = _entries(tensor).ravel()
  found = np.empty(tuple(places.shape), object)
  for at in np.ndindex(found.shape):
    found[at] = flat[int(places[at])]
  return _of_kin(as_random(found, tensor), tensor)


def _entries(value):
  """Returns a tensor's entries as an array, of random or exact numbers."""
  if isinstance(value, Random):
    return value.entries
  if isinstance(value, torch.Tensor):
    value = value.detach().cpu()
    wide = value.double() if value.is_floating_point() else value
    return np.asarray(wide.clone().numpy(), object)
  return value


def as_random(entries, like: torch.Tensor, into: torch.Tensor | None = None):
  """Makes a random tensor, or makes one that is there random."""
  if into is None:
    found = torch.empty(entries.shape, dtype=like.dtype, device=like.device)
    return as_random(entries, like, found)
  if tuple(into.shape) != entries.shape or _is_shared(into):
    cells.refuse(
      "changes a part of a tensor to random numbers, or one whose memory"
      " another tensor or array shares (clone it)"
    )
  if into.dtype not in _FINE:
    cells.refuse(f"rounds random numbers to {into.dtype}")
  into.__class__ = Random  # as torch's own uninitialised parameters do
  vars(into)["entries"] = entries
  return into


def _is_shared(tensor: torch.Tensor) -> bool:
  """Tells whether another tensor or array that is in use shares its memory."""
  if isinstance(tensor, Random):
    return any(
      one() is not None and one() is not tensor for one in _kin(tensor)
    )
  base = tensor._base
  storage = tensor.untyped_storage()
  count = getattr(torch._C, "_storage_Use_Count", lambda _: 0)(storage._cdata)
  # The tensor and its storage's object; the base of a view is one more.
  if count > 2 + (base is not None) or not storage.resizable():
    return True
  # Here, in getrefcount and in torch itself it is held; and nowhere else?
  return base is not None and sys.getrefcount(base) > 3


def _fresh(shape, make: Callable, dtype=None, like=None):
  if like is None:
    like = torch.empty((), dtype=dtype or torch.get_default_dtype())
  entries = np.asarray(cells.array(tuple(shape), make), object)
  return as_random(entries, like)


def _rand(*shape, size=None, dtype=None, **_):
  size = shape if size is None else size
  size = size[0] if len(size) == 1 and np.ndim(size[0]) else size
  return _fresh(size, Uniform, dtype)


def _rand_like(tensor, *, dtype=None, **_):
  like = torch.empty((), dtype=dtype or tensor.dtype)
  return _fresh(tensor.shape, Uniform, like=like)


def _multinomial(input, num_samples=1, replacement=False, **_):
  weights = input
  rows = weights.detach().double().reshape(-1, weights.shape[-1]).tolist()
  if num_samples == 1 or replacement:
    found = [[sources.draw(row) for _ in range(num_samples)] for row in rows]
  else:
    found = [sources.without_replacement(row, num_samples) for row in rows]
  return torch.tensor(found).reshape(*weights.shape[:-1], num_samples)


def _bernoulli(input, p=None, **_):
  """Draws ones by their chances, or all by one chance."""
  weights = input
  law = weights if p is None else torch.as_tensor(p).expand_as(weights)
  flat = law.detach().double().ravel().tolist()
  shares = [exploring.rational(x) for x in flat]
  found = [float(sources.draw([1 - x, x])) for x in shares]
  return torch.tensor(found, dtype=weights.dtype).reshape(weights.shape)


def _bernoulli_(tensor, p=0.5, **_):
  return tensor.copy_(_bernoulli(tensor, p))


def _randint(low=0, high=None, size=(), dtype=None, **_):
  if isinstance(high, tuple | list):  # randint(high, size)
    low, high, size = 0, low, high
  elif high is None:  # randint(high, size=size)
    low, high = 0, low
  dtype = dtype or torch.int64
  for end in (low, high - 1):
    # As a number: torch would wrap `end` to the tensor's type as well.
    if torch.tensor(end).to(dtype).item() != end:
      raise ValueError(f"{end} is out of bounds for {dtype}")
  found = sources.filled(
    tuple(size), lambda: low + sources.draw_from(high - low)
  )
  return torch.tensor(np.asarray(found)).to(dtype)


def _randperm(n, dtype=None, **_):
  found = sources.without_replacement([1] * n, n)
  return torch.tensor(found).to(dtype or torch.int64)


def _exponential_(tensor, lambd=1.0, **_):
  entries = np.asarray(cells.array(tuple(tensor.shape), Noise), object)
  return as_random(entries / lambd, tensor, tensor)


def _uniform_(tensor, low=0.0, high=1.0, **_):
  entries = np.asarray(cells.array(tuple(tensor.shape), Uniform), object)
  return as_random(entries * (high - low) + low, tensor, tensor)


def _refused(name: str) -> Callable:
  def refused(*_, **__):
    raise RefusedError(f"draws by torch's {name}, which cannot be explored")

  return refused


def _seeding(module) -> dict[str, Any]:
  """Returns what stands for all that seeds a generator, or reads its state."""

  def seeds(name, *_, **__):
    sources.refuse_seed(f"seeds or copies torch's generator ({name})")

  public = [x for x in vars(module) if not x.startswith("_")]
  names = [x for x in public if "seed" in x or "rng" in x]
  found: dict[str, Any] = {x: functools.partial(seeds, x) for x in names}
  if "default_generator" in vars(module):
    found["default_generator"] = sources.Twin()
  if "Generator" in vars(module):
    found["Generator"] = type("Generator", (sources.Seeded,), {})
  return found


def _without_out(name: str, function: Callable) -> Callable:
  def called(*arguments, **named):
    if named.get("generator") is not None:
      sources.refuse_seed("draws by a torch.Generator")
    if named.get("out") is not None:
      cells.refuse(f"fills a tensor by torch's {name} (out=)")
    return function(*arguments, **named)

  return called


def _reading(function: Callable) -> Callable:
  def read(data, *arguments, **named):
    if _holds(data):
      cells.refuse(f"gives random numbers to torch.{function.__name__}")
    return function(data, *arguments, **named)

  return read


def _holds(data) -> bool:
  """Tells whether there are random tensors in it."""
  if isinstance(data, list | tuple):
    return any(map(_holds, data))
  return isinstance(data, Random)


def standing() -> list[tuple]:
  """Returns what stands for torch's functions, by where they are."""
  functions = {
    "rand": _rand,
    "rand_like": _rand_like,
    "multinomial": _multinomial,
    "bernoulli": _bernoulli,
    "randint": _randint,
    "randperm": _randperm,
  }
  functions = {k: _without_out(k, v) for k, v in functions.items()}
  functions |= {name: _refused(name) for name in ("randn", "randn_like")}
  others = ("normal", "poisson", "binomial", "randint_like", "dropout")
  functions |= {name: _refused(name) for name in others}
  methods = {
    "multinomial": _multinomial,
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli_,
    "exponential_": _exponential_,
    "uniform_": _uniform_,
  }
  methods = {k: _without_out(k, v) for k, v in methods.items()}
  methods |= {
    name: _refused(name)
    for name in ("normal_", "cauchy_", "log_normal_", "random_", "geometric_")
  }
  # These read a tensor's memory, and ask no class.
  functions |= {k: _reading(getattr(torch, k)) for k in ("tensor", "as_tensor")}
  seeds = [(x, _seeding(x)) for x in (torch.random, torch.cuda)]
  functions |= _seeding(torch)
  return [(torch, functions), (torch.Tensor, methods), *seeds]
