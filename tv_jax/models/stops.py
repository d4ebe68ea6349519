"""Texts that end an answer, as a table that a program follows token by token.

Axes: S states, V vocabulary, L bytes.
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Sequence

import numpy as np

from tv_jax.edge.reading import brief

# What stands in the table where a text is complete.
STOPPED = -1

# All texts together: the table has a row for each of their bytes.
MOST_BYTES = 256

# States are padded to so many: other texts then need no other program.
_BLOCK = 32

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def texts(stop: str | Sequence[str] | None) -> tuple[str, ...]:
  """Checks the texts, and returns each of them once."""
  if stop is None:
    return ()
  found = [stop] if isinstance(stop, str) else stop
  if not isinstance(found, list | tuple) or not all(
    isinstance(one, str) and one for one in found
  ):
    raise ValueError(f"stop={brief(stop)}: give a list of texts, none empty")
  if any("\ud800" <= letter <= "\udfff" for one in found for letter in one):
    raise ValueError(
      f"stop={brief(stop)} holds half of a character (a lone surrogate)"
    )
  if (size := sum(len(one.encode()) for one in found)) > MOST_BYTES:
    raise ValueError(
      f"stop={brief(stop)}: {size} bytes are too many, {MOST_BYTES} at most"
    )
  return tuple(dict.fromkeys(found))


def cut(text: str, stop: Sequence[str]) -> str:
  """Returns a text up to the first of these in it."""
  found = [one for one in stop if one in text]
  return text[: min(text.find(one) for one in found)] if found else text


@functools.lru_cache(maxsize=4)
def table(tokenizer, vocabulary: int, stop: tuple[str, ...]) -> np.ndarray:
  """Returns [S, V]: from a state and a token to the next state, or STOPPED.

  A state is the longest beginning of a text that what was said ends with, in
  bytes: a text may span tokens, and a token be in the midst of a character. A
  special token, which no text shows, changes nothing, but stops where it is
  itself what was asked for.
  """
  step = _automaton([one.encode() for one in stop])
  S = len(step)
  following = np.repeat(np.arange(S, dtype=np.int16)[:, None], vocabulary, 1)
  special = set(tokenizer.all_special_ids)
  said: dict[int, list[tuple[int, bytes]]] = collections.defaultdict(list)
  for token, own in enumerate(_bytes(tokenizer, vocabulary)):
    if token not in special:
      said[len(own)].append((token, own))
  for size, pairs in said.items():
    tokens, own = zip(*pairs, strict=True)
    letters = np.frombuffer(b"".join(own), np.uint8).reshape(len(own), size)
    state = following[:, tokens]
    for place in range(size):
      after = step[state, letters[None, :, place]]
      state = np.where(state == STOPPED, STOPPED, after)
    following[:, tokens] = state
  for one in stop:
    token = tokenizer.get_vocab().get(one)  # not what stands for the unknown
    if token in special:
      following[:, token] = STOPPED
  padded = np.zeros((-(-S // _BLOCK) * _BLOCK, vocabulary), np.int16)
  padded[:S] = following
  return padded


def _automaton(stop: Sequence[bytes]) -> np.ndarray:
  """Returns [S, 256]: from a state and a byte to the next.

  As Aho and Corasick, 1975.
  """
  begun = {one[:end] for one in stop for end in range(1, len(one))} | {b""}
  states = {said: i for i, said in enumerate(sorted(begun, key=len))}
  step = np.zeros((len(states), 256), np.int16)
  for said, state in states.items():
    if said:  # what goes on nowhere does as the longest end of it that does
      ends = (said[i:] for i in range(1, len(said) + 1))
      step[state] = step[next(states[end] for end in ends if end in states)]
    for more in [*states, *stop]:
      if more[:-1] == said and more and step[state, more[-1]] != STOPPED:
        step[state, more[-1]] = states.get(more, STOPPED)
    for one in stop:
      if one[:-1] == said:
        step[state, one[-1]] = STOPPED
  return step


def _bytes(tokenizer, vocabulary: int) -> list[bytes]:
  """Returns what each token adds to a text."""
  pieces = tokenizer.convert_ids_to_tokens([*range(vocabulary)])
  decoder = tokenizer.backend_tokenizer.decoder
  letters = _letters() if "ByteLevel" in repr(decoder) else None

  def spoken(piece: str | None) -> bytes:
    if not piece:  # a place that fills the vocabulary up
      return b""
    if letters and all(letter in letters for letter in piece):
      return bytes(letters[letter] for letter in piece)
    if byte := _BYTE.fullmatch(piece):
      return bytes([int(byte[1], 16)])
    return piece.replace("\u2581", " ").encode()

  return [*map(spoken, pieces)]


def _letters() -> dict[str, int]:
  """Returns the letters with which GPT-2's vocabularies write bytes."""
  own = [*range(33, 127), *range(161, 173), *range(174, 256)]
  others = [byte for byte in range(256) if byte not in own]
  letters = {chr(byte): byte for byte in own}
  return letters | {chr(256 + i): byte for i, byte in enumerate(others)}
