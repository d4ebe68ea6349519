"""One stage of training: Muon and AdamW, checkpoints, an export."""

import contextlib
import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import tokenizers
from absl import logging
from flax import serialization
from optax.contrib import MuonDimensionNumbers

from bundled import tokens
from bundled.data import Corpus
from bundled.settings import Schedule
from tv_jax import models
from tv_jax.edge import disk
from tv_jax.models.config import Config

# For matrices of more axes than two: the axes that a product sums over, and
# those that it makes.
MATRICES = {
  "qkv": MuonDimensionNumbers((3,), (0, 1, 2)),
  "out": MuonDimensionNumbers((1, 2, 3), (0,)),
  "gate_up": MuonDimensionNumbers((2,), (0, 1)),
  "down": MuonDimensionNumbers((1,), (0,)),
  "fc": MuonDimensionNumbers((1,), (0,)),
}

# Steps between lines of the log, and between checkpoints.
_LOG, _SAVE = 10, 100


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
        jax.tree_util.tree_map_with_path,
        lambda path, _: MATRICES.get(path[-1].key),
      ),
    ),
  )


@contextlib.contextmanager
def _lenient():
  """Lets optax's own code mix types, which strict promotion would refuse."""
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    yield


def train(
  stage: str,
  loss: Callable,
  params: dict,
  key: jax.Array,
  corpus: Corpus,
  schedule: Schedule,
  path: pathlib.Path,
  frozen: tuple = (),
) -> dict:
  """Trains, or continues where a run was stopped.

  A step depends only on its number and on the state before it, so that a run
  that was killed ends in the same weights as one that was not.

  Args:
    stage: The name of what is trained.
    loss: (*frozen, params, key, rows) to (loss, {name: value to log}).
    params: The initial parameters.
    key: Where all random numbers of the steps come from.
    corpus: Where rows come from.
    schedule: How long, in which steps.
    path: The checkpoint's file.
    frozen: Parameters that are not trained.

  Returns:
    The trained parameters.
  """
  tool = optimizer(schedule)
  done, state = 0, (params, tool.init(params))
  if path.exists():
    kept: Any = serialization.from_bytes((done, state), path.read_bytes())
    done, state = kept
    state = jax.tree.map(jnp.asarray, state)
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
    rows = corpus.rows(stage, number - 1, schedule.rows)
    own = jax.random.fold_in(key, number - 1)
    state, seen = step(state, frozen, own, rows)
    if number % _LOG == 0 or number == total:
      told = {name: round(float(value), 5) for name, value in seen.items()}
      logging.info("%s, step %d of %d: %s", stage, number, total, told)
    if number % _SAVE == 0 or number == total:
      with disk.whole(path) as file:
        file.write(serialization.to_bytes((number, state)))
  return state[0]


def export(
  directory: pathlib.Path,
  tokenizer: tokenizers.Tokenizer,
  config: Config,
  params: dict,
) -> None:
  """Writes a model with its tokenizer, or an EAGLE head, as Hugging Face."""
  dtype = "bfloat16"
  own = {
    "config": dataclasses.replace(config, dtype=dtype),
    "params": jax.tree.map(lambda leaf: leaf.astype(jnp.dtype(dtype)), params),
    "apply": None,
    "mesh": None,
    "source": "trained",
  }
  if "fc" in params["params"]:
    models.save(directory, models.Head(**own, bias=True))
    return
  models.save(directory, models.Model(**own))
  tokens.save(tokenizer, directory, config.max_position_embeddings)
  ends = {
    "bos_token_id": tokens.BOS,
    "eos_token_id": tokens.END,
    "pad_token_id": tokens.PAD,
  }
  text = json.dumps(ends, indent=2) + "\n"
  (directory / "generation_config.json").write_text(text)
