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

  def part(self, which: Sequence[int]) -> Corpus:
    """Returns some of them."""
    text = [self.text[i] for i in which]
    return self._replace(text=text, starts=self.starts[[*which]])

  def of_target(self, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns features [B, T, E] and normalisers [B, T] of all of them."""
    B, E = len(self.text), self.features.shape[-1]
    features = np.zeros((B, T, E), np.float16)
    normaliser = np.zeros((B, T), np.float32)
    for row, (one, start) in enumerate(
      zip(self.text, self.starts, strict=True)
    ):
      size = len(one.prompt) + len(one.answer)
      own = slice(start, start + size)
      features[row, :size] = self.features[own]
      normaliser[row, :size] = self.normalisers[own]
    return features, normaliser


def usable(text: Sequence[Conversation]) -> list[Conversation]:
  """Returns what has an answer to score, and a root before it."""
  found = [one for one in text if one.answer and len(one.prompt) > 1]
  if not found:
    raise ValueError("there is no text: no conversation has an answer")
  return found


def read(
  target: Model,
  text: Sequence[Conversation],
  folder: pathlib.Path,
  temperature: float,
  say: Callable[[int, int], None] = lambda done, total: None,
) -> Corpus:
  """Has the target read what it has not read yet.

  Args:
    target: The target.
    text: All of what is in the folder, as `usable` returns it.
    folder: Where it is kept.
    temperature: Of the laws.
    say: Is told how many conversations were read, and of how many.
  """
  sizes = np.array([len(one.prompt) + len(one.answer) for one in text])
  ends, E = sizes.cumsum(), target.config.hidden_size
  T = _up(int(sizes.max()), 64)
  paths = folder / FEATURES, folder / NORMALISERS
  row_bytes = 2 * E, 4
  about = {
    "target": reading.name_of(target.source),
    "temperature": temperature,
    "first_answer": text[0].answer,
  }
  with contextlib.ExitStack() as resources:
    disk.lock(folder, resources, remedy="wait for it, or give another --data")
    check_same(folder / ABOUT, about, "--data")
    resources.enter_context(disk.explained(f"{folder} cannot be written in"))
    # Never cut off: another draft may be reading what is behind.
    for path in paths:
      path.touch()
    files = [resources.enter_context(path.open("r+b")) for path in paths]
    there = min(
      path.stat().st_size // one
      for path, one in zip(paths, row_bytes, strict=True)
    )
    done = int(np.searchsorted(ends, there, side="right"))
    if done < len(text):  # those that are read together are, once more
      done = done // _ROWS * _ROWS
    for file, one in zip(files, row_bytes, strict=True):
      file.seek(one * int(ends[done - 1]) if done else 0)
    for start in range(done, len(text), _ROWS):
      say(start, len(text))
      own = text[start : start + _ROWS]
      tokens = np.zeros((_ROWS, T), np.int32)
      tokens[: len(own)] = Rows.of(own, T).tokens
      found = _read(
        target.apply, target.config, target.params, tokens, temperature
      )
      for kind, file in zip(map(np.asarray, found), files, strict=True):
        for row, size in zip(kind, sizes[start:], strict=False):
          file.write(np.ascontiguousarray(row[:size]).tobytes())
        file.flush()
  return Corpus(
    text=text,
    starts=ends - sizes,
    features=np.memmap(paths[0], np.float16, "r", shape=(int(ends[-1]), E)),
    normalisers=np.fromfile(paths[1], np.float32, int(ends[-1])),
  )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _read(apply, config, params, tokens, temperature):
  """Returns features [B, T, E], and normalisers [B, T]."""
  features = passes.features(apply, config, params, tokens).astype(jnp.float16)

  def normaliser(row):
    logits = passes.logits(params, row.astype(config.dtype))
    return jax.nn.logsumexp(logits / temperature, axis=-1)

  # A row at a time: [T, V] is large.
  return features, jax.lax.map(normaliser, features)


def _up(size: int, step: int) -> int:
  return -(-size // step) * step
