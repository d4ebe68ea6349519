"""What stands for torch's random functions, and the tensors that they make.

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
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tv_jax.certify.dice import generators, paths
from tv_jax.certify.dice.cells import exponential, uniform
from tv_jax.certify.dice.generators import draw
from tv_jax.certify.dice.paths import RefusedError, rational, refuse

_COMPARED = {x: getattr(operator, x) for x in ("lt", "le", "gt", "ge")}
_COMPARED |= {"eq": operator.eq, "ne": operator.ne}
_COMPUTED = {x: getattr(operator, x) for x in ("add", "sub", "mul", "truediv")}
_COMPUTED |= {"neg": operator.neg, "log": np.log, "log1p": np.log1p}
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
_FACTS = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda")
_FACTS += ("layout", "names", "is_leaf", "grad_fn", "is_sparse", "is_meta")
_FACTS += ("size", "dim", "numel", "ndimension", "is_floating_point", "len")
# Half precision rounds uniforms to 2**-8: their chances are others.
_FINE = (torch.float32, torch.float64)
# Of what memory holds; float32 has all of them exactly.
_LARGE, _TINY = 2.0**20, 2.0**-43


class _Cells(list):
  """The numbers of tensors that may share their memory."""

  exported = False  # to an array, which sees no later change


class Random(torch.Tensor):
  """A tensor of random numbers; its memory holds their places in `cells`."""

  cells: _Cells

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
    answer = _COMPARED[short](*map(_entries, args[:2]))
    return torch.from_numpy(np.asarray(answer, bool))
  if short in _COMPUTED and not kwargs:
    with np.errstate(divide="ignore"):
      entries = _COMPUTED[short](*map(_entries, args))
    return _random(entries, args[0] if into is None else into, into)
  if short == "searchsorted":
    return _searched(*args, **kwargs)
  if short in ("argmax", "argmin"):
    return _raced(getattr(np, short), *args, **kwargs)
  if short in ("item", "tolist", "numpy", "array") and isinstance(
    args[0], Random
  ):
    entries = np.asarray(_entries(args[0]), object)
    if short in ("item", "tolist"):
      return getattr(entries, short)()
    args[0].cells.exported = True
    return entries
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
    if value.dtype not in _FINE:
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


def _searched(row, values, *, right=False, side="left", out_int32=False):
  """Returns how many of the sorted numbers are below each uniform."""
  if isinstance(row, Random) or row.ndim != 1:
    refuse("searches in other numbers than a row of them")
  below = operator.le if right or side == "right" else operator.lt
  entries = np.asarray(_entries(values))
  counts = np.zeros(entries.shape, int)
  for number in row.tolist():
    counts += np.asarray(below(number, entries), int)
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


def _random(entries, like: torch.Tensor, into: Any = None):
  """Makes a random tensor, or makes one that is there random."""
  entries = np.asarray(entries, object)
  if into is None:
    into = torch.empty(entries.shape, dtype=like.dtype, device=like.device)
  elif tuple(into.shape) != entries.shape or _is_shared(into):
    refuse(
      "changes a part of a tensor to random numbers, or one whose memory"
      " another tensor or array shares (clone it)"
    )
  if into.dtype not in _FINE:
    refuse(f"rounds random numbers to {into.dtype}")
  if not isinstance(into, Random):
    into.__class__ = Random  # as torch's own uninitialised parameters do
    into.cells = _Cells()
  begin = len(into.cells)
  into.cells.extend(entries.ravel())
  if len(into.cells) > _LARGE:
    refuse("keeps a tensor of random numbers from run to run")
  places = torch.arange(begin, len(into.cells)).reshape(entries.shape)
  into.as_subclass(torch.Tensor).copy_(_written(places))
  return into


def _is_shared(tensor: torch.Tensor) -> bool:
  """Tells whether what is no random tensor shares its memory."""
  if isinstance(tensor, Random):
    return tensor.cells.exported
  base = tensor._base
  storage = tensor.untyped_storage()
  count = getattr(torch._C, "_storage_Use_Count", lambda _: 0)(storage._cdata)
  # The tensor and its storage's object; the base of a view is one more.
  if count > 2 + (base is not None) or not storage.resizable():
    return True
  # Here, in getrefcount and in torch itself it is held; and nowhere else?
  return base is not None and sys.getrefcount(base) > 3


def _rand(*shape, size=None, dtype=None, **_):
  size = shape if size is None else size
  size = size[0] if len(size) == 1 and np.ndim(size[0]) else size
  like = torch.empty((), dtype=dtype or torch.get_default_dtype())
  return _random(generators.filled(tuple(size), uniform), like)


def _rand_like(tensor, *, dtype=None, **_):
  return _rand(*tensor.shape, dtype=dtype or tensor.dtype)


def _multinomial(input, num_samples=1, replacement=False):
  rows = input.detach().double().reshape(-1, input.shape[-1]).tolist()
  if num_samples == 1 or replacement:
    drawn = [[draw(row) for _ in range(num_samples)] for row in rows]
  else:
    drawn = [generators.draw_distinct(row, num_samples) for row in rows]
  return torch.tensor(drawn).reshape(*input.shape[:-1], num_samples)


def _bernoulli(input, p=None):
  """Draws ones by their chances, or all by one chance."""
  law = input if p is None else torch.as_tensor(p).expand_as(input)
  shares = map(rational, law.detach().double().ravel().tolist())
  drawn = [float(draw([1 - x, x])) for x in shares]
  return torch.tensor(drawn, dtype=input.dtype).reshape(input.shape)


def _bernoulli_(tensor, p=0.5):
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
  drawn = generators.filled(
    tuple(size), lambda: low + generators.draw_below(high - low), int
  )
  return torch.tensor(drawn).to(dtype)


def _randperm(n, dtype=None, **_):
  drawn = generators.draw_distinct([1] * n, n)
  return torch.tensor(drawn).to(dtype or torch.int64)


def _exponential_(tensor, lambd=1.0):
  noise = generators.filled(tuple(tensor.shape), exponential)
  return _random(noise / lambd, tensor, tensor)


def _uniform_(tensor, low=0.0, to=1.0):
  uniforms = generators.filled(tuple(tensor.shape), uniform)
  return _random(uniforms * (to - low) + low, tensor, tensor)


def _refused(*_, name: str, **__):
  raise RefusedError(f"draws by torch's {name}, which cannot be explored")


def _seeds(*_, name: str, **__):
  generators.refuse_seed(f"seeds or copies torch's generator ({name})")


def _plain(name: str, function: Callable) -> Callable:
  """Returns a function without a generator or a tensor to fill."""

  def called(*arguments, **named):
    if named.pop("generator", None) is not None:
      generators.refuse_seed("draws by a torch.Generator")
    if named.pop("out", None) is not None:
      refuse(f"fills a tensor by torch's {name} (out=)")
    return function(*arguments, **named)

  return called


def _reading(function: Callable) -> Callable:
  """Guards a function that reads a tensor's memory, and asks no class."""

  def called(*arguments, **named):
    if _holds([*arguments, *named.values()]):
      refuse(f"gives random numbers to torch.{function.__name__}")
    return function(*arguments, **named)

  return called


def _holds(data) -> bool:
  """Tells whether there are random tensors in it."""
  if isinstance(data, list | tuple):
    return any(map(_holds, data))
  return isinstance(data, Random)


def _seeding(module) -> dict[str, Any]:
  """Returns what stands for all that seeds a generator, or reads its state."""
  return {
    name: functools.partial(_seeds, name=name)
    for name in vars(module)
    if not name.startswith("_") and ("seed" in name or "rng" in name)
  }


def stand_ins() -> list[tuple[Any, dict[str, Any]]]:
  """Lists what is replaced: {name: what stands for it} of each module."""
  functions = {
    "rand": _rand,
    "rand_like": _rand_like,
    "multinomial": _multinomial,
    "bernoulli": _bernoulli,
    "randint": _randint,
    "randperm": _randperm,
  }
  methods = {
    "multinomial": _multinomial,
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli_,
    "exponential_": _exponential_,
    "uniform_": _uniform_,
  }
  for stands in (functions, methods):
    for name, value in stands.items():
      stands[name] = _plain(name, value)
  refused = ("randn", "randn_like", "normal", "poisson", "binomial", "dropout")
  refused += ("randint_like", "normal_", "cauchy_", "log_normal_", "random_")
  for name in (*refused, "geometric_"):
    stands = methods if name.endswith("_") else functions
    stands[name] = functools.partial(_refused, name=name)
  for name in ("tensor", "as_tensor", "asarray", "full", "full_like"):
    functions[name] = _reading(getattr(torch, name))
  functions["scalar_tensor"] = _reading(torch.scalar_tensor)
  for name in ("new_tensor", "new_full", "new"):
    methods[name] = _reading(getattr(torch.Tensor, name))
  functions |= _seeding(torch) | {
    "default_generator": generators.Twin(),
    "Generator": type("Generator", (generators.Seeded,), {}),
  }
  modules = [(x, _seeding(x)) for x in (torch.random, torch.cuda)]
  return [(torch, functions), (torch.Tensor, methods), *modules]
