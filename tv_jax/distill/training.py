"""The training loop, with checkpoints that a killed run continues from."""

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

from tv_jax.io import disk

# Modules whose kernels [out, in] Muon updates.
PRODUCTS = frozenset({"qkv", "out", "gate_up", "down", "fc"})


def _dimensions(path, leaf) -> MuonDimensionNumbers | None:
  """Returns the axes of a kernel for Muon; None: Adam updates the leaf."""
  del leaf
  *_, product, name = ("", *(entry.key for entry in path))
  if name == "kernel" and product in PRODUCTS:
    return MuonDimensionNumbers((1,), (0,))
  return None


def schedule(
  steps: int, decay: int, rate: float, warmup: int
) -> optax.Schedule:
  """Returns a learning rate that rises to `rate`, and falls to 0 at the end.

  Args:
    steps: Total number of steps.
    decay: Number of steps of the decay, at the end.
    rate: Peak learning rate.
    warmup: Number of steps of the warm-up.
  """
  parts = [
    optax.linear_schedule(0.0, rate, warmup),
    optax.constant_schedule(rate),
    optax.linear_schedule(rate, 0.0, decay),
  ]
  return optax.join_schedules(parts, [warmup, steps - decay])


def optimizer(rate: optax.Schedule) -> optax.GradientTransformation:
  """Makes Muon for the kernels of PRODUCTS, and Adam for the rest.

  Weight decay applies to Muon's kernels only.
  """
  return optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.contrib.muon(
      rate,
      weight_decay=0.1,
      # Updates as large as Adam's, so that one learning rate serves both.
      consistent_rms=0.2,
      muon_weight_dimension_numbers=functools.partial(
        jax.tree_util.tree_map_with_path, _dimensions
      ),
    ),
  )


@contextlib.contextmanager
def _lenient():
  """Allows the type promotion that optax relies on."""
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
  after_step: Callable[[int, float], None],
) -> dict:
  """Trains, or continues an interrupted run.

  A step depends only on its number and on the state before it, so a run that
  was killed ends with the same weights as one that was not.

  Args:
    loss: Function of (*frozen, params, key, rows).
    params: Initial parameters.
    key: Source of all random numbers of the steps.
    rows: Function of a step's number, from 0, that returns its data.
    rate: Learning rate.
    steps: Number of steps.
    path: The checkpoint's file.
    frozen: Parameters that are not trained.
    save_every: Steps between checkpoints.
    after_step: Called after each step with its number and the loss.

  Returns:
    The trained parameters.
  """
  transform = optimizer(rate)
  state = params, transform.init(params)
  leaves, structure = jax.tree.flatten(state)
  done = 0
  if path.exists():
    with np.load(path) as file:
      done = int(file["done"])
      kept = [jnp.asarray(file[f"arr_{i}"]) for i in range(len(leaves))]
    state = jax.tree.unflatten(structure, kept)

  @functools.partial(jax.jit, donate_argnums=0)
  def step(state, frozen, key, rows):
    params, optimizer_state = state
    gradient = jax.value_and_grad(functools.partial(loss, *frozen))
    value, gradients = gradient(params, key, rows)
    with _lenient():
      updates, optimizer_state = transform.update(
        gradients, optimizer_state, params
      )
      params = optax.apply_updates(params, updates)
    return (params, optimizer_state), value

  for number in range(done + 1, steps + 1):
    step_key = jax.random.fold_in(key, number - 1)
    state, value = step(state, frozen, step_key, rows(number - 1))
    after_step(number, float(value))
    if number % save_every == 0 or number == steps:
      with disk.atomic_open(path) as file:
        np.savez(file, *map(np.asarray, jax.tree.leaves(state)), done=number)
  return state[0]
