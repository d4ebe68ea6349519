"""Steps of training, and checkpoints from which a killed run goes on."""

from __future__ import annotations

import contextlib
import dataclasses
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

# Products whose kernels [in, out] are Muon's.
PRODUCTS = frozenset({"qkv", "out", "gate_up", "down", "fc"})


def _dimensions(path, leaf) -> MuonDimensionNumbers | None:
  """Returns the axes of a kernel; None of what is AdamW's."""
  del leaf
  *_, product, name = ("", *(entry.key for entry in path))
  if name == "kernel" and product in PRODUCTS:
    return MuonDimensionNumbers((0,), (1,))
  return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
  """How long, in which steps."""

  steps: int  # in the first round
  decay: int  # the last so many of them, in which the rate falls to 0
  rate: float = 6e-3  # the highest learning rate
  rows: int = 8  # B, in each step
  warmup: int = 50  # steps until the rate is reached
  again: int = 0  # steps of a second round: warmup, then down to 0


def learning_rate(schedule: Schedule) -> optax.Schedule:
  """Goes up, along and down to 0, all straight; perhaps up and down again."""
  high = schedule.rate
  parts = [
    optax.linear_schedule(0.0, high, schedule.warmup),
    optax.constant_schedule(high),
    optax.linear_schedule(high, 0.0, schedule.decay),
  ]
  starts = [schedule.warmup, schedule.steps - schedule.decay]
  if schedule.again:
    rest = schedule.again - schedule.warmup
    parts += [parts[0], optax.linear_schedule(high, 0.0, rest)]
    starts += [schedule.steps, schedule.steps + schedule.warmup]
  return optax.join_schedules(parts, starts)


def optimizer(schedule: Schedule) -> optax.GradientTransformation:
  """Makes Muon for the matrices inside the layers, and AdamW for all else."""
  return optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.contrib.muon(
      learning_rate(schedule),
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
  schedule: Schedule,
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
    schedule: How long, in which steps.
    path: The checkpoint's file.
    frozen: Parameters that are not trained.
    save_every: Steps between checkpoints.
    say: Is told after each step: its number, of how many, the parameters, and
      the values to log.

  Returns:
    The trained parameters.
  """
  tool = optimizer(schedule)
  state = params, tool.init(params)
  leaves, made_of = jax.tree.flatten(state)
  done = 0
  if path.exists():
    with np.load(path) as file:
      done = int(file["done"])
      kept = [jnp.asarray(file[f"arr_{i}"]) for i in range(len(leaves))]
    state = jax.tree.unflatten(made_of, kept)
  total = schedule.steps + schedule.again

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

  for number in range(done + 1, total + 1):
    own = jax.random.fold_in(key, number - 1)
    state, seen = step(state, frozen, own, rows(number - 1))
    say(number, total, state[0], seen)
    if number % save_every == 0 or number == total:
      with disk.whole(path) as file:
        np.savez(file, *map(np.asarray, jax.tree.leaves(state)), done=number)
  return state[0]
