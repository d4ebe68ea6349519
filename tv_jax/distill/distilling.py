"""Makes a draft for a target, from the target alone."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import math
import os
import pathlib
from collections.abc import Callable, Sequence

import jax
import numpy as np

from tv_jax import probs
from tv_jax.certify.engine import passes
from tv_jax.distill import data, drafts, learning, scoring, training
from tv_jax.distill import text as texts
from tv_jax.distill.chances import Known
from tv_jax.distill.data import Shape
from tv_jax.distill.scoring import Scores
from tv_jax.distill.text import Conversation, Writing, option
from tv_jax.edge import checks, disk, reading
from tv_jax.engine.pair import Pair
from tv_jax.models import Model

# Beside the draft: how it is made.
ABOUT = "training.json"
# Roots of a conversation from which a draft of one pass learns in a step, where
# nothing else is said: each costs it a block.
ROOTS = 32
# Steps between checkpoints, and between scores on text that is held out.
SAVE, SCORE = 50, 200
# Levels of the longest chain that is scored, where a draft has no number of its
# own.
_DEEPEST = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
  """How a draft is made; the fields are flags of the command as well."""

  draft_kind: str = option("eagle", f"One of {', '.join(drafts.KINDS)}.")
  depth: int = option(
    4, "Levels of the chains that it learns; a DSpark draft has no more."
  )
  layers: tuple[int, ...] = option(
    (),
    "The target's layers that it begins with, such as 0,29. Default: the first"
    " and the last; of a head the last, of a DSpark draft the last two.",
  )
  vocabulary: int = option(
    16384, "So many of the text's most frequent tokens it knows; 0: all."
  )
  rank: int = option(
    64, "Of a DSpark draft's Markov head; 0: none, which is DFlash."
  )
  roots: int = option(
    0,
    "So many places of a conversation, drawn anew, a step drafts from; 0: all,"
    f" of a DSpark draft {ROOTS}.",
  )
  steps: int = option(2000, "Of training.")
  rows: int = option(8, "Conversations of a step.")
  rate: float = option(2e-3, "The highest learning rate.")
  length: int = option(
    512, "Conversations of more tokens, prompt and answer, are left out."
  )
  held_out: int = option(
    48, "Conversations to score the draft on, that it does not see."
  )
  seed: int = option(0, "Of all random draws.")


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
  say: Callable[..., None] = lambda *_: None,
) -> Scores:
  """Makes a draft, or goes on where a run was stopped.

  Args:
    pair: The target; a draft is not used.
    out: The draft's directory.
    settings: How it is trained.
    data_folder: Where the target's text is kept: drafts of one target share it.
    writing: How the target writes it; of other text, its temperature is that of
      the laws.
    prompts: What the target answers; None: it asks itself.
    text: Text to train on instead. If the target did not sample it, expected
      lengths on it are not those of a run.
    batch_size: Conversations that are written together.
    say: Is told what is done, how far that is, of how much, and in training how
      it goes.

  Returns:
    The draft's expected lengths on text that it was not trained on.
  """
  writing = writing or Writing()
  folder, out = pathlib.Path(data_folder), pathlib.Path(out)
  target, heat = pair.target, writing.temperature
  # A temperature of 0 has no laws to learn from.
  checks.number(probs.COLDEST)(heat, "temperature")
  for name in ("depth", "rows", "length", "held_out"):
    checks.integer(1)(getattr(settings, name), name)
  checks.list_of(checks.integer(0))(settings.layers, "layers")
  drafts.check(settings.draft_kind, target, settings.layers)
  about = {
    "target": reading.name_of(target.source),
    "training": dataclasses.asdict(settings),
    "writing": dataclasses.asdict(writing),
  }
  if text is not None:
    digest = hashlib.sha256(repr([*text]).encode()).hexdigest()[:16]
    about["writing"] = {"temperature": heat, "text": digest}
  out.mkdir(parents=True, exist_ok=True)
  if any(out.iterdir()) and not (out / ABOUT).exists():
    raise ValueError(f"{out} holds something else: give another --out")
  texts.check_same(out / ABOUT, about, "--out")
  if text is None:
    text = texts.write(
      pair, folder, writing, prompts, batch_size=batch_size, say=say
    )
  text = data.usable(text, target.config.vocab_size)
  layers = drafts.read_by(settings.draft_kind, target.config)
  corpus = data.read(pair, text, folder, heat, layers, say)
  held, kept = _split(text, settings)
  first_key, step_key = jax.random.split(jax.random.key(settings.seed))
  draft = drafts.make(
    settings.draft_kind,
    target,
    first_key,
    settings.layers,
    frequent([text[i] for i in kept], settings.vocabulary, target.config),
    settings.depth,
    settings.rank,
  )

  def score(trained):
    params = trained | draft.borrowed
    model = Model(module=draft.module, params=params, source=str(out))
    block, longest = model.config.block, max(len(x.answer) for x in held)
    return scoring.score(
      dataclasses.replace(pair, draft=model, draft_kind=settings.draft_kind),
      held,
      depth=min(block.size if block else _DEEPEST, longest),
      temperature=heat,
      draft_temperature=heat,
    )

  lengths = ""

  def tell(number, total, trained, values):
    nonlocal lengths
    loss = float(values["loss"])
    if not math.isfinite(loss):
      raise ValueError(
        f"the loss is {loss} after step {number}: lower the rate"
      )
    if number % SCORE == 0 and number < total:
      mean = score(trained).lengths["traversal"][-1].mean
      lengths = f", held out {mean:.3f} tokens"
    say("training", number, total, f"loss {loss:.3f}{lengths}")

  known = Known.of(draft.params, draft.module.config)
  laws = passes.unembedding(target.params)
  if known.tokens is not None:
    laws = laws[known.tokens]
  shape = Shape.of([text[i] for i in kept], settings.depth)
  roots = settings.roots or (ROOTS if settings.draft_kind == "dspark" else 0)
  steps = settings.steps
  digest = hashlib.sha256(disk.to_bytes(about)).hexdigest()[:8]
  name = f"{out.name}-{digest}"
  with contextlib.ExitStack() as resources:
    remedy = "wait for it, or give --out another name"
    disk.lock(folder, resources, f"{name}.lock", remedy)
    trained = training.train(
      functools.partial(learning.loss, draft.module, shape, roots, heat),
      draft.trained,
      step_key,
      functools.partial(
        data.step_rows, corpus, kept, settings.rows, settings.seed, shape.T
      ),
      training.ramp(
        steps, steps * 6 // 10, settings.rate, max(1, min(50, steps // 10))
      ),
      steps,
      folder / f"{name}.npz",
      (laws.astype("float32"), draft.borrowed),
      save_every=SAVE,
      say=tell,
    )
  scores = score(trained)
  drafts.save(out, draft._replace(trained=trained))
  disk.write_atomic(out / "README.md", _card(about, scores))
  return scores


def _card(about: dict, scores: Scores) -> str:
  """Returns what is written beside a draft: how good it is."""
  draft_kind = about["training"]["draft_kind"]
  return f"""# A draft for {about["target"]}

Made by `python -m tv_jax.distill`; {ABOUT} says how. `tv_jax.load` takes it as
the draft, with `draft_kind="{draft_kind}"`.

Expected acceptance lengths of chains on conversations that it was not trained
on ({scores.tokens} tokens):

```
{scores}
```
"""


def frequent(text, count: int, config) -> np.ndarray | None:
  """Returns the tokens that are most frequent in answers, in order."""
  if not 0 < count < config.vocab_size:
    return None
  seen = collections.Counter(token for x in text for token in x.answer)
  ranked = sorted(range(config.vocab_size), key=lambda token: -seen[token])
  return np.sort(np.array(ranked[:count]))


def _split(
  text: Sequence[Conversation], settings: Training
) -> tuple[list[Conversation], list[int]]:
  """Returns what is held out, and the numbers of what is trained on."""
  fits = [i for i, x in enumerate(text) if len(x.tokens) <= settings.length]
  held = [text[i] for i in fits[: settings.held_out]]
  # Prompts of a file are asked again and again.
  asked = {x.prompt for x in held}
  kept = [i for i in fits if text[i].prompt not in asked]
  if not kept:
    raise ValueError(
      f"of {len(fits)} conversations of at most length={settings.length} tokens"
      f" none has another prompt than the held_out={settings.held_out}: give"
      " more text"
    )
  return held, kept
