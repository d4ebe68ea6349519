"""Makes a draft for a target, from the target's own text."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import math
import os
import pathlib
from collections.abc import Sequence

import jax
import numpy as np

from tv_jax import probs
from tv_jax.distill import data, drafts, learning, scoring, training
from tv_jax.distill import text as texts
from tv_jax.distill.data import Shape
from tv_jax.distill.drafts import Trainee
from tv_jax.distill.scoring import Scores
from tv_jax.distill.text import Conversation, Writing, option
from tv_jax.engine.pair import Pair
from tv_jax.io import checks, disk
from tv_jax.io.errors import UserError
from tv_jax.io.progress import Progress, silent
from tv_jax.models import Model

ABOUT = "training.json"  # how a draft was made; in the draft's directory
# Default number of roots of a conversation that a one-pass draft learns from in
# a step. Each root costs a block.
ROOTS = 32
# Steps between checkpoints.
SAVE = 50
# Depth of the longest chain that is scored, for drafts without a block size.
_DEEPEST = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
  """How a draft is made; each field is a flag of the command."""

  kind: str = option("eagle", f"One of {', '.join(drafts.RECIPES)}.")
  depth: int = option(
    4, "Depth of the chains in training; a DSpark draft cannot draft deeper."
  )
  vocabulary: int = option(
    16384, "Number of frequent tokens that the draft knows; 0: all."
  )
  roots: int = option(
    0,
    "Number of random roots of a conversation in each step; 0: all, or"
    f" {ROOTS} for a DSpark draft.",
  )
  steps: int = option(2000, "Number of training steps.")
  rows: int = option(8, "Conversations in a step.")
  rate: float = option(2e-3, "Peak learning rate.")
  length: int = option(
    512, "Longer conversations, in tokens of prompt and answer, are left out."
  )
  held_out: int = option(
    48, "Conversations that score the draft and are not trained on."
  )
  seed: int = option(0, "Seed of all random draws.")


def distill(
  pair: Pair,
  out: str | os.PathLike,
  settings: Training,
  *,
  data_folder: str | os.PathLike,
  writing: Writing | None = None,
  prompts: Sequence[Sequence[str]] | None = None,
  text: Sequence[Conversation] | None = None,
  batch_size: int = 48,
  progress: Progress = silent,
) -> Scores:
  """Makes a draft, or continues an interrupted run.

  Args:
    pair: The target; its draft is ignored.
    out: Directory of the new draft.
    settings: How the draft is trained.
    data_folder: Folder for the target's text and features, which all drafts of
      a target can share.
    writing: How the target writes text. With `text`, only its temperature is
      used.
    prompts: User turns that the target answers; None: the target also writes
      the questions.
    text: Text to train on, in place of the target's. If the target did not
      sample it, the scores do not predict the lengths of runs.
    batch_size: Conversations that are written together.
    progress: Called with what is being done, how much is done, and the total.

  Returns:
    The draft's expected lengths on held-out text.
  """
  writing = writing or Writing()
  folder, out = pathlib.Path(data_folder), pathlib.Path(out)
  _check(settings, writing, pair.target)
  # Everything that determines the draft.
  about = {
    **texts.about_target(pair),
    "training": dataclasses.asdict(settings),
    "writing": texts.about_writing(writing, prompts),
  }
  if text is not None:
    digest = hashlib.sha256(repr([*text]).encode()).hexdigest()[:16]
    about["writing"] = {"temperature": writing.temperature, "text": digest}
  out.mkdir(parents=True, exist_ok=True)
  if any(out.iterdir()) and not (out / ABOUT).exists():
    raise UserError(f"{out} holds something else: give another --out")
  texts.check_same(out / ABOUT, about, "--out")

  if text is None:
    text = texts.write(
      pair, folder, writing, prompts, batch_size=batch_size, progress=progress
    )
  text = data.usable(text, pair.target.config.vocab_size)
  held, kept = _split(text, settings)
  layers = drafts.read_by(settings.kind, pair.target.config)
  corpus = data.read(pair, kept, folder, writing.temperature, layers, progress)

  first_key, step_key = jax.random.split(jax.random.key(settings.seed))
  draft = drafts.make(
    settings.kind,
    pair.target,
    first_key,
    frequent(kept, settings.vocabulary, pair.target.config),
    settings.depth,
  )
  shape = Shape.of(kept, settings.depth)
  roots = settings.roots or (ROOTS if settings.kind == "dspark" else 0)
  steps = settings.steps

  def after_step(number: int, loss: float) -> None:
    if not math.isfinite(loss):
      raise UserError(f"the loss is {loss} after step {number}: lower the rate")
    progress(f"training, loss {loss:.3f}", number, steps)

  digest = hashlib.sha256(disk.to_bytes(about)).hexdigest()[:8]
  path = folder / f"{out.name}-{digest}.npz"
  with contextlib.ExitStack() as resources:
    remedy = "wait for it, or give --out another name"
    disk.lock(folder, resources, f"{path.stem}.lock", remedy)
    trained = training.train(
      functools.partial(
        learning.loss, draft.module, shape, roots, writing.temperature
      ),
      draft.trained,
      step_key,
      lambda step: corpus.step(step, settings.rows, settings.seed, shape.T),
      # The rate decays in the last 60 % of the steps.
      training.schedule(
        steps, steps * 6 // 10, settings.rate, max(1, min(50, steps // 10))
      ),
      steps,
      path,
      frozen=(draft.borrowed,),
      save_every=SAVE,
      after_step=after_step,
    )
  draft = draft._replace(trained=trained)
  scores = _score(pair, draft, held, writing.temperature)
  drafts.save(out, draft)
  return scores


def _check(settings: Training, writing: Writing, target: Model) -> None:
  """Raises ValueError for settings that no draft can be made with."""
  # At temperature 0 the target has no probabilities to learn.
  checks.number(probs.COLDEST)(writing.temperature, "temperature")
  for name in ("depth", "rows", "length", "held_out"):
    checks.integer(1)(getattr(settings, name), name)
  drafts.check(settings.kind, target)


def _score(
  pair: Pair,
  draft: Trainee,
  held: list[Conversation],
  temperature: float,
) -> Scores:
  """Scores a draft on the held-out text."""
  model = Model(module=draft.module, params=draft.params, source="the draft")
  deepest = model.config.block_size or _DEEPEST
  return scoring.score(
    dataclasses.replace(pair, draft=model),
    held,
    depth=min(deepest, max(len(x.answer) for x in held)),
    temperature=temperature,
  )


def frequent(text, count: int, config) -> np.ndarray | None:
  """Returns the most frequent tokens of the answers, by id; None for all."""
  if not 0 < count < config.vocab_size:
    return None
  seen = collections.Counter(token for x in text for token in x.answer)
  ranked = sorted(range(config.vocab_size), key=lambda token: -seen[token])
  return np.sort(np.array(ranked[:count]))


def _split(
  text: Sequence[Conversation], settings: Training
) -> tuple[list[Conversation], list[Conversation]]:
  """Returns the held-out conversations and the others."""
  fits = [x for x in text if len(x.tokens) <= settings.length]
  held = fits[: settings.held_out]
  # A file's prompts may repeat, and a held-out prompt must not be trained on.
  asked = {x.prompt for x in held}
  kept = [x for x in fits if x.prompt not in asked]
  if not kept:
    raise UserError(
      f"{len(fits)} conversations have at most length={settings.length} tokens,"
      f" none with another prompt than the held_out={settings.held_out}: give"
      " more text"
    )
  return held, kept
