"""Rows of whole conversations, each row a pure function of seed and step."""

import random
from typing import NamedTuple

import numpy as np
import tokenizers

from training import tasks, tokens
from training.settings import LENGTH, PROMPT_WEIGHT, SOURCE_ROWS, SOURCE_WEIGHT
from training.tasks.conversation import Conversation

# Number of conversations that do not fit before source text fills the row.
_MISSES = 4


class Corpus(NamedTuple):
  """The source of training rows."""

  tokenizer: tokenizers.Tokenizer
  source: np.ndarray  # all tokens of the source text


def rows(
  corpus: Corpus, stage: str, step: int, count: int
) -> dict[str, np.ndarray]:
  """Makes the `count` rows of a training step.

  Returns:
    Arrays [B, T]: `tokens`; `positions` in the token's document; `document`,
    the document's number in the row, or -1 for padding; and `weights`, the loss
    weight of the next token.
  """
  seeds = [f"0/{stage}/{step}/{i}" for i in range(count)]
  several = [_row(corpus, random.Random(seed)) for seed in seeds]
  return {name: np.stack([row[name] for row in several]) for name in several[0]}


def _row(corpus, rng):
  source = corpus.source
  documents, room, misses = [], LENGTH, 0
  alone = rng.random() < SOURCE_ROWS
  if alone and len(source) > room:
    misses = _MISSES
  while misses < _MISSES:
    task = rng.choice(list(tasks.TASKS))
    ids, answer = encode(corpus.tokenizer, tasks.generate(task, rng))
    if len(ids) > room:
      misses += 1
      continue
    documents.append((ids, np.where(answer, 1.0, PROMPT_WEIGHT)))
    room -= len(ids)
  if room > 1 and len(source) > room:
    start = rng.randrange(len(source) - room)
    ids = np.concatenate([[tokens.BOS], source[start : start + room - 1]])
    documents.append((ids, np.full(room, SOURCE_WEIGHT)))
  return _pack(documents)


def _pack(documents):
  """Concatenates documents, and pads the row."""
  row = {
    "tokens": np.full(LENGTH, tokens.PAD, np.int32),
    "positions": np.zeros(LENGTH, np.int32),
    "document": np.full(LENGTH, -1, np.int32),
    "weights": np.zeros(LENGTH, np.float32),
  }
  start = 0
  for i, (ids, weights) in enumerate(documents):
    end = start + len(ids)
    row["tokens"][start:end] = ids
    row["positions"][start:end] = np.arange(len(ids))
    row["document"][start:end] = i
    # Shifted by one to the token that predicts; the last predicts nothing.
    row["weights"][start : end - 1] = weights[1:]
    start = end
  return row


def encode(
  tokenizer: tokenizers.Tokenizer, conversation: Conversation
) -> tuple[np.ndarray, np.ndarray]:
  """Returns a conversation's tokens, and whether each is an answer's."""
  ids, answer = [], []
  for text, is_answer in tokens.texts(conversation):
    piece = tokenizer.encode(text, add_special_tokens=False).ids
    ids += piece
    answer += [is_answer] * len(piece)
  return np.array(ids, np.int32), np.array(answer)
