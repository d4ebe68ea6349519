"""What training and scoring read: conversations, and the target's features.

The target reads each conversation once. Its features make its laws again by one
product with the unembedding; the normaliser of each law is kept beside them, so
that a draft that knows few tokens needs few columns of that product.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, J what a draft
reads of a token.
"""

from __future__ import annotations

import bisect
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.distill.text import Conversation, about_target, writing_in
from tv_jax.drafting import passes
from tv_jax.engine.pair import Pair

# Conversations that the target reads together, and that a killed run loses.
_ROWS = 8


class Shape(NamedTuple):
  """Sizes that some conversations fit into; a program is made for each."""

  T: int
  W: int
  D: int

  @classmethod
  def of(cls, text: Sequence[Conversation], depth: int) -> Shape:
    """Returns the least, rounded up."""
    W = _up(max(len(x.answer) for x in text), 32)
    T = _up(max(len(x.prompt) for x in text) + W + depth, 64)
    return cls(T, W, depth)


class Rows(NamedTuple):
  """Some conversations. There is a root before each token of an answer."""

  tokens: np.ndarray | jax.Array  # [B, T] int32
  first: np.ndarray | jax.Array  # [B] int32: the last token of the prompt
  end: np.ndarray | jax.Array  # [B] int32: the last token
  features: np.ndarray | jax.Array | None = None  # [B, T, E], final norm's
  normaliser: np.ndarray | jax.Array | None = None  # [B, T] of the laws
  read: np.ndarray | jax.Array | None = None  # [B, T, J] what the draft reads

  @classmethod
  def of(cls, text: Sequence[Conversation], T: int) -> Rows:
    """Pads them to T tokens."""
    tokens = np.zeros((len(text), T), np.int32)
    for row, conversation in zip(tokens, text, strict=True):
      row[: len(conversation.tokens)] = conversation.tokens
    first = np.array([len(x.prompt) - 1 for x in text], np.int32)
    end = np.array([len(x.tokens) - 1 for x in text], np.int32)
    return cls(tokens, first, end)


class Corpus(NamedTuple):
  """Conversations, and a table on disk with a row for each of their tokens."""

  text: Sequence[Conversation]
  starts: Sequence[int]  # of each in the table
  table: np.ndarray

  def rows(self, which: Sequence[int], T: int) -> Rows:
    """Returns some of them, padded to T tokens."""
    text = [self.text[i] for i in which]
    padded = np.zeros((len(text), T), self.table.dtype)
    for row, i in zip(padded, which, strict=True):
      start, size = self.starts[i], len(self.text[i].tokens)
      row[:size] = self.table[start : start + size]
    features = padded["features"]
    return Rows.of(text, T)._replace(
      features=features,
      normaliser=padded["normaliser"],
      read=padded["read"] if padded["read"].shape[-1] else features,
    )


def step_rows(
  corpus: Corpus, numbers: Sequence[int], count: int, seed: int, T: int, step
) -> Rows:
  """Returns what a step reads: each of `numbers` once in each epoch."""
  n, start = len(numbers), step * count
  order = [
    np.random.default_rng([seed, epoch]).permutation(n)
    for epoch in range(start // n, (start + count - 1) // n + 1)
  ]
  places = np.concatenate(order)[start % n :][:count]
  return corpus.rows([numbers[i] for i in places], T)


def usable(text: Sequence[Conversation], V: int) -> list[Conversation]:
  """Returns what has an answer to score, and a root before it.

  ValueError: nothing has, or a token is not in the target's vocabulary.
  """
  text = [x for x in text if x.answer and len(x.prompt) > 1]
  if not text:
    raise ValueError(
      "there is no text: no conversation has an answer, and a prompt of two"
      " tokens or more"
    )
  for token in {token for x in text for token in x.tokens}:
    if not 0 <= token < V:
      raise ValueError(
        f"token {token} is in the text: the target knows 0 to {V - 1}"
      )
  return text


def read(
  pair: Pair,
  text: Sequence[Conversation],
  folder: pathlib.Path,
  temperature: float,
  layers: tuple[int, ...] = (),
  say: Callable[[str, int, int], None] = lambda *_: None,
) -> Corpus:
  """Has the target read what it has not read yet.

  Args:
    pair: The target.
    text: What it reads, as `usable` returns it; another time there may be more.
    folder: Where the table is kept: drafts that read the same layers share it.
    temperature: Of the laws.
    layers: Those whose outputs a draft reads; none: it reads the features.
    say: Is told what is done, how many conversations were read, and of how
      many.
  """
  config, width = pair.target.config, pair.target.config.hidden_size
  tokens = np.concatenate([x.tokens for x in text])
  ends = np.cumsum([len(x.tokens) for x in text]).tolist()
  starts = [0, *ends[:-1]]
  row = np.dtype(
    [
      ("token", np.int32),
      ("normaliser", np.float32),
      ("features", np.float16, (width,)),
      ("read", np.float16, (width * len(layers),)),
    ]
  )
  path = folder / f"{'-'.join(map(str, ('read', *layers)))}.bin"
  about = {**about_target(pair), "temperature": temperature}
  with writing_in(folder, "read.json", about):
    path.touch()
    count = min(path.stat().st_size // row.itemsize, len(tokens))
    if count:
      before = np.memmap(path, row, "r", shape=(count,))["token"]
      if (before != tokens[:count]).any():
        raise ValueError(f"{path} is of other text: give another --data")
    done = bisect.bisect_right(ends, count)
    if done < len(text):  # those that are read together are, once more
      done = done // _ROWS * _ROWS
    # Never cut off: another draft may be reading what is behind.
    with path.open("r+b") as file:
      file.seek(row.itemsize * starts[done] if done < len(text) else 0)
      for start in range(done, len(text), _ROWS):
        say("reading it", start, len(text))
        block = text[start : start + _ROWS]
        size = _up(max(len(x.tokens) for x in block), 64)
        padded = np.zeros((_ROWS, size), np.int32)
        padded[: len(block)] = Rows.of(block, size).tokens
        features, outputs = passes.of_target(pair.target, layers, padded)
        features = _halved(features)
        table = np.zeros(padded.shape, row)
        table["token"], table["features"] = padded, features
        table["normaliser"] = _normalisers(
          config, pair.target.params, features, temperature
        )
        if layers:
          table["read"] = _halved(outputs)
        for rows, conversation in zip(table, block, strict=False):
          file.write(rows[: len(conversation.tokens)].tobytes())
        file.flush()
  return Corpus(text, starts, np.memmap(path, row, "r", shape=(len(tokens),)))


def _halved(x: jax.Array) -> jax.Array:
  """Returns it in float16; what is too large becomes the largest there is."""
  most = float(jnp.finfo(jnp.float16).max)
  # bfloat16 would round that up.
  return jnp.clip(x.astype(jnp.float32), -most, most).astype(jnp.float16)


@functools.partial(jax.jit, static_argnums=0)
def _normalisers(config, params, features, temperature) -> jax.Array:
  """Returns the normalisers [B, T]."""

  def normaliser(row):
    logits = passes.logits(params, row.astype(config.dtype))
    return jax.nn.logsumexp(logits / temperature, axis=-1)

  # A row at a time: [T, V] is large.
  return jax.lax.map(normaliser, features)


def _up(size: int, step: int) -> int:
  return -(-size // step) * step
