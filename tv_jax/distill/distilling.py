"""Makes a draft for a target, from the target alone."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import math
import os
import pathlib
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.distill import data, drafts, losses, passes, scoring, training
from tv_jax.distill import text as texts
from tv_jax.distill.chances import RULES, Known, Prefix
from tv_jax.distill.data import Rows, Shape
from tv_jax.distill.losses import LOSSES, Seen
from tv_jax.distill.scoring import Scores
from tv_jax.distill.text import Writing
from tv_jax.edge import checks, disk, reading
from tv_jax.engine.pair import Pair

# Beside the draft: how it is made.
ABOUT = "training.json"
# Tokens that a draft knows, where nothing else is said.
VOCABULARY = 16384
# Steps between checkpoints, and between scores on text that is held out.
SAVE, SCORE = 50, 200
# Conversations that are scored together, and levels of the longest chain.
_SCORED, _DEEPEST = 4, 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
  """How a draft is made.

  Attributes:
    kind: "eagle" or "independent".
    loss: One of `losses.LOSSES`.
    kl: So much of the KL divergence is added: where the draft gives a likely
      token next to nothing, other losses hardly change with it.
    rule: The one that is to verify it.
    depth: Levels of the chains that it learns to draft.
    layers: Those of the target's that it begins with, and as many as it has; by
      default the first and the last, of a head the last.
    vocabulary: So many of the text's most frequent tokens it knows; 0: all;
      by default `VOCABULARY`.
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
    "training": dataclasses.asdict(how),
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
  )
  held, kept = _split(corpus, how)
  key = jax.random.key(how.seed)
  if pair.draft is None:
    known = frequent(kept.text, how.vocabulary or 0, target.config.vocab_size)
    made = drafts.make(how.kind, target, key, how.layers, known)
  else:
    made = drafts.begun(pair.draft)
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

  trained = training.train(
    functools.partial(_loss, how, made.draft, shape, heat),
    made.trained,
    key,
    functools.partial(_rows, kept, how, shape),
    training.Schedule(
      steps=how.steps,
      decay=how.steps * 6 // 10,
      rate=how.rate,
      warmup=max(1, min(50, how.steps // 10)),
    ),
    folder / f"{out.name}-{_digest(about)}.npz",
    (made.borrowed,),
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
  return dataclasses.replace(how, layers=layers, vocabulary=vocabulary)


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


def _rows(corpus, how: Training, shape: Shape, step: int):
  """Returns the conversations of a step, all of them once in each epoch."""
  n, start = len(corpus.text), step * how.rows
  order = [
    np.random.default_rng([how.seed, epoch]).permutation(n)
    for epoch in range(start // n, (start + how.rows - 1) // n + 1)
  ]
  which = np.concatenate(order)[start % n :][: how.rows]
  own = corpus.part(which)
  return Rows.of(own.text, shape.T), *own.of_target(shape.T)


def _score(target, made, held, heat, trained) -> Scores:
  params = made._replace(trained=trained).params
  depth = min(_DEEPEST, max(len(one.answer) for one in held.text))
  shape, found = Shape.of(held.text, depth), []
  for start in range(0, len(held.text), _SCORED):
    own = held.part(range(start, min(start + _SCORED, len(held.text))))
    features, _ = own.of_target(shape.T)
    rows = Rows.of(own.text, shape.T)
    found += scoring.measure(
      made.draft, target, params, rows, features, (heat, heat), shape
    )
  return scoring.summary(found)


def _loss(how, draft, shape, heat, borrowed, trained, key, read):
  """Returns the loss of some conversations, and nothing more to log."""
  del key
  rows, features, normaliser = read
  W, D = shape.W, shape.D
  params = {"params": trained | borrowed}
  known = Known.of(params, draft.config)
  features = features.astype(jnp.float32)
  outputs = draft.outputs(params, rows.tokens, features, rows.first, W, D)
  window = functools.partial(passes.window, first=rows.first, size=W + D - 1)
  # The draft's unembedding is the target's, of the tokens that it knows.
  log_p = passes.logits(params, window(features)) / heat
  log_p -= window(normaliser)[..., None]
  following = passes.window(rows.tokens, rows.first + 1, W + D - 1)
  root = rows.first[:, None] + jnp.arange(W, dtype=jnp.int32)[None]
  prefix = Prefix.empty((len(rows.tokens), W))
  roots = jnp.sum(root < rows.end[:, None], dtype=jnp.float32)
  total = jnp.zeros([])
  for level, output in enumerate(outputs):
    own, token = (x[:, level : level + W] for x in (log_p, following))
    log_q = passes.logits(params, output) / heat
    log_q = jax.nn.log_softmax(log_q, axis=-1)
    chosen = known.chance(log_q, token)
    seen = Seen(prefix, own, log_q, chosen)
    value = LOSSES[how.loss](seen, how.rule)
    value += how.kl * losses.kl(seen, how.rule)
    there = root + level < rows.end[:, None]
    total += jnp.sum(jnp.where(there, value, 0)) / roots
    prefix = prefix.longer(known.chance(own, token), chosen)
  return total, {}
