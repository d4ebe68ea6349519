"""Is a run as long as its score says? Chains of each depth, by both rules.

    python -m benchmarks.score_and_run --draft=drafts/eagle --kind=eagle \
      --target=bundled/target --text=runs/distill/bundled-target

Prompts of the held-out text are continued, and what each run wrote is scored:
so both are of the same text, and only the coins of drafting and verification
differ. Compared are the cycles of each answer; errors are over answers.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np

import tv_jax
from benchmarks import common
from tv_jax import distill
from tv_jax.distill import scoring
from tv_jax.distill.chances import RULES
from tv_jax.engine.estimates import Estimate

HEADER = ["rule", "depth", "run: tokens a cycle", "score: tokens a cycle"]
HEADER += ["expected length", "cycles of an answer: run - score"]


def line(pair, prompts, rule: str, depth: int, given) -> list[str]:
  """Continues all prompts, scores what was written, and compares the two."""
  found = tv_jax.generate(
    pair,
    prompts,
    tree=f"chain:{depth}",
    verifier=rule,
    max_new_tokens=given.tokens,
    seed=given.seed,
    batch_size=given.rows,
    progress=False,
  )
  text = [
    distill.Conversation(prompt=tuple(prompt), answer=tuple(map(int, answer)))
    for prompt, answer in zip(prompts, found.tokens, strict=True)
  ]
  scores = distill.score(pair, text, depth=depth, rows=given.rows)
  expected = scores.cycles[rule][-1]
  cycles = np.array([len(own) for own in found.accepted])
  tokens = sum(len(own.answer) for own in text)
  return [
    rule,
    str(depth),
    f"{tokens / cycles.sum():.3f}",
    f"{tokens / expected.sum():.3f}",
    f"{scores.lengths[rule][-1]}",
    f"{Estimate.of(cycles - expected):+.3f}",
  ]


def parse(arguments: list[str]) -> argparse.Namespace:
  """Reads the command line."""
  parser = common.Parser("score_and_run", __doc__)
  parser.add_argument("--draft", required=True)
  parser.add_argument("--kind", default="independent")
  parser.add_argument("--target", required=True)
  parser.add_argument("--text", required=True, type=pathlib.Path)
  parser.add_argument("--conversations", type=common.at_least(2), default=48)
  parser.add_argument("--depth", type=common.at_least(1))
  parser.add_argument("--tokens", type=common.at_least(1), default=64)
  parser.add_argument("--rows", type=common.at_least(1), default=8)
  parser.add_argument("--seed", type=common.at_least(0), default=0)
  parser.add_argument("--out", "--markdown", help="an .md for the table")
  return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
  """Prints the table."""
  given = parse(arguments)
  common.check_out(given.out)
  pair = tv_jax.load(given.draft, given.target, draft_kind=given.kind)
  deepest = scoring.chain_depth(pair, given.depth)
  held = distill.read(given.text)[: given.conversations]
  prompts = [list(one.prompt) for one in held]
  parts = common.setting("score_and_run", arguments)
  rows = []
  for rule in RULES:
    for depth in range(1, deepest + 1):
      rows.append(line(pair, prompts, rule, depth, given))
      common.say(" | ".join(rows[-1]))
  title = f"{len(prompts)} answers of at most {given.tokens} tokens, T = 1"
  parts.append(common.Table(title=title, header=HEADER, rows=rows).show())
  common.write(given.out, parts)


if __name__ == "__main__":
  common.run("score_and_run", main)
