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
from tv_jax import prompts, tasks
from tv_jax.generation import Estimate

_TREES = flags.DEFINE_string("trees", "chain:5 kary:2x5 eagle", "Trees.")
_DIRECTORY = flags.DEFINE_string(
  "directory", str(prompts.BUNDLED), "Where target/, draft/ and eagle/ are."
)
_TOKENS = flags.DEFINE_integer("tokens", 160, "New tokens at most.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Of all draws.", 0)
_SEEDS = flags.DEFINE_integer(
  "seeds", 5, "Times that each method answers at T = 1 for exact match.", 1
)
_PER_TASK = flags.DEFINE_integer("per_task", 0, "Questions a task; 0: all.", 0)
_MARKDOWN = flags.DEFINE_string("markdown", None, "A file for the tables.")


class Run:
  """All questions answered, their turns pooled."""

  def __init__(self, pair, asked, seed=None, **options):
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
        seed=_SEED.value if seed is None else seed,
        **options,
      )
      for row, i in enumerate(left):
        given[i].append(result.text[row])
        self.accepted[i].append(result.accepted[row])
        for name, values in result.expected.items():
          self.expected[i].setdefault(name, []).append(values[row])
        reference = asked[i].references[turn][0]
        self.right.append(tasks.score(result.text[row], reference))
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


def exact_match(runs: list[Run]) -> dict[str, Estimate]:
  """The share of right turns by task; all: the mean over turns.

  Errors are over turns, with the answers of several runs to one turn pooled.
  """
  right = np.mean([run.right for run in runs], axis=0)
  names = np.array(runs[0].tasks)
  shares = {
    task: Estimate.of(right[names == task]) for task in dict.fromkeys(names)
  }
  return shares | {"all": Estimate.of(right)}


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
  for kind, name in (("llama", "draft"), ("eagle", "eagle")):
    pair = tv_jax.load(folder / name, folder / "target", draft_kind=kind)
    for tree in _TREES.value.split():
      run = Run(pair, asked, tree=tree, panel=["token_level"])
      row = (
        f"{run.realised:}",
        f"{run.length('traversal'):}",
        f"{run.length('token_level'):}",
        f"{run.length('traversal', minus='token_level'):+}",
        f"{run.check:+}",
      )
      say(lines, f"| {kind} | {tree} | " + " | ".join(row) + " |")
  greedy = {"tree": "eagle", "panel": None, "temperature": 0}
  plain = Run(pair, asked, verifier=None, temperature=0)
  tree = Run(pair, asked, **greedy)
  matches = {
    "plain, T = 0": exact_match([plain]),
    "traversal on eagle, T = 0": exact_match([tree]),
  }
  for verifier in (None, "token_level", "traversal"):
    options = {"verifier": verifier, "tree": "eagle"}
    if verifier:
      options["panel"] = None
    runs = [
      Run(pair, asked, seed=_SEED.value + 1 + i, **options)
      for i in range(_SEEDS.value)
    ]
    label = f"{verifier} on eagle" if verifier else "plain"
    matches[f"{label}, T = 1"] = exact_match(runs)
  same = sum(a == b for a, b in zip(plain.tokens, tree.tokens, strict=True))
  names = [*matches["plain, T = 0"]]
  say(
    lines,
    "",
    f"Exact match in percent, EAGLE head, {len(plain.right)} turns, at T = 1"
    f" over {_SEEDS.value} seeds. At T = 0 plain and speculative answers are"
    f" the same text for {same} of {len(asked)} questions.",
    "",
    "| | " + " | ".join(names) + " |",
    "|---" * (len(names) + 1) + "|",
  )
  for label, shares in matches.items():
    row = " | ".join(
      f"{100 * shares[name].mean:.0f} ± {100 * shares[name].error:.0f}"
      for name in names
    )
    say(lines, f"| {label} | {row} |")
  if _MARKDOWN.value:
    pathlib.Path(_MARKDOWN.value).write_text("\n".join(lines) + "\n")


def say(lines, *more):
  """Prints lines, and keeps them."""
  lines += more
  print("\n".join(more or lines), flush=True)


if __name__ == "__main__":
  app.run(main)
