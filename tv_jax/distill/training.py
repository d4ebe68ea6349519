"""Steps of training, and checkpoints from which a killed run goes on."""

from __future__ import annotations

import contextlib
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax.contrib import MuonDimensionNumbers

from tv_jax.edge import disk

# Products whose kernels [out, in] are Muon's.
PRODUCTS = frozenset({"qkv", "out", "gate_up", "down", "fc"})


def _dimensions(path, leaf) -> MuonDimensionNumbers | None:
  """Returns the axes of a kernel; None of what is AdamW's."""
  del leaf
  *_, product, name = ("", *(entry.key for entry in path))
  if name == "kernel" and product in PRODUCTS:
    return MuonDimensionNumbers((1,), (0,))
  return None


def ramp(steps: int, decay: int, rate: float, warmup: int) -> optax.Schedule:
  """Returns a rate that goes up, along and down to 0, all straight.

  Args:
    steps: In all.
    decay: The last so many of them, in which the rate falls.
    rate: The highest.
    warmup: The first so many, in which it rises.
  """
  parts = [
    optax.linear_schedule(0.0, rate, warmup),
    optax.constant_schedule(rate),
    optax.linear_schedule(rate, 0.0, decay),
  ]
  return optax.join_schedules(parts, [warmup, steps - decay])


def optimizer(rate: optax.Schedule) -> optax.GradientTransformation:
  """Makes Muon for the matrices inside the layers, and AdamW for all else."""
  return optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.contrib.muon(
      rate,
      weight_decay=0.1,
      # Steps as long as Adam's, so that one rate serves both.
      consistent_rms=0.2,
      muon_weight_dimension_numbers=functools.partial(
        jax.tree_util.tree_map_with_path, _dimensions
      ),
    ),
  )


@contextlib.contextmanager
def _lenient():
  """Lets optax's own code mix types, which strict promotion would refuse."""
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    yield


def train(
  loss: Callable,
  params: dict,
  key: jax.Array,
  rows: Callable[[int], Any],
  rate: optax.Schedule,
  steps: int,
  path: pathlib.Path,
  frozen: tuple = (),
  *,
  save_every: int = 100,
  say: Callable[[int, int, dict, dict], None],
) -> dict:
  """Trains, or continues where a run was stopped.

  A step depends only on its number and on the state before it, so that a run
  that was killed ends in the same weights as one that was not.

  Args:
    loss: (*frozen, params, key, rows) to (loss, {name: value to log}).
    params: The initial parameters.
    key: Where all random numbers of the steps come from.
    rows: What a step reads, by its number; the first is 0.
    rate: The learning rate, by step.
    steps: How many there are.
    path: The checkpoint's file.
    frozen: Parameters that are not trained.
    save_every: Steps between checkpoints.
    say: Is told after each step: its number, of how many, the parameters, and
      the values to log.

  Returns:
    The trained parameters.
  """
  tool = optimizer(rate)
  state = params, tool.init(params)
  leaves, structure = jax.tree.flatten(state)
  done = 0
  if path.exists():
    with np.load(path) as file:
      done = int(file["done"])
      kept = [jnp.asarray(file[f"arr_{i}"]) for i in range(len(leaves))]
    state = jax.tree.unflatten(structure, kept)

  @functools.partial(jax.jit, donate_argnums=0)
  def step(state, frozen, key, rows):
    params, memory = state
    of = functools.partial(loss, *frozen)
    (value, seen), slope = jax.value_and_grad(of, has_aux=True)(
      params, key, rows
    )
    with _lenient():
      change, memory = tool.update(slope, memory, params)
      params = optax.apply_updates(params, change)
    return (params, memory), {"loss": value, **seen}

  for number in range(done + 1, steps + 1):
    step_key = jax.random.fold_in(key, number - 1)
    state, seen = step(state, frozen, step_key, rows(number - 1))
    say(number, steps, state[0], seen)
    if number % save_every == 0 or number == steps:
      with disk.whole(path) as file:
        np.savez(file, *map(np.asarray, jax.tree.leaves(state)), done=number)
  return state[0]
