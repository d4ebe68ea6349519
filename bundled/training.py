"""One stage of training: Muon and AdamW, a log, checkpoints, an export."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tokenizers
from absl import logging
from optax.contrib import MuonDimensionNumbers

from bundled import tokens
from bundled.data import Corpus
from bundled.settings import Schedule
from tv_jax import models
from tv_jax.models.config import Config

# Of each matrix with more axes than two: the axes that a product sums over,
# and those it makes.
MATRICES = {
  "qkv": MuonDimensionNumbers((3,), (0, 1, 2)),
  "out": MuonDimensionNumbers((1, 2, 3), (0,)),
  "gate_up": MuonDimensionNumbers((2,), (0, 1)),
  "down": MuonDimensionNumbers((1,), (0,)),
  "fc": MuonDimensionNumbers((1,), (0,)),
}


def learning_rate(schedule: Schedule) -> optax.Schedule:
  """Up, along, and down to 0, all straight; once more up and down."""
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
  """Muon for the matrices inside the layers, AdamW for all else."""
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
  """For optax's own code, which mixes types: strict promotion would refuse."""
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    yield


def save(path: pathlib.Path, step: int, state) -> None:
  """Writes a state, a pytree, whole or not at all."""
  leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
  temporary = path.with_suffix(".partial")
  with temporary.open("wb") as file:
    np.savez(file, *leaves, step=step)
    file.flush()
    os.fsync(file.fileno())
  temporary.replace(path)


def restore(path: pathlib.Path, like):
  """The step and the state that `save` wrote; 0 and `like` without a file."""
  if not path.exists():
    return 0, like
  leaves, tree = jax.tree.flatten(like)
  with np.load(path, allow_pickle=False) as file:
    read = [file[f"arr_{i}"] for i in range(len(leaves))]
    step = int(file["step"])
  return step, tree.unflatten(
    jnp.asarray(new, old.dtype) for new, old in zip(read, leaves, strict=True)
  )


def train(
  stage: str,
  loss: Callable,
  params: dict,
  key: jax.Array,
  corpus: Corpus,
  schedule: Schedule,
  folder: pathlib.Path,
  *,
  checkpoint_every: int,
  log_every: int,
  frozen: tuple = (),
) -> dict:
  """Trains, or goes on where a run was stopped.

  A step depends on its number and the state before it alone, so a run that
  was killed ends in the same weights as one that was not.

  Args:
    stage: Its name.
    loss: (*frozen, params, key, rows) to (loss, {name: value to log}).
    params: The initial parameters.
    key: Of all that is drawn at random in the steps.
    corpus: Where rows come from.
    schedule: How long, in which steps.
    folder: For this stage's checkpoint and log.
    checkpoint_every: Steps.
    log_every: Steps.
    frozen: Parameters that are not trained.

  Returns:
    The trained parameters.
  """
  folder.mkdir(parents=True, exist_ok=True)
  tool = optimizer(schedule)
  done, state = restore(folder / "state.npz", (params, tool.init(params)))
  log, total = folder / "log.jsonl", schedule.steps + schedule.again

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

  started, since = time.monotonic(), done
  for number in range(done + 1, total + 1):
    rows = corpus.rows(stage, number - 1, schedule.rows)
    own = jax.random.fold_in(key, number - 1)
    state, seen = step(state, frozen, own, rows)
    if number % log_every == 0 or number == total:
      line = {"step": number} | {k: round(float(v), 5) for k, v in seen.items()}
      with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
      pace = (time.monotonic() - started) / (number - since)
      logging.info("%s %s, %.2f s/step", stage, line, pace)
    if number % checkpoint_every == 0 or number == total:
      save(folder / "state.npz", number, state)
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
