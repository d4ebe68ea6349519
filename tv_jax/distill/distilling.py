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
from tv_jax.distill import data, drafts, learning, scoring, training
from tv_jax.distill import text as texts
from tv_jax.distill.chances import RULES
from tv_jax.distill.data import Rows, Shape
from tv_jax.distill.losses import LOSSES
from tv_jax.distill.scoring import Scores
from tv_jax.distill.text import Writing
from tv_jax.edge import checks, disk, reading
from tv_jax.engine.pair import Pair

# Beside the draft: how it is made.
ABOUT = "training.json"
# Tokens that a draft knows, where nothing else is said.
VOCABULARY = 16384
# Of a draft of one pass: its Markov head's rank, and roots of a conversation
# from which it learns in a step, each of which costs it a block.
RANK, ROOTS = 64, 32
# Steps between checkpoints, and between scores on text that is held out.
SAVE, SCORE = 50, 200
# Conversations that are scored together, and levels of the longest chain, where
# a draft has no number of its own.
_SCORED, _DEEPEST = 4, 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
  """How a draft is made.

  Attributes:
    kind: One of `drafts.KINDS`.
    loss: One of `losses.LOSSES`.
    kl: So much of the KL divergence is added: where the draft gives a likely
      token next to nothing, other losses hardly change with it.
    rule: The one that is to verify it.
    depth: Levels of the chains that it learns to draft; a draft of one pass
      that is made has no more.
    layers: Those of the target's that it begins with, and as many as it has; by
      default those of `drafts.KINDS`.
    vocabulary: So many of the text's most frequent tokens it knows; 0: all;
      by default `VOCABULARY`.
    rank: Of the Markov head of a draft of one pass; 0: it has none; by default
      `RANK`.
    roots: So many of a conversation's roots, drawn anew, a step learns from; by
      default all, of a draft of one pass `ROOTS`.
    steps: How many.
    rows: Conversations of a step.
    rate: The highest learning rate.
    length: Longer conversations are left out.
    held_out: Conversations that it is scored on, and not trained on.
    seed: What it begins from, and in which order it reads.
  """

  kind: str
  loss: str = "weighted"
  kl: float = 0.1
  rule: str = "traversal"
  depth: int = 4
  layers: tuple[int, ...] = ()
  vocabulary: int | None = None
  rank: int | None = None
  roots: int | None = None
  steps: int = 2000
  rows: int = 8
  rate: float = 2e-3
  length: int = 512
  held_out: int = 48
  seed: int = 0


_COUNT = checks.integer(1)
_FIELDS = {
  "kind": checks.one_of(drafts.KINDS),
  "loss": checks.one_of(LOSSES),
  "kl": checks.number(0),
  "rule": checks.one_of(RULES),
  "layers": checks.list_of(checks.integer(0)),
  "vocabulary": checks.optional(checks.integer(0)),
  "rank": checks.optional(checks.integer(0)),
  "roots": checks.optional(checks.integer(1)),
  "rate": checks.number(above=0),
  "seed": checks.integer(0, 2**32 - 1),
} | dict.fromkeys(("depth", "steps", "rows", "length", "held_out"), _COUNT)
_WRITTEN = {
  # Of the target's laws, which a temperature of 0 has none to learn from.
  "temperature": checks.number(probs.COLDEST),
} | dict.fromkeys(("conversations", "question_tokens", "answer_tokens"), _COUNT)


def distill(
  pair: Pair,
  out: str | os.PathLike,
  how: Training,
  *,
  data_folder: str | os.PathLike,
  writing: Writing | None = None,
  prompts: Sequence[Sequence[str]] | None = None,
  given: Sequence[texts.Conversation] | None = None,
  batch_size: int = 48,
  say: Callable[[str, int, int, str], None] = lambda *_: None,
) -> Scores:
  """Makes a draft, or goes on where a run was stopped.

  Args:
    pair: The target. If it has a draft, training begins with that, and its
      vocabulary stays.
    out: The draft's directory.
    how: How it is trained.
    data_folder: Where the target's text is kept: drafts of one target share it.
    writing: How the target writes it.
    prompts: What the target answers; None: it asks itself.
    given: Others' conversations to train on instead; expected lengths on these
      are not those of a run.
    batch_size: Conversations that are written together.
    say: Is told what is done, how far that is, of how much, and how it goes.

  Returns:
    The draft's expected lengths on text that it was not trained on.
  """
  checks.read(checks.fields(_FIELDS), dataclasses.asdict(how))
  writing = writing or Writing()
  checks.read(checks.fields(_WRITTEN), dataclasses.asdict(writing))
  how = settled(how, pair)
  if given is not None:
    writing = dataclasses.replace(writing, conversations=len(given))
  folder, out = pathlib.Path(data_folder), pathlib.Path(out)
  about = {
    "target": reading.name_of(pair.target.source),
    "writing": dataclasses.asdict(writing),
    "training": {
      name: value
      for name, value in dataclasses.asdict(how).items()
      if value is not None
    },
  }
  if given is not None:
    about["writing"]["answers"] = "others', so the lengths are not a run's"
  if pair.draft is not None:
    about["training"]["begin"] = reading.name_of(pair.draft.source)
  out.mkdir(parents=True, exist_ok=True)
  if any(out.iterdir()) and not (out / ABOUT).exists():
    raise ValueError(f"{out} holds something else: give another --out")
  texts.check_same(out / ABOUT, about, "--out")
  text = data.usable(
    texts.write(
      pair,
      folder,
      writing,
      prompts,
      given=given,
      batch_size=batch_size,
      say=lambda done, total: say("writing text", done, total, ""),
    )
  )
  target, heat = pair.target, writing.temperature
  corpus = data.read(
    target,
    text,
    folder,
    heat,
    lambda done, total: say("reading it", done, total, ""),
    drafts.read_by(how.kind, target.config)
    if pair.draft is None
    else pair.draft.config.target_layers,
  )
  held, kept = _split(corpus, how)
  first_key, step_key = jax.random.split(jax.random.key(how.seed))
  if pair.draft is None:
    known = frequent(kept.text, how.vocabulary or 0, target.config.vocab_size)
    made = drafts.make(
      how.kind, target, first_key, how.layers, known, how.depth, how.rank or 0
    )
  else:
    made = drafts.begun(pair.draft, how.kind, target)
  shape = Shape.of(kept.text, how.depth)
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
      mean = score(trained).lengths[how.rule][-1].mean
      lengths = f", held out {mean:.3f} tokens"
    say("training", number, total, f"loss {loss:.3f}{lengths}")

  name = f"{out.name}-{_digest(about)}"
  with contextlib.ExitStack() as resources:
    remedy = "wait for it, or give --out another name"
    disk.lock(folder, resources, f"{name}.lock", remedy)
    trained = training.train(
      functools.partial(learning.loss, how, made.draft, shape, heat),
      made.trained,
      step_key,
      functools.partial(data.rows_of, kept, how, shape),
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


def settled(how: Training, pair: Pair) -> Training:
  """Returns settings with nothing left open; refuses what cannot be made."""
  layers = tuple(drafts.choose(how.kind, pair, how.layers))
  vocabulary = how.vocabulary
  if pair.draft is None:
    vocabulary = VOCABULARY if vocabulary is None else vocabulary
  elif vocabulary is not None:
    raise ValueError(
      f"vocabulary={vocabulary}: {pair.draft.source}, which training begins"
      " with, keeps its own: leave it out"
    )
  else:
    vocabulary = pair.draft.config.draft_vocab_size or 0
  rank, roots = how.rank, how.roots
  if how.kind == "dspark":
    rank, roots = _of_one_pass(how, pair.draft)
  elif rank is not None:
    raise ValueError(f"rank={rank}: only kind='dspark' has one: leave it out")
  return dataclasses.replace(
    how, layers=layers, vocabulary=vocabulary, rank=rank, roots=roots
  )


def _of_one_pass(how: Training, draft) -> tuple[int, int]:
  """Returns the rank, and how many roots, of a draft of one pass."""
  rank, roots = how.rank, ROOTS if how.roots is None else how.roots
  if draft is None:
    return RANK if rank is None else rank, roots
  if rank is not None:
    raise ValueError(
      f"rank={rank}: {draft.source}, which training begins with, keeps its own:"
      " leave it out"
    )
  own = draft.config.block
  if how.depth > own.size:
    raise ValueError(
      f"depth={how.depth}: {draft.source}, which training begins with, drafts"
      f" {own.size} levels at most"
    )
  return own.rank, roots


def _digest(about: dict) -> str:
  """Returns a few letters that other settings do not have."""
  data = disk.to_bytes(about, "what is made")
  return hashlib.sha256(data).hexdigest()[:8]


def _card(about: dict, found: Scores) -> str:
  """Returns what is written beside a draft: what it was made of."""
  lines = [
    f"- {part}.{name}: {value}"
    for part in ("writing", "training")
    for name, value in about[part].items()
  ]
  kind = about["training"]["kind"]
  return "\n".join(
    [
      f"# A draft for {about['target']}",
      "",
      "Made by `python -m tv_jax.distill`. `tv_jax.load` takes it as the draft,"
      f' with `draft_kind="{kind}"`.',
      "",
      *lines,
      "",
      "Expected acceptance lengths of chains on conversations that it was not"
      f" trained on ({found.tokens} tokens):",
      "",
      *(f"    {line}" for line in repr(found).splitlines()),
      "",
    ]
  )


def frequent(text, count: int, V: int) -> np.ndarray | None:
  """Returns the tokens that are most frequent in answers, in order."""
  if not 0 < count < V:
    return None
  seen = collections.Counter(token for one in text for token in one.answer)
  ranked = sorted(range(V), key=lambda token: -seen[token])
  return np.sort(np.array(ranked[:count]))


def _split(corpus, how: Training):
  """Returns what is held out, and what is trained on."""
  fits = [
    i
    for i, one in enumerate(corpus.text)
    if len(one.prompt) + len(one.answer) <= how.length
  ]
  if len(fits) <= how.held_out:
    raise ValueError(
      f"{len(fits)} conversations have at most length={how.length} tokens, and"
      f" held_out={how.held_out} of them are not trained on: write more"
    )
  held = fits[: how.held_out]
  # Given prompts are asked again and again.
  asked = {corpus.text[i].prompt for i in held}
  kept = [i for i in fits if corpus.text[i].prompt not in asked]
  if not kept:
    raise ValueError(
      f"all prompts are held out (held_out={how.held_out}): give more prompts"
    )
  return corpus.part(held), corpus.part(kept)


def _score(target, made, held, heat, trained) -> Scores:
  params = made._replace(trained=trained).params
  longest = max(len(one.answer) for one in held.text)
  depth = min(made.draft.deepest or _DEEPEST, longest)
  shape, found = Shape.of(held.text, depth), []
  for start in range(0, len(held.text), _SCORED):
    own = held.part(range(start, min(start + _SCORED, len(held.text))))
    features, _, read = own.of_target(shape.T)
    rows = Rows.of(own.text, shape.T)
    found += scoring.measure(
      made.draft, target, params, rows, features, (heat, heat), shape, read
    )
  return scoring.summary(found)
