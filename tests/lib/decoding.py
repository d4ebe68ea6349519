"""Prompts, and what a pair makes of them."""

import functools

import numpy as np

import tv_jax
from tests.lib.checkpoints import pair
from tv_jax.engine.decode import Batch, Prompt
from tv_jax.io import reading

PROMPTS = [[5], [1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11], [*range(16)]]


def batch_of(pair, config, prompts=PROMPTS, longest=0):
  """A batch that these prompts were read into, each with its place."""
  longest = max(longest, *map(len, prompts))
  batch = Batch(pair, config, len(prompts), longest)
  limit = config.max_new_tokens
  asked = [Prompt(tokens, i, limit) for i, tokens in enumerate(prompts)]
  batch.insert(asked, 0)
  return batch


def generate(kind="independent", prompts=PROMPTS, **options):
  options = {"tree": "kary:2x2", "max_new_tokens": 24, **options}
  return tv_jax.generate(pair(kind), prompts, **options)


@functools.cache
def greedy(tokens=64):
  """Plain greedy decoding, one causal pass over the whole text for a token."""
  length = np.array([*map(len, PROMPTS)])
  texts = np.zeros((len(PROMPTS), max(length) + tokens), np.int32)
  rows = np.arange(len(texts))
  for text, prompt in zip(texts, PROMPTS, strict=True):
    text[: len(prompt)] = prompt
  for place in range(tokens):
    logits = np.asarray(pair().target.logits(texts))
    end = length + place
    texts[rows, end] = logits[rows, end - 1].argmax(axis=1)
  return [
    text[start:][:tokens].tolist()
    for text, start in zip(texts, length, strict=True)
  ]


ASKED = [
  "What does a fox eat?",
  "Which city is the capital of Spain?",
  "Tell me about a fox.",
]


@functools.cache
def bundled(kind="independent"):
  name = "eagle" if kind == "eagle" else "draft"
  return tv_jax.load(reading.BUNDLED / "target", reading.BUNDLED / name)
