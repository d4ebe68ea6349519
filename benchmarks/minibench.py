"""Acceptance and exact match on MiniBench: the bundled pair's own table.

    python -m benchmarks.minibench --markdown=minibench.md

Every tree with both drafts at temperature 1: the traversal runs, token-level
verification is evaluated on the same drafts. Both turns of a dialogue are
asked, the second after the model's own first answer. Errors are over questions,
their turns pooled: cycles of one answer are no independent draws. Then exact
match at temperature 0 and 1, plain and speculative.
"""

import datetime
import os
import pathlib
import platform
import sys

import jax
import numpy as np
from absl import app, flags

import tv_jax
from tv_jax import prompts
from tv_jax.metrics import Estimate

_TREES = flags.DEFINE_string("trees", "chain:5 kary:2x5 eagle", "Trees.")
_DIRECTORY = flags.DEFINE_string(
  "directory", str(prompts.BUNDLED), "Where target/, draft/ and eagle/ are."
)
_TOKENS = flags.DEFINE_integer("tokens", 160, "New tokens at most.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Of all draws.", 0)
_PER_TASK = flags.DEFINE_integer("per_task", 0, "Questions a task; 0: all.", 0)
_MARKDOWN = flags.DEFINE_string("markdown", None, "A file for the tables.")


class Run:
  """All questions answered, their turns pooled."""

  def __init__(self, pair, asked, **options):
    """Answers first turns, then second ones."""
    given = [[] for _ in asked]
    self.right, self.tasks = [], []
    self.accepted = [[] for _ in asked]
    self.expected = [{} for _ in asked]
    for turn in range(max(len(question.turns) for question in asked)):
      left = [i for i, one in enumerate(asked) if turn < len(one.turns)]
      texts = [prompts.conversation(asked[i], given[i]) for i in left]
      result = tv_jax.generate(
        pair,
        [prompts.encode("chat", pair.tokenizer, text) for text in texts],
        items=[1000 * turn + i for i in left],
        max_new_tokens=_TOKENS.value,
        seed=_SEED.value,
        **options,
      )
      for row, i in enumerate(left):
        given[i].append(result.text[row])
        self.accepted[i].append(result.accepted[row])
        for name, values in result.expected.items():
          self.expected[i].setdefault(name, []).append(values[row])
        reference = asked[i].references[turn][0]
        self.right.append(prompts.score(result.text[row], reference))
        self.tasks.append(asked[i].task)
    self.tokens = given

  def length(self, name: str, minus: str | None = None) -> Estimate:
    """Tokens a cycle that a verifier expects, by item; less another's."""
    means = [
      [np.concatenate(own[key]).mean() for key in (name, minus) if key]
      for own in self.expected
    ]
    return Estimate.of([own[0] - sum(own[1:]) for own in means])

  @property
  def realised(self) -> Estimate:
    """Tokens gained a cycle, by item."""
    return Estimate.of([np.concatenate(own).mean() for own in self.accepted])

  @property
  def check(self) -> Estimate:
    """Realised minus expected, by cycle.

    By item it would not be 0: an answer that is lucky takes fewer cycles.
    """
    return Estimate.of(
      np.concatenate(
        [
          np.concatenate(own) - np.concatenate(expected["traversal"])
          for own, expected in zip(self.accepted, self.expected, strict=True)
        ]
      )
    )

  @property
  def exact_match(self) -> dict[str, float]:
    """The share of right turns by task, and the mean over tasks."""
    shares = {
      task: float(
        np.mean(
          [r for r, t in zip(self.right, self.tasks, strict=True) if t == task]
        )
      )
      for task in dict.fromkeys(self.tasks)
    }
    return shares | {"all": float(np.mean([*shares.values()]))}


def main(argv):
  """Prints the tables."""
  if argv[1:]:
    sys.exit(f"minibench: unexpected argument {argv[1]!r}")
  asked = prompts.load_questions("minibench")
  if _PER_TASK.value:
    asked = prompts.limit(asked, per_task=_PER_TASK.value)
  folder = pathlib.Path(_DIRECTORY.value)
  lines = [
    f"`python -m benchmarks.minibench {' '.join(sys.argv[1:])}`".strip(),
    f"({datetime.date.today().isoformat()}, jax {jax.__version__} on"
    f" {jax.default_backend()}, {os.cpu_count()} cores, Python"
    f" {platform.python_version()}; {len(asked)} questions, temperature 1,"
    " by item, mean ± standard error over questions, ddof 1)",
    "",
    "| draft | tree | traversal | expected | token-level's, same drafts |"
    " gain |"
    " realised - expected, by cycle |",
    "|---|---|---|---|---|---|---|",
  ]
  say(lines)
  matches = {}
  for kind, name in (("llama", "draft"), ("eagle", "eagle")):
    pair = tv_jax.load(folder / name, folder / "target", draft_kind=kind)
    for tree in _TREES.value.split():
      run = Run(pair, asked, tree=tree, panel=["token_level"])
      row = (
        f"{run.realised:}",
        f"{run.length('traversal'):}",
        f"{run.length('token_level'):}",
        f"{run.length('traversal', minus='token_level'):+.3f}",
        f"{run.check:+.3f}",
      )
      say(lines, f"| {kind} | {tree} | " + " | ".join(row) + " |")
      matches[f"traversal, {kind}, {tree}, T = 1"] = run.exact_match
  options = {"tree": "eagle", "panel": None}
  plain = Run(pair, asked, verifier=None, temperature=0)
  greedy = Run(pair, asked, temperature=0, **options)
  matches["plain, T = 0"] = plain.exact_match
  matches["traversal, eagle, T = 0"] = greedy.exact_match
  matches["plain, T = 1"] = Run(pair, asked, verifier=None).exact_match
  matches["token-level, eagle, eagle, T = 1"] = Run(
    pair, asked, verifier="token_level", **options
  ).exact_match
  same = sum(a == b for a, b in zip(plain.tokens, greedy.tokens, strict=True))
  names = [*matches["plain, T = 0"]]
  say(
    lines,
    "",
    f"Exact match ({len(plain.right)} turns; at T = 0 plain and speculative"
    f" answers are the same text for {same} of {len(asked)} questions):",
    "",
    "| | " + " | ".join(names) + " |",
    "|---" * (len(names) + 1) + "|",
  )
  for label, shares in matches.items():
    row = " | ".join(f"{shares[name]:.0%}" for name in names)
    say(lines, f"| {label} | {row} |")
  if _MARKDOWN.value:
    pathlib.Path(_MARKDOWN.value).write_text("\n".join(lines) + "\n")


def say(lines, *more):
  """Prints lines, and keeps them."""
  lines += more
  print("\n".join(more or lines), flush=True)


if __name__ == "__main__":
  app.run(main)
