"""Stand-ins for torch's functions that draw random numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tv_jax.certify.dice import arrays, generators
from tv_jax.certify.dice.cells import exponential, uniform
from tv_jax.certify.dice.choices import draw, draw_distinct
from tv_jax.certify.dice.paths import RefusedError, rational, refuse
from tv_jax.certify.dice.tensors import FINE, Random, fill


def _rand(*shape, size=None, dtype=None, **_):
  size = shape if size is None else size
  size = size[0] if len(size) == 1 and np.ndim(size[0]) else size
  like = torch.empty((), dtype=dtype or torch.get_default_dtype())
  return fill(generators.filled(tuple(size), uniform), like)


def _rand_like(tensor, *, dtype=None, **_):
  return _rand(*tensor.shape, dtype=dtype or tensor.dtype)


def _multinomial(input, num_samples=1, replacement=False):
  if input.dtype not in FINE:
    refuse(f"draws from a law of {input.dtype}, whose chances torch rounds")
  rows = input.detach().double().reshape(-1, input.shape[-1])
  if not (rows.isfinite() & (rows >= 0)).all():
    raise RuntimeError(
      "probability tensor contains either `inf`, `nan` or element < 0"
    )
  if (rows.sum(-1) <= 0).any():
    raise RuntimeError(
      "invalid multinomial distribution (sum of probabilities <= 0)"
    )
  if not replacement and num_samples > rows.shape[-1]:
    raise RuntimeError(
      "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    )
  if not replacement and num_samples > (rows > 0).sum(-1).min():
    refuse("draws more tokens than have a positive probability")
  rows = rows.tolist()
  if num_samples == 1 or replacement:
    drawn = [[draw(row) for _ in range(num_samples)] for row in rows]
  else:
    drawn = [draw_distinct(row, num_samples) for row in rows]
  return torch.tensor(drawn).reshape(*input.shape[:-1], num_samples)


def _bernoulli(input, p=None):
  """Draws each 1 with its probability in `input`, or with probability p."""
  law = input if p is None else torch.as_tensor(p).expand_as(input)
  shares = map(rational, law.detach().double().ravel().tolist())
  drawn = [float(draw([1 - x, x])) for x in shares]
  return torch.tensor(drawn, dtype=input.dtype).reshape(input.shape)


def _exponential_(tensor, lambd=1.0):
  noise = generators.filled(tuple(tensor.shape), exponential)
  return fill(noise / lambd, tensor, tensor)


def _uniform_(tensor, low=0.0, to=1.0):
  uniforms = generators.filled(tuple(tensor.shape), uniform)
  return fill(uniforms * (to - low) + low, tensor, tensor)


def _refused(*_, name: str, **__):
  raise RefusedError(f"draws by torch's {name}, which cannot be explored")


def _seeds(*_, name: str, **__):
  generators.refuse_seed(f"seeds or copies torch's generator ({name})")


def _plain(name: str, function: Callable) -> Callable:
  """Makes a stand-in refuse the arguments `generator` and `out`."""

  def called(*arguments, **named):
    if named.pop("generator", None) is not None:
      generators.refuse_seed("draws by a torch.Generator")
    if named.pop("out", None) is not None:
      refuse(f"fills a tensor by torch's {name} (out=)")
    return function(*arguments, **named)

  return called


def _reading(function: Callable) -> Callable:
  """Makes a function that bypasses `Random` refuse random tensors."""

  def called(*arguments, **named):
    if arrays.holds([*arguments, *named.values()], Random):
      refuse(f"gives random numbers to torch.{function.__name__}")
    return function(*arguments, **named)

  return called


def _seeding(module) -> dict[str, Any]:
  """Returns stand-ins that refuse to seed a generator or read its state."""
  return {
    name: functools.partial(_seeds, name=name)
    for name in vars(module)
    if not name.startswith("_") and ("seed" in name or "rng" in name)
  }


# Stand-ins for functions of torch and methods of tensors with these names.
_DRAWS = {
  "rand": _rand,
  "rand_like": _rand_like,
  "multinomial": _multinomial,
  "bernoulli": _bernoulli,
  "exponential_": _exponential_,
  "uniform_": _uniform_,
}
_REFUSED = ("randn", "randn_like", "normal", "poisson", "binomial", "dropout")
_REFUSED += ("randint_like", "normal_", "cauchy_", "log_normal_", "random_")
_REFUSED += ("geometric_", "randperm", "randint", "bernoulli_")
_READING = ("tensor", "as_tensor", "asarray", "scalar_tensor", "full")
_READING += ("full_like", "new_tensor", "new_full", "new", "from_numpy")
_READING += ("where",)


def stand_ins() -> list[tuple[Any, dict[str, Any]]]:
  """Lists pairs of a module or class and its stand-ins, by name."""
  draws = {name: _plain(name, draws) for name, draws in _DRAWS.items()}
  draws |= {x: functools.partial(_refused, name=x) for x in _REFUSED}
  replaced = []
  for owner in (torch, torch.Tensor):
    names = {name: draws[name] for name in draws if hasattr(owner, name)}
    reading = [getattr(owner, x) for x in _READING if hasattr(owner, x)]
    names |= {function.__name__: _reading(function) for function in reading}
    replaced.append((owner, names))
  replaced += [(x, _seeding(x)) for x in (torch, torch.random, torch.cuda)]
  generator = type("Generator", (generators.Seeded,), {})
  default = {"default_generator": generators.TWIN}
  replaced.append((torch, default | {"Generator": generator}))
  replaced.append((torch.random, default))
  return replaced
