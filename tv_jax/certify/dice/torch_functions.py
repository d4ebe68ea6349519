"""Torch's random numbers, where torch's operations meet their memory.

While a function is explored, all that torch computes comes through `Operations`
(a dispatch mode). Beside the memory of a tensor it keeps what is random in it,
place by place. So views share their random numbers as they share memory, and
no tensor is of another class. Memory itself holds other numbers in every other
run, for whoever reads it past torch's operations: runs that drew the same must
return the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tv_jax.certify.dice import generators
from tv_jax.certify.dice.cells import exponential, uniform
from tv_jax.certify.dice.generators import draw
from tv_jax.certify.dice.paths import RefusedError, current, refuse

_COMPARED = {x: getattr(operator, x) for x in ("lt", "le", "gt", "ge")}
_COMPARED |= {"eq": operator.eq, "ne": operator.ne}
_COMPUTED: dict[str, Callable] = {
  "add": operator.add,
  "sub": operator.sub,
  "mul": operator.mul,
  "div": operator.truediv,
  "rsub": lambda x, y: y - x,
  "reciprocal": lambda x: 1 / x,
  "neg": operator.neg,
  "log": np.log,
}
# What moves numbers to other memory, and changes none.
_MOVED = ("clone", "_to_copy", "index", "gather", "index_select")
_MOVED += ("_unsafe_view",)
# Half precision rounds uniforms to 2**-8: their chances are others.
_FINE = (torch.float32, torch.float64)
# Memories that are known at most, before those of earlier runs are forgotten.
_MOST = 10_000


class _Memory:
  """What is random in a memory.

  Attributes:
    tensor: Keeps the memory.
    run: In which it became random.
    numbers: [places] random numbers; None where the memory's own counts.
  """

  def __init__(self, tensor: torch.Tensor):
    """Has no random numbers yet."""
    self.tensor, self.run = tensor.detach(), current().number
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    self.numbers = np.full(size, None, object)

  def written(self, places: np.ndarray) -> np.ndarray:
    """Returns what memory holds where it is random: large, of either sign."""
    return np.asarray((-1.0) ** self.run * (2.0**20 + places))


def _places(tensor: torch.Tensor, size: int) -> np.ndarray:
  """Returns which places of `size` in its memory a tensor has."""
  every = torch.arange(size, device="cpu")
  shape = tensor.shape, tensor.stride(), tensor.storage_offset()
  return every.as_strided(*shape).numpy()


class Operations(TorchDispatchMode):
  """Does what can be done with random numbers, and refuses the rest."""

  def __init__(self):
    """Knows no random numbers yet."""
    super().__init__()
    self._memories: dict[int, _Memory] = {}

  @classmethod
  def _should_skip_dynamo(cls) -> bool:
    """Spares the import of torch's compiler."""
    return False

  def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    """Runs an operation."""
    del types
    kwargs, name = kwargs or {}, func.overloadpacket.__name__
    if name in _DRAWS or torch.Tag.nondeterministic_seeded in func.tags:
      return self._drawn(name, args, kwargs)
    where = [self.is_random(x) for x in pytree.tree_leaves((args, kwargs))]
    if not any(where) or func.is_view or torch.Tag.inplace_view in func.tags:
      return func(*args, **kwargs)
    if name in _MOVED and where[0] and sum(where) == 1:
      return self._moved(func, args, kwargs)
    short = name.removesuffix("_")
    entries = [self.entries(x) for x in args] if not kwargs else []
    if name in _COMPARED and entries:
      answer = np.asarray(_COMPARED[name](*entries), bool)
      return torch.from_numpy(answer).to(args[0].device)
    if short in _COMPUTED and len(args) < 3 and entries:
      with np.errstate(divide="ignore"):
        entries = np.asarray(_COMPUTED[short](*entries), object)
      if name != short:
        return self.fill(args[0], entries)
      dtype = torch.result_type(*args) if len(args) == 2 else args[0].dtype
      return self.fill(
        torch.empty(entries.shape, dtype=dtype, device=args[0].device), entries
      )
    if name == "copy_":
      return self.fill(args[0], entries[1])
    if name in ("argmax", "argmin"):
      return self._raced(getattr(np, name), *args, **kwargs)
    if name == "_local_scalar_dense":
      refuse("makes a Python number of a random one")
    raise RefusedError(
      f"gives random numbers to torch's {name}, which cannot be followed: a"
      " uniform can be compared with numbers, and noise can race by argmax"
    )

  def _drawn(self, name: str, args, kwargs):
    if kwargs.pop("generator", None) is not None:
      generators.refuse_seed("draws by a torch.Generator")
    if name not in _DRAWS or "out" in kwargs:
      raise RefusedError(f"draws by torch's {name}, which cannot be explored")
    return _DRAWS[name](self, *args, **kwargs)

  def _moved(self, func, args, kwargs):
    entries = self.entries(args[0])
    numbers = torch.arange(entries.size).reshape(entries.shape)
    numbers = numbers.to(args[0].device)
    moved = func(*args, **kwargs)
    places = func(numbers, *args[1:], **kwargs).long().cpu()
    return self.fill(moved, entries.ravel()[places.numpy()])

  def _raced(self, function, tensor, dim=None, keepdim=False):
    winners = np.asarray(function(self.entries(tensor), axis=dim))
    if keepdim and dim is not None:
      winners = np.expand_dims(winners, dim)
    return torch.from_numpy(winners).to(tensor.device)

  def is_random(self, value) -> bool:
    """Tells whether it is a tensor with random numbers in its memory."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
      return False
    return value.untyped_storage()._cdata in self._memories

  def _memory(self, tensor: torch.Tensor) -> _Memory:
    memory = self._memories[tensor.untyped_storage()._cdata]
    if memory.run != current().number:
      refuse("keeps a tensor of random numbers from run to run")
    if memory.tensor.dtype != tensor.dtype:
      refuse("reads the bits of random numbers")
    return memory

  def entries(self, value) -> Any:
    """Returns a tensor's numbers, random or exact, as an array."""
    if not isinstance(value, torch.Tensor):
      return value
    plain = value.detach().cpu()
    if plain.is_floating_point():
      plain = plain.double()
    entries = np.array(_NUMPY(plain), object)
    if not self.is_random(value):
      return entries
    memory = self._memory(value)
    places = _places(value, len(memory.numbers))
    numbers = np.asarray(memory.numbers[places], object)
    random = np.vectorize(lambda x: x is not None, otypes=[bool])(numbers)
    if (entries != memory.written(places))[random].any():
      refuse("writes into a tensor of random numbers past torch's functions")
    entries[random] = numbers[random]
    return entries

  def fill(self, tensor: torch.Tensor, entries) -> torch.Tensor:
    """Makes a tensor's numbers random."""
    if tensor.dtype not in _FINE:
      refuse(f"rounds random numbers to {tensor.dtype}")
    key, run = tensor.untyped_storage()._cdata, current().number
    if len(self._memories) > _MOST:
      known = self._memories.items()
      self._memories = {x: memory for x, memory in known if memory.run == run}
    old = self._memories.get(key)
    # A buffer may be filled anew in each run.
    if not old or (old.run != run and tensor.numel() == len(old.numbers)):
      self._memories[key] = _Memory(tensor)
    memory = self._memory(tensor)
    places = _places(tensor, len(memory.numbers))
    memory.numbers[places] = entries
    tensor.detach().copy_(torch.from_numpy(memory.written(places)))
    return tensor

  def uniforms(self, tensor, low=0.0, high=1.0):
    """Fills a tensor with uniforms."""
    drawn = generators.filled(tuple(tensor.shape), uniform)
    return self.fill(tensor, drawn * (high - low) + low)

  def noise(self, tensor, rate=1.0):
    """Fills a tensor with exponential noise."""
    drawn = generators.filled(tuple(tensor.shape), exponential)
    return self.fill(tensor, drawn / rate)


def _multinomial(_, laws, count, replacement=False):
  rows = laws.detach().double().reshape(-1, laws.shape[-1]).tolist()
  if count == 1 or replacement:
    drawn = [[draw(row) for _ in range(count)] for row in rows]
  else:
    drawn = [generators.draw_distinct(row, count) for row in rows]
  drawn = torch.tensor(drawn, device=laws.device)
  return drawn.reshape(*laws.shape[:-1], count)


_DRAWS: dict[str, Callable] = {
  "rand": lambda do, size, **x: do.uniforms(torch.empty(size, **x)),
  "rand_like": lambda do, like, **x: do.uniforms(torch.empty_like(like, **x)),
  "uniform_": Operations.uniforms,
  "exponential_": Operations.noise,
  "multinomial": _multinomial,
}
_NUMPY = torch.Tensor.numpy


def stand_ins(operations: Operations) -> list[tuple[Any, dict[str, Any]]]:
  """Lists what is replaced: what reads memory, seeds, or has a state.

  Returns:
    {name: what stands for it} of each module or class.
  """

  def reads(name: str):
    read = getattr(torch.Tensor, name)

    def called(tensor, *args, **kwargs):
      if not operations.is_random(tensor):
        return read(tensor, *args, **kwargs)
      if name == "numpy":
        refuse("makes an array of a tensor of random numbers")
      with torch._C._DisableTorchDispatch():
        return getattr(operations.entries(tensor), name)()

    return called

  def seeds(name: str):
    def called(*_, **__):
      generators.refuse_seed(f"seeds or copies torch's generator ({name})")

    return called

  reading = {name: reads(name) for name in ("item", "tolist", "numpy")}
  replaced: list[tuple[Any, dict[str, Any]]] = [(torch.Tensor, reading)]
  for module in (torch, torch.random, torch.cuda):
    names = [x for x in vars(module) if "seed" in x or "rng" in x]
    names = [x for x in names if not x.startswith("_")]
    replaced.append((module, {name: seeds(name) for name in names}))
  replaced.append((torch, {"default_generator": generators.Twin()}))
  return replaced
