"""Muon for the matrices inside the layers, AdamW for all else (optax)."""

import contextlib

import jax
import optax
from optax.contrib import MuonDimensionNumbers

from bundled.settings import Schedule

# Of each parameter that is a matrix with more axes than two (AXES in
# models/decoder.py): the axes that a product sums over, and those it makes.
MATRICES = {
  "qkv": MuonDimensionNumbers((3,), (0, 1, 2)),
  "out": MuonDimensionNumbers((1, 2, 3), (0,)),
  "gate_up": MuonDimensionNumbers((2,), (0, 1)),
  "down": MuonDimensionNumbers((1,), (0,)),
  "fc": MuonDimensionNumbers((1,), (0,)),
}


def dimensions(params: dict) -> dict:
  """Each parameter's entry in MATRICES, or None."""
  return jax.tree_util.tree_map_with_path(
    lambda path, _: MATRICES.get(path[-1].key), params
  )


def learning_rate(schedule: Schedule) -> optax.Schedule:
  """Up, along, and down to 0, all straight; once more up and down."""
  high = schedule.learning_rate
  fall = schedule.steps - schedule.decay
  parts = [
    optax.linear_schedule(0.0, high, schedule.warmup),
    optax.constant_schedule(high),
    optax.linear_schedule(high, 0.0, schedule.decay),
  ]
  starts = [schedule.warmup, fall]
  if schedule.again:
    rest = schedule.again - schedule.warmup
    parts += [parts[0], optax.linear_schedule(high, 0.0, rest)]
    starts += [schedule.steps, schedule.steps + schedule.warmup]
  return optax.join_schedules(parts, starts)


def make(schedule: Schedule) -> optax.GradientTransformation:
  """The optimizer of one stage."""
  return optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.contrib.muon(
      learning_rate(schedule),
      weight_decay=schedule.weight_decay,
      # Steps as long as Adam's, so that one rate serves both.
      consistent_rms=0.2,
      muon_weight_dimension_numbers=dimensions,
    ),
  )


@contextlib.contextmanager
def lenient():
  """For optax's own code, which mixes types: strict promotion would refuse."""
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    yield
