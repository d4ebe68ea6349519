"""What training and scoring read: conversations, and the target's features.

The target reads each conversation once. Its features make its laws again by one
product with the unembedding; the normaliser of each law is kept beside them, so
that a draft that knows few tokens needs few columns of that product.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, J what a draft
reads of a token.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.distill import passes
from tv_jax.distill.text import Conversation, about_target, check_same
from tv_jax.edge import disk
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
    W = _up(max(len(one.answer) for one in text), 32)
    T = _up(max(len(one.prompt) for one in text) + W + depth, 64)
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
    for row, one in zip(tokens, text, strict=True):
      both = [*one.prompt, *one.answer]
      row[: len(both)] = both
    first = np.array([len(one.prompt) - 1 for one in text], np.int32)
    sizes = np.array([len(one.answer) for one in text], np.int32)
    return cls(tokens, first, first + sizes)


class Corpus(NamedTuple):
  """Conversations, and a table on disk with a row for each of their tokens."""

  text: Sequence[Conversation]
  starts: np.ndarray  # of each in the table
  table: np.ndarray

  def part(self, which: Sequence[int]) -> Corpus:
    """Returns some of them."""
    text = [self.text[i] for i in which]
    return self._replace(text=text, starts=self.starts[[*which]])

  def rows(self, T: int) -> Rows:
    """Returns all of them, padded to T tokens."""
    found = np.zeros((len(self.text), T), self.table.dtype)
    for row, one, start in zip(found, self.text, self.starts, strict=True):
      size = len(one.prompt) + len(one.answer)
      row[:size] = self.table[start : start + size]
    features = found["features"]
    return Rows.of(self.text, T)._replace(
      features=features,
      normaliser=found["normaliser"],
      read=found["read"] if found["read"].shape[-1] else features,
    )


def step_rows(corpus: Corpus, count: int, seed: int, T: int, step: int) -> Rows:
  """Returns what a step reads: all conversations once in each epoch."""
  n, start = len(corpus.text), step * count
  order = [
    np.random.default_rng([seed, epoch]).permutation(n)
    for epoch in range(start // n, (start + count - 1) // n + 1)
  ]
  which = np.concatenate(order)[start % n :][:count]
  return corpus.part(which.tolist()).rows(T)


def usable(text: Sequence[Conversation], V: int) -> list[Conversation]:
  """Returns what has an answer to score, and a root before it.

  ValueError: nothing has, or a token is not in the target's vocabulary.
  """
  found = [one for one in text if one.answer and len(one.prompt) > 1]
  if not found:
    raise ValueError(
      "there is no text: no conversation has an answer, and a prompt of two"
      " tokens or more"
    )
  for token in {x for one in found for x in (*one.prompt, *one.answer)}:
    if not 0 <= token < V:
      raise ValueError(
        f"token {token} is in the text: the target knows 0 to {V - 1}"
      )
  return found


def read(
  pair: Pair,
  text: Sequence[Conversation],
  folder: pathlib.Path,
  temperature: float,
  layers: tuple[int, ...] = (),
  say: Callable[[int, int], None] = lambda done, total: None,
) -> Corpus:
  """Has the target read what it has not read yet.

  Args:
    pair: The target.
    text: What it reads, as `usable` returns it; another time there may be more.
    folder: Where the table is kept: drafts that read the same layers share it.
    temperature: Of the laws.
    layers: Those whose outputs a draft reads; none: it reads the features.
    say: Is told how many conversations were read, and of how many.
  """
  folder.mkdir(parents=True, exist_ok=True)
  config = pair.target.config
  E, sizes = config.hidden_size, [len(x.prompt) + len(x.answer) for x in text]
  tokens = np.concatenate([[*one.prompt, *one.answer] for one in text])
  ends = np.cumsum(sizes)
  row = np.dtype(
    [
      ("token", np.int32),
      ("normaliser", np.float32),
      ("features", np.float16, (E,)),
      ("read", np.float16, (E * len(layers),)),
    ]
  )
  path = folder / f"{'-'.join(map(str, ('read', *layers)))}.bin"
  with contextlib.ExitStack() as resources:
    disk.lock(folder, resources, remedy="wait for it, or give another --data")
    about = {**about_target(pair), "temperature": temperature}
    check_same(folder / "read.json", about, "--data")
    path.touch()
    count = min(path.stat().st_size // row.itemsize, len(tokens))
    if count:
      before = np.memmap(path, row, "r", shape=(count,))["token"]
      if (before != tokens[:count]).any():
        raise ValueError(f"{path} is of other text: give another --data")
    done = int(np.searchsorted(ends, count, side="right"))
    if done < len(text):  # those that are read together are, once more
      done = done // _ROWS * _ROWS
    # Never cut off: another draft may be reading what is behind.
    file = resources.enter_context(path.open("r+b"))
    file.seek(row.itemsize * int(ends[done - 1] if done else 0))
    for start in range(done, len(text), _ROWS):
      say(start, len(text))
      block = text[start : start + _ROWS]
      size = _up(max(sizes[start : start + _ROWS]), 64)
      padded = np.zeros((_ROWS, size), np.int32)
      padded[: len(block)] = Rows.of(block, size).tokens
      features, outputs = passes.of_target(pair.target, layers, padded)
      features = _halved(features)
      table = np.zeros(padded.shape, row)
      table["token"], table["features"] = padded, features
      table["normaliser"] = _normalisers(
        config, pair.target.params, features, temperature
      )
      if outputs is not None:
        table["read"] = _halved(outputs)
      for one, length in zip(table, sizes[start:], strict=False):
        file.write(one[:length].tobytes())
      file.flush()
  table = np.memmap(path, row, "r", shape=(len(tokens),))
  return Corpus(text, ends - sizes, table)


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
