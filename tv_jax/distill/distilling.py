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
from typing import Any

import jax
import numpy as np

from tv_jax import probs
from tv_jax.distill import data, drafts, learning, scoring, training
from tv_jax.distill import text as texts
from tv_jax.distill.data import Corpus, Shape
from tv_jax.distill.scoring import Scores
from tv_jax.distill.text import Writing
from tv_jax.edge import checks, disk, reading
from tv_jax.engine.pair import Pair

# Beside the draft: how it is made.
ABOUT = "training.json"
# Roots of a conversation from which a draft of one pass learns in a step, where
# nothing else is said: each costs it a block.
ROOTS = 32
# Steps between checkpoints, and between scores on text that is held out.
SAVE, SCORE = 50, 200
# Conversations that are scored together, and levels of the longest chain, where
# a draft has no number of its own.
_SCORED, _DEEPEST = 4, 5


def _option(default, told: str) -> Any:
  return dataclasses.field(default=default, metadata={"help": told})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
  """How a draft is made; the fields are flags of the command as well."""

  kind: str = _option("eagle", f"One of {', '.join(drafts.KINDS)}.")
  kl: float = _option(
    0.1, "The share of KL(p, q) in the loss, 0 to 1; see docs/distill.md."
  )
  depth: int = _option(
    4, "Levels of the chains that it learns; a DSpark draft has no more."
  )
  layers: tuple[int, ...] = _option(
    (),
    "The target's layers that it begins with, such as 0,29. Default: the first"
    " and the last; of a head the last, of a DSpark draft the last two.",
  )
  vocabulary: int = _option(
    16384, "So many of the text's most frequent tokens it knows; 0: all."
  )
  rank: int = _option(
    64, "Of a DSpark draft's Markov head; 0: none, which is DFlash."
  )
  roots: int = _option(
    0,
    "So many places of a conversation, drawn anew, a step drafts from; 0: all,"
    f" of a DSpark draft {ROOTS}.",
  )
  steps: int = _option(2000, "Of training.")
  rows: int = _option(8, "Conversations of a step.")
  rate: float = _option(2e-3, "The highest learning rate.")
  length: int = _option(
    512, "Conversations of more tokens, prompt and answer, are left out."
  )
  held_out: int = _option(
    48, "Conversations to score the draft on, that it does not see."
  )
  seed: int = _option(0, "Of all random draws.")


def distill(
  pair: Pair,
  out: str | os.PathLike,
  how: Training,
  *,
  data_folder: str | os.PathLike,
  writing: Writing | None = None,
  prompts: Sequence[Sequence[str]] | None = None,
  text: Sequence[texts.Conversation] | None = None,
  batch_size: int = 48,
  say: Callable[[str, int, int, str], None] = lambda *_: None,
) -> Scores:
  """Makes a draft, or goes on where a run was stopped.

  Args:
    pair: The target. If it has a draft, training begins with that: its layers,
      vocabulary and rank stay.
    out: The draft's directory.
    how: How it is trained.
    data_folder: Where the target's text is kept: drafts of one target share it.
    writing: How the target writes it; of other text, its temperature is that of
      the laws.
    prompts: What the target answers; None: it asks itself.
    text: Text to train on instead. If the target did not sample it, expected
      lengths on it are not those of a run.
    batch_size: Conversations that are written together.
    say: Is told what is done, how far that is, of how much, and how it goes.

  Returns:
    The draft's expected lengths on text that it was not trained on.
  """
  writing = writing or Writing()
  folder, out = pathlib.Path(data_folder), pathlib.Path(out)
  target, heat = pair.target, writing.temperature
  # A temperature of 0 has no laws to learn from.
  checks.read(checks.number(probs.COLDEST), heat, "temperature")
  checks.read(checks.number(0, 1), how.kl, "kl")
  for name in ("depth", "rows", "length", "held_out"):
    checks.read(checks.integer(1), getattr(how, name), name)
  checks.read(checks.list_of(checks.integer(0)), how.layers, "layers")
  drafts.check(how.kind, pair, how.layers, how.depth)
  about = {
    "target": reading.name_of(target.source),
    "training": dataclasses.asdict(how),
    "writing": dataclasses.asdict(writing)
    if text is None
    else {"temperature": heat, "text": _digest(text)},
  }
  if pair.draft is not None:
    for name in ("layers", "vocabulary", "rank"):  # that draft's stay
      del about["training"][name]
    about["training"]["begin"] = reading.name_of(pair.draft.source)
  out.mkdir(parents=True, exist_ok=True)
  if any(out.iterdir()) and not (out / ABOUT).exists():
    raise ValueError(f"{out} holds something else: give another --out")
  texts.check_same(out / ABOUT, about, "--out")

  def stage(name):
    return lambda done, total: say(name, done, total, "")

  if text is None:
    text = texts.write(
      pair,
      folder,
      writing,
      prompts,
      batch_size=batch_size,
      say=stage("writing text"),
    )
  layers = drafts.read_by(how.kind, target.config)
  if pair.draft is not None:
    layers = pair.draft.config.target_layers
  corpus = data.read(
    pair,
    data.usable(text, target.config.vocab_size),
    folder,
    heat,
    layers,
    stage("reading it"),
  )
  held, kept = _split(corpus, how)
  first_key, step_key = jax.random.split(jax.random.key(how.seed))
  if pair.draft is None:
    known = frequent(kept.text, how.vocabulary, target.config.vocab_size)
    made = drafts.make(
      how.kind, target, first_key, how.layers, known, how.depth, how.rank
    )
  else:
    made = drafts.begun(pair.draft, how.kind, target)
  shape = Shape.of(kept.text, how.depth)
  roots = how.roots or (ROOTS if how.kind == "dspark" else 0)
  score = functools.partial(_score, target.params, made, held, heat)
  lengths = ""

  def tell(number, total, trained, seen):
    nonlocal lengths
    loss = float(seen["loss"])
    if not math.isfinite(loss):
      raise ValueError(
        f"the loss is {loss} after step {number}: lower the rate"
      )
    if number % SCORE == 0 and number < total:
      mean = score(trained).lengths["traversal"][-1].mean
      lengths = f", held out {mean:.3f} tokens"
    say("training", number, total, f"loss {loss:.3f}{lengths}")

  digest = hashlib.sha256(disk.to_bytes(about)).hexdigest()[:8]
  name = f"{out.name}-{digest}"
  with contextlib.ExitStack() as resources:
    remedy = "wait for it, or give --out another name"
    disk.lock(folder, resources, f"{name}.lock", remedy)
    trained = training.train(
      functools.partial(learning.loss, made.draft, shape, roots, how.kl, heat),
      made.trained,
      step_key,
      functools.partial(data.step_rows, kept, how.rows, how.seed, shape.T),
      training.Schedule(
        steps=how.steps,
        decay=how.steps * 6 // 10,
        rate=how.rate,
        warmup=max(1, min(50, how.steps // 10)),
      ),
      folder / f"{name}.npz",
      (made.laws, made.borrowed),
      save_every=SAVE,
      say=tell,
    )
  found = score(trained)
  drafts.save(out, made._replace(trained=trained))
  disk.write_atomic(out / "README.md", _card(about, found))
  return found


def _digest(text: Sequence[texts.Conversation]) -> str:
  """Tells one text from another."""
  return hashlib.sha256(repr([*text]).encode()).hexdigest()[:16]


def _card(about: dict, found: Scores) -> str:
  """Returns what is written beside a draft: what it was made of."""
  lines = [
    f"# A draft for {about['target']}",
    "",
    "Made by `python -m tv_jax.distill`. `tv_jax.load` takes it as the draft,"
    f' with `draft_kind="{about["training"]["kind"]}"`.',
    "",
  ]
  for part in ("writing", "training"):
    lines += [f"- {part}.{name}: {x}" for name, x in about[part].items()]
  lines += [
    "",
    "Expected acceptance lengths of chains on conversations that it was not"
    f" trained on ({found.tokens} tokens):",
    "",
    *(f"    {line}" for line in repr(found).splitlines()),
    "",
  ]
  return "\n".join(lines)


def frequent(text, count: int, V: int) -> np.ndarray | None:
  """Returns the tokens that are most frequent in answers, in order."""
  if not 0 < count < V:
    return None
  seen = collections.Counter(token for one in text for token in one.answer)
  ranked = sorted(range(V), key=lambda token: -seen[token])
  return np.sort(np.array(ranked[:count]))


def _split(corpus: Corpus, how: Training) -> tuple[Corpus, Corpus]:
  """Returns what is held out, and what is trained on."""
  fits = [
    i
    for i, one in enumerate(corpus.text)
    if len(one.prompt) + len(one.answer) <= how.length
  ]
  held = fits[: how.held_out]
  # Given prompts are asked again and again.
  asked = {corpus.text[i].prompt for i in held}
  kept = [i for i in fits if corpus.text[i].prompt not in asked]
  if not kept:
    raise ValueError(
      f"of {len(fits)} conversations of at most length={how.length} tokens none"
      f" has another prompt than the held_out={how.held_out}: give more text"
    )
  return corpus.part(held), corpus.part(kept)


def _score(target, made: drafts.Made, held: Corpus, heat, trained) -> Scores:
  params = made._replace(trained=trained).params
  longest = max(len(one.answer) for one in held.text)
  depth = min(made.draft.deepest or _DEEPEST, longest)
  shape, found = Shape.of(held.text, depth), []
  for start in range(0, len(held.text), _SCORED):
    some = held.part(range(start, min(start + _SCORED, len(held.text))))
    found += scoring.measure(
      made.draft, target, params, some.rows(shape.T), (heat, heat), shape
    )
  return scoring.summary(found)
