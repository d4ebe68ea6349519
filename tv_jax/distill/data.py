"""What training and scoring read: conversations, and the target's features.

The target reads each conversation once. Its features make its laws again by one
product with the unembedding; the normaliser of each law is kept beside them, so
that a draft that knows few tokens needs few columns of that product.

Axes: B rows, T tokens, W roots of a row, D levels, E embedding.
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
from tv_jax.distill.text import Conversation, check_same
from tv_jax.edge import disk, reading
from tv_jax.models import Model

FEATURES, NORMALISERS = "features.bin", "normalisers.bin"
ABOUT = "features.json"
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
  """Conversations with what is on disk of them."""

  text: Sequence[Conversation]
  starts: np.ndarray  # of each in what is on disk
  features: np.ndarray  # [tokens, E] float16
  normalisers: np.ndarray  # [tokens] float32: log sum exp of the logits
  # Of each layer that a draft reads, [tokens, E] float16; none: the features.
  layers: tuple[np.ndarray, ...] = ()

  def part(self, which: Sequence[int]) -> Corpus:
    """Returns some of them."""
    text = [self.text[i] for i in which]
    return self._replace(text=text, starts=self.starts[[*which]])

  def of_target(
    self, T: int
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Returns what is on disk of all of them, B rows of T tokens.

    Features [B, T, E], normalisers [B, T], and what a draft reads [B, T, J].
    """
    features, normalisers = (
      self._rows(x, T) for x in (self.features, self.normalisers)
    )
    if not self.layers:
      return features, normalisers, None
    read = [self._rows(layer, T) for layer in self.layers]
    return features, normalisers, np.concatenate(read, axis=-1)

  def _rows(self, kept: np.ndarray, T: int) -> np.ndarray:
    found = np.zeros((len(self.text), T, *kept.shape[1:]), kept.dtype)
    for row, one, start in zip(found, self.text, self.starts, strict=True):
      size = len(one.prompt) + len(one.answer)
      row[:size] = kept[start : start + size]
    return found


def rows_of(corpus: Corpus, how, shape: Shape, step: int):
  """Returns what a step reads, all conversations once in each epoch.

  Args:
    corpus: What is trained on.
    how: A `Training`.
    shape: Of all of it.
    step: Its number.
  """
  n, start = len(corpus.text), step * how.rows
  order = [
    np.random.default_rng([how.seed, epoch]).permutation(n)
    for epoch in range(start // n, (start + how.rows - 1) // n + 1)
  ]
  which = np.concatenate(order)[start % n :][: how.rows]
  own = corpus.part(which.tolist())
  return Rows.of(own.text, shape.T), *own.of_target(shape.T)


def usable(text: Sequence[Conversation]) -> list[Conversation]:
  """Returns what has an answer to score, and a root before it."""
  found = [one for one in text if one.answer and len(one.prompt) > 1]
  if not found:
    raise ValueError(
      "there is no text: no conversation has an answer, and a prompt of two"
      " tokens or more"
    )
  return found


def read(
  target: Model,
  text: Sequence[Conversation],
  folder: pathlib.Path,
  temperature: float,
  say: Callable[[int, int], None] = lambda done, total: None,
  layers: tuple[int, ...] = (),
) -> Corpus:
  """Has the target read what it has not read yet.

  Each layer's outputs are in a file of their own, which all drafts that read
  this layer share.

  Args:
    target: The target.
    text: All of what is in the folder, as `usable` returns it.
    folder: Where it is kept.
    temperature: Of the laws.
    say: Is told how many conversations were read, and of how many.
    layers: Those whose outputs a draft reads; none: it reads the features.
  """
  sizes = np.array([len(one.prompt) + len(one.answer) for one in text])
  ends, E = sizes.cumsum(), target.config.hidden_size
  kinds = {FEATURES: (E, np.float16), NORMALISERS: (1, np.float32)}
  kinds |= {_layer(layer): (E, np.float16) for layer in layers}
  about = {
    "target": reading.name_of(target.source),
    "temperature": temperature,
    "first_answer": text[0].answer,
  }
  with contextlib.ExitStack() as resources:
    disk.lock(folder, resources, remedy="wait for it, or give another --data")
    check_same(folder / ABOUT, about, "--data")
    resources.enter_context(disk.explained(f"{folder} cannot be written in"))
    files, done = {}, {}
    for name, (width, kind) in kinds.items():
      path, row = folder / name, width * np.dtype(kind).itemsize
      path.touch()
      # Never cut off: another draft may be reading what is behind.
      files[name] = resources.enter_context(path.open("r+b"))
      there = path.stat().st_size // row
      own = int(np.searchsorted(ends, there, side="right"))
      if own < len(text):  # those that are read together are, once more
        own = own // _ROWS * _ROWS
      done[name] = own
      files[name].seek(row * int(ends[own - 1]) if own else 0)
    missing = [x for x in layers if done[_layer(x)] < len(text)]
    for start in range(min(done.values()), len(text), _ROWS):
      say(start, len(text))
      own = text[start : start + _ROWS]
      T = _up(int(sizes[start : start + _ROWS].max()), 64)
      tokens = np.zeros((_ROWS, T), np.int32)
      tokens[: len(own)] = Rows.of(own, T).tokens
      features, outputs = passes.of_target(target, missing, tokens)
      found = {FEATURES: _halved(features)}
      if outputs is not None:
        parts = jnp.split(outputs, len(missing), axis=-1)
        names = map(_layer, missing)
        found |= zip(names, map(_halved, parts), strict=True)
      if start >= done[NORMALISERS]:
        found[NORMALISERS] = _normalisers(
          target.config, target.params, found[FEATURES], temperature
        )
      for name, rows in found.items():
        if start < done[name]:
          continue
        for row, size in zip(np.asarray(rows), sizes[start:], strict=False):
          files[name].write(np.ascontiguousarray(row[:size]).tobytes())
        files[name].flush()
  whole = {
    name: np.memmap(folder / name, kind, "r", shape=(int(ends[-1]), width))
    for name, (width, kind) in kinds.items()
  }
  return Corpus(
    text=text,
    starts=ends - sizes,
    features=whole[FEATURES],
    normalisers=np.array(whole[NORMALISERS][:, 0]),
    layers=tuple(whole[_layer(layer)] for layer in layers),
  )


def _layer(layer: int) -> str:
  return f"layer_{layer}.bin"


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
