"""Quantised weights as stored against the same weights as arrays.

    python -m benchmarks.quantised --target=.. --draft=..

The greedy answers of the stored weights are the text. Of both forms, on this
text: the target's logits, the greedy answers, and the lengths of chains, greedy
and expected at temperature 1 (`tv_jax.distill.score`).
"""

import argparse
import gc
from typing import Any, NamedTuple

import numpy as np

import tv_jax
from benchmarks import common
from tv_jax import distill
from tv_jax.io.reading import path_of
from tv_jax.models import Model, templates
from tv_jax.models.loading import DEQUANTISED, STORED
from tv_jax.runs import questions


class Found(NamedTuple):
  """What one form of the weights gave; no models, which would fill memory."""

  tokens: list[list[int]]  # greedy answers
  gained: list[np.ndarray]  # tokens of their cycles
  greedy: Any  # mean of these
  scores: distill.Scores
  laws: list[np.ndarray]  # logits of each answer


def logits(target: Model, x: distill.Conversation) -> np.ndarray:
  """Returns the logits [answer, V] of an answer's tokens."""
  tokens = np.array([x.tokens[:-1]])
  return np.asarray(target.logits(tokens)[0, len(x.prompt) - 1 :])


def same(a: list[int], b: list[int]) -> int:
  """Returns how many first tokens of two answers are the same."""
  differ = [i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
  return differ[0] if differ else min(len(a), len(b))


def main() -> None:
  """Reads the flags and runs."""
  parser = argparse.ArgumentParser("benchmarks.quantised")
  parser.add_argument("--target", required=True, help="a GGUF file")
  parser.add_argument("--draft", required=True, help="a GGUF file")
  parser.add_argument("--prompts", default="minibench", help="questions")
  parser.add_argument("--template", default="chat")
  parser.add_argument("--questions", type=int, default=6)
  parser.add_argument("--tokens", type=int, default=64, help="of an answer")
  parser.add_argument("--depth", type=int, default=5, help="of chains")
  flags = parser.parse_args()
  asked = questions.load_questions(flags.prompts)
  asked = [
    asked[i] for i in np.linspace(0, len(asked) - 1, flags.questions, dtype=int)
  ]
  common.setting("quantised")
  text, found = [], {}
  for form in (STORED, DEQUANTISED):
    common.say(f"weights={form}")
    pair = tv_jax.load(
      path_of(flags.target), path_of(flags.draft), weights=form
    )
    assert pair.target.is_quantised == (form == STORED)
    prompts = [
      templates.encode(flags.template, pair.tokenizer, x.turns[:1])
      for x in asked
    ]
    greedy = tv_jax.generate(
      pair,
      prompts,
      tree=f"chain:{flags.depth}",
      temperature=0.0,
      max_new_tokens=flags.tokens,
      batch_size=1,
      progress=False,
    )
    if not text:
      text = [
        distill.Conversation(prompt=tuple(x), answer=tuple(map(int, y)))
        for x, y in zip(prompts, greedy.tokens, strict=True)
      ]
    scores = distill.score(pair, text, depth=flags.depth)
    laws = [logits(pair.target, x) for x in text]
    length = greedy.acceptance_length
    found[form] = Found(greedy.tokens, greedy.gained, length, scores, laws)
    del pair, greedy
    gc.collect()
  ours, theirs = both = found[STORED], found[DEQUANTISED]
  rows = []
  for i, x in enumerate(asked):
    a, b = ours.laws[i], theirs.laws[i]
    error = np.max(np.abs(a - b)) / np.max(np.abs(b))
    top = np.mean(a.argmax(-1) == b.argmax(-1))
    first = same(ours.tokens[i], theirs.tokens[i])
    lengths = [f"{np.mean(y.gained[i]):.3f}" for y in both]
    rows.append(
      [x.task, f"{len(a)}", f"{error:.1e}", f"{top:.1%}", f"{first}", *lengths]
    )
  header = [
    *("question of", "tokens", "logits differ by", "same most likely token"),
    "same greedy tokens",
    *(f"greedy length, {form}" for form in (STORED, DEQUANTISED)),
  ]
  common.show("Logits and greedy answers", header, rows)
  rows = [
    [rule, *(f"{x.scores.lengths[rule][-1]}" for x in both)]
    for rule in ours.scores.lengths
  ]
  rows.append(["greedy", *(f"{x.greedy}" for x in both)])
  common.show(
    f"Tokens of a cycle, chains of {flags.depth}",
    ["rule", STORED, DEQUANTISED],
    rows,
  )


if __name__ == "__main__":
  main()
