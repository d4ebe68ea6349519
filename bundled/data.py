"""Rows of whole conversations, each row a pure function of seed and step."""

import dataclasses
import random

import jax
import numpy as np
import tokenizers

from bundled import tasks, tokens
from bundled.settings import Data
from bundled.tasks.conversation import Conversation

# After so many conversations that did not fit, source text fills a row up.
_MISSES = 4


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
  """B rows of T tokens, each with several documents one after the other."""

  tokens: np.ndarray  # [B, T] int32
  positions: np.ndarray  # [B, T] int32, each token's place in its document
  document: np.ndarray  # [B, T] int32, its number in the row; -1: padding
  # How much the prediction of the next token counts: 0 at a document's end.
  weights: np.ndarray  # [B, T] float32
  answer: np.ndarray  # [B, T] float32, whether the next token is an answer's


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
  """Where rows come from."""

  tokenizer: tokenizers.Tokenizer
  source: np.ndarray  # all tokens of the source text
  settings: Data

  def rows(self, stage: str, step: int, count: int) -> Rows:
    """Makes the `count` rows of one step of one stage of training."""
    made = [
      self._row(random.Random(f"0/{stage}/{step}/{i}")) for i in range(count)
    ]
    return Rows(
      **{name: np.stack([row[name] for row in made]) for name in made[0]}
    )

  def _row(self, rng):
    documents, room, misses = [], self.settings.length, 0
    alone = rng.random() < self.settings.source_rows
    if alone and len(self.source) > room:
      misses = _MISSES
    while misses < _MISSES:
      task = rng.choice(list(tasks.TASKS))
      conversation = tasks.generate(task, rng)
      ids, answer = encode(self.tokenizer, conversation)
      if len(ids) > room:
        misses += 1
        continue
      weights = np.where(answer, 1.0, self.settings.prompt_weight)
      documents.append((ids, weights, answer))
      room -= len(ids)
    if room > 1 and len(self.source) > room:
      start = rng.randrange(len(self.source) - room)
      chunk = self.source[start : start + room - 1]
      ids = np.concatenate([[tokens.BOS], chunk])
      weights = np.full(room, self.settings.source_weight)
      documents.append((ids, weights, np.zeros(room, bool)))
    return _pack(documents, self.settings.length)


def _pack(documents, length):
  """Puts documents one after the other, then padding."""
  row = {
    "tokens": np.full(length, tokens.PAD, np.int32),
    "positions": np.zeros(length, np.int32),
    "document": np.full(length, -1, np.int32),
    "weights": np.zeros(length, np.float32),
    "answer": np.zeros(length, np.float32),
  }
  start = 0
  for i, (ids, weights, answer) in enumerate(documents):
    end = start + len(ids)
    row["tokens"][start:end] = ids
    row["positions"][start:end] = np.arange(len(ids))
    row["document"][start:end] = i
    # Of the next token: shifted by one, nothing to predict at the end.
    row["weights"][start : end - 1] = weights[1:]
    row["answer"][start : end - 1] = answer[1:]
    start = end
  return row


def encode(
  tokenizer: tokenizers.Tokenizer, conversation: Conversation
) -> tuple[np.ndarray, np.ndarray]:
  """Returns a conversation's tokens, and which of them are an answer's."""
  ids, answer = [], []
  for text, is_answer in tokens.texts(conversation):
    piece = tokenizer.encode(text, add_special_tokens=False).ids
    ids += piece
    answer += [is_answer] * len(piece)
  return np.array(ids, np.int32), np.array(answer)
