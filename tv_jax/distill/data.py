"""The data of training and scoring: conversations and the target's features.

The target reads each conversation once, and its features are kept on disk.
Their product with the unembedding gives the logits again. The log normaliser of
each softmax is kept as well, so that a draft that knows few tokens needs only
these tokens' logits.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, J channels of
the features that a draft reads.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.distill.text import Conversation, about_target
from tv_jax.drafting import passes
from tv_jax.engine.pair import Pair
from tv_jax.io import disk
from tv_jax.io.errors import UserError
from tv_jax.io.progress import Progress, silent
from tv_jax.models import Model


class Shape(NamedTuple):
  """Padded sizes of conversations; each shape is compiled once."""

  T: int
  W: int
  D: int

  @classmethod
  def of(cls, text: Sequence[Conversation], depth: int) -> Shape:
    """Returns the smallest shape for these conversations, rounded up."""
    W = _up(max(len(x.answer) for x in text), 32)
    T = _up(max(len(x.prompt) for x in text) + W + depth, 64)
    return cls(T, W, depth)


class Rows(NamedTuple):
  """A batch of conversations, with a root before each token of an answer."""

  tokens: np.ndarray | jax.Array  # [B, T] int32
  first: np.ndarray | jax.Array  # [B] int32: last position of the prompt
  end: np.ndarray | jax.Array  # [B] int32: last position of the answer
  features: np.ndarray | jax.Array | None = None  # [B, T, E] after the norm
  normaliser: np.ndarray | jax.Array | None = None  # [B, T] log normalisers
  read: np.ndarray | jax.Array | None = None  # [B, T, J] the draft's input

  @classmethod
  def of(cls, text: Sequence[Conversation], T: int) -> Rows:
    """Returns conversations padded to T tokens, without features."""
    tokens = np.zeros((len(text), T), np.int32)
    for row, conversation in zip(tokens, text, strict=True):
      row[: len(conversation.tokens)] = conversation.tokens
    first = np.array([len(x.prompt) - 1 for x in text], np.int32)
    end = np.array([len(x.tokens) - 1 for x in text], np.int32)
    return cls(tokens, first, end)


class Corpus(NamedTuple):
  """Conversations and the files of their features."""

  text: Sequence[Conversation]
  files: Sequence[pathlib.Path]

  def rows(self, which: Sequence[int], T: int) -> Rows:
    """Returns a batch, padded to T tokens."""
    tables = [np.load(self.files[i]) for i in which]
    padded = np.stack([np.pad(x, (0, T - len(x))) for x in tables])
    features, read = padded["features"], padded["read"]
    return Rows.of([self.text[i] for i in which], T)._replace(
      features=features,
      normaliser=padded["normaliser"],
      read=read if read.shape[-1] else features,
    )

  def step(self, number: int, count: int, seed: int, T: int) -> Rows:
    """Returns a step's batch; an epoch has each conversation once."""
    n, start = len(self.text), number * count
    order = [
      np.random.default_rng([seed, epoch]).permutation(n)
      for epoch in range(start // n, (start + count - 1) // n + 1)
    ]
    places = np.concatenate(order)[start % n :][:count]
    return self.rows(places.tolist(), T)


def usable(text: Sequence[Conversation], V: int) -> list[Conversation]:
  """Returns the conversations with an answer and two prompt tokens or more.

  A head needs a token before the first root.

  Raises:
    ValueError: None is left, or a token is outside the target's vocabulary.
  """
  text = [x for x in text if x.answer and len(x.prompt) > 1]
  if not text:
    raise UserError(
      "there is no text: no conversation has an answer, and a prompt of two"
      " tokens or more"
    )
  for token in {token for x in text for token in x.tokens}:
    if not 0 <= token < V:
      raise UserError(
        f"token {token} is in the text: the target knows 0 to {V - 1}"
      )
  return text


def read(
  pair: Pair,
  text: Sequence[Conversation],
  folder: pathlib.Path,
  temperature: float,
  layers: tuple[int, ...] = (),
  progress: Progress = silent,
) -> Corpus:
  """Runs the target over the conversations that it has not read yet.

  Args:
    pair: The target.
    text: The conversations, from `usable`.
    folder: Folder of the files. A file's name is a hash of its inputs, so
      drafts that read the same features share it.
    temperature: Temperature of the target.
    layers: Layers whose outputs the draft reads; empty if it reads the final
      features.
    progress: Called with the number of conversations so far.
  """
  folder.mkdir(parents=True, exist_ok=True)
  about, files = [about_target(pair), temperature, layers], []
  for i, conversation in enumerate(text):
    digest = hashlib.sha256(repr([*about, conversation]).encode()).hexdigest()
    files.append(folder / f"read-{digest[:16]}.npy")
    if not files[-1].exists():
      progress("reading text", i, len(text))
      table = _table(pair.target, conversation, temperature, layers)
      with disk.atomic_open(files[-1]) as file:
        np.save(file, table)
  return Corpus(text, files)


def _table(
  target: Model, conversation: Conversation, temperature: float, layers
) -> np.ndarray:
  """Runs the target over a conversation; returns a row for each token."""
  count = len(conversation.tokens)
  tokens = Rows.of([conversation], _up(count, 64)).tokens
  features, outputs = passes.target_features(target, layers, tokens)
  features, outputs = _halved(features[0]), _halved(outputs[0])
  normalisers = _normalisers(
    target.config, target.params, features, temperature
  )
  E = features.shape[-1]
  row = [("normaliser", np.float32), ("features", np.float16, E)]
  row += [("read", np.float16, (E * len(layers),))]
  table = np.zeros(count, row)
  table["normaliser"], table["features"] = normalisers[:count], features[:count]
  if layers:
    table["read"] = outputs[:count]
  return table


def _halved(x: jax.Array) -> jax.Array:
  """Converts to float16; values out of range are clipped."""
  most = float(jnp.finfo(jnp.float16).max)
  # In bfloat16 the bound would round to 65536, infinity in float16.
  return jnp.clip(x.astype(jnp.float32), -most, most).astype(jnp.float16)


@functools.partial(jax.jit, static_argnums=0)
def _normalisers(config, params, features, temperature) -> jax.Array:
  """Returns the log normalisers [T]."""
  logits = passes.logits(params, features.astype(config.dtype))
  return jax.nn.logsumexp(logits / temperature, axis=-1)


def _up(size: int, step: int) -> int:
  return -(-size // step) * step
