"""One stage of training: steps, a log of them, checkpoints."""

import functools
import json
import pathlib
import time
from collections.abc import Callable

import jax
import optax
from absl import logging

from bundled import checkpoint, optimizer
from bundled.data import Corpus
from bundled.settings import Schedule


def run(
  stage: str,
  loss: Callable,
  params: dict,
  key: jax.Array,
  corpus: Corpus,
  schedule: Schedule,
  folder: pathlib.Path,
  *,
  name: str,
  checkpoint_every: int,
  log_every: int,
  frozen: tuple = (),
  on_checkpoint: Callable[[dict], None] | None = None,
) -> dict:
  """Trains, or goes on where a run with the same settings stopped.

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
    name: The fingerprint of all that the weights depend on.
    checkpoint_every: Steps.
    log_every: Steps.
    frozen: Parameters that are not trained.
    on_checkpoint: Called with the parameters after each checkpoint.

  Returns:
    The trained parameters.
  """
  folder.mkdir(parents=True, exist_ok=True)
  tool = optimizer.make(schedule)
  state = params, tool.init(params)
  done, state = checkpoint.restore(folder / "state.npz", name, state)
  log = folder / "log.jsonl"
  _cut(log, done)

  @functools.partial(jax.jit, donate_argnums=0)
  def step(state, frozen, key, rows):
    params, memory = state
    of = functools.partial(loss, *frozen)
    (value, seen), slope = jax.value_and_grad(of, has_aux=True)(
      params, key, rows
    )
    with optimizer.lenient():
      change, memory = tool.update(slope, memory, params)
      params = optax.apply_updates(params, change)
    return (params, memory), {"loss": value, **seen}

  started, since = time.monotonic(), done
  for i in range(done, schedule.total):
    rows = corpus.rows(stage, i, schedule.rows)
    state, seen = step(state, frozen, jax.random.fold_in(key, i), rows)
    number = i + 1
    if number % log_every == 0 or number == schedule.total:
      line = {"step": number} | {k: round(float(v), 5) for k, v in seen.items()}
      with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
      pace = (time.monotonic() - started) / (number - since)
      logging.info("%s %s, %.2f s/step", stage, line, pace)
    if number % checkpoint_every == 0 or number == schedule.total:
      checkpoint.save(folder / "state.npz", name, number, state)
      if on_checkpoint:
        on_checkpoint(state[0])
  return state[0]


def _cut(log, done):
  """Drops lines of steps that will be made again."""
  if log.exists():
    lines = log.read_text().splitlines()
    kept = [line for line in lines if _step(line) <= done]
    log.write_text("".join(f"{line}\n" for line in kept))


def _step(line):
  """A line's step; a torn line is dropped."""
  try:
    return json.loads(line)["step"]
  except json.JSONDecodeError:
    return float("inf")
