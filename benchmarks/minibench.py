"""Acceptance and exact match on MiniBench: the bundled models' own tables.

    python -m benchmarks.minibench --seeds=0,1,2 --out=minibench.md
    python -m benchmarks.minibench --questions=python --template=raw

Every tree with every draft at temperature 1: the traversal runs, token-level
verification is evaluated on the same drafts. Both turns of a dialogue are
asked, the second after the model's own first answer. Errors are over questions,
their turns and seeds pooled: cycles of one answer are no independent draws.
Then, where the questions have references, exact match at temperature 0 and 1,
plain and speculative, with the first seed.
"""

import datetime
import os
import pathlib
import platform
import sys

import jax
import numpy as np
from absl import flags

import tv_jax
from tv_jax.edge import cli, disk, reading
from tv_jax.engine.estimates import Estimate
from tv_jax.models import templates
from tv_jax.runs import questions as questions_lib

_TREES = cli.define_names("trees", "chain:5 kary:2x5 eagle", "Trees.")
_DRAFTS = cli.define_names("drafts", "draft draft_weak eagle", "Folders.")
_DIRECTORY = flags.DEFINE_string(
  "directory", str(reading.BUNDLED), "Where target/ and the drafts are."
)
_QUESTIONS = flags.DEFINE_string("questions", "minibench", "What is asked.")
_TEMPLATE = flags.DEFINE_string("template", "chat", "How it becomes a prompt.")
_VERIFIER = flags.DEFINE_enum(
  "verifiers", "traversal", ["traversal", "token_level"], "The one that runs."
)
_TOKENS = flags.DEFINE_integer("tokens", 160, "New tokens at most.", 1)
_SEEDS = cli.define_names("seeds", "0", "Of all draws; pooled.")
_PER_TASK = flags.DEFINE_integer("per_task", 0, "Questions a task; 0: all.", 0)
_OUT = flags.DEFINE_string("out", None, "A file for the tables, an .md.")
flags.DEFINE_alias("markdown", "out")


class Run:
  """All questions answered, their turns and seeds pooled."""

  def __init__(self, pair, asked, seeds, **options):
    """Answers with one seed after another."""
    self.right, self.tasks, self.tokens = [], [], []
    self.accepted = [[] for _ in asked]
    self.expected = [{} for _ in asked]
    for seed in seeds:
      self.tokens += self._answer(pair, asked, seed, **options)

  def _answer(self, pair, asked, seed, **options):
    """Answers first turns, then second ones."""
    given = [[] for _ in asked]
    for turn in range(max(len(question.turns) for question in asked)):
      left = [i for i, one in enumerate(asked) if turn < len(one.turns)]
      texts = [questions_lib.conversation(asked[i], given[i]) for i in left]
      result = tv_jax.generate(
        pair,
        [
          templates.encode(_TEMPLATE.value, pair.tokenizer, text)
          for text in texts
        ],
        items=[1000 * turn + i for i in left],
        max_new_tokens=_TOKENS.value,
        seed=seed,
        **options,
      )
      for row, i in enumerate(left):
        given[i].append(result.text[row])
        self.accepted[i].append(result.accepted[row])
        for name, values in result.expected.items():
          self.expected[i].setdefault(name, []).append(values[row])
        if asked[i].references:
          reference = asked[i].references[turn][0]
          self.right.append(questions_lib.score(result.text[row], reference))
          self.tasks.append(asked[i].task)
    return given

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
          np.concatenate(own) - np.concatenate(expected[_VERIFIER.value])
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


def main(heard, arguments):
  """Prints the tables."""
  del heard
  cli.no_arguments(arguments)
  cli.check_place(_OUT, ".md")
  asked = questions_lib.load_questions(_QUESTIONS.value)
  if _PER_TASK.value:
    asked = questions_lib.limit(asked, per_task=_PER_TASK.value)
  folder = pathlib.Path(_DIRECTORY.value)
  seeds = cli.numbers(_SEEDS, int, least=0)
  lines = [
    f"`python -m benchmarks.minibench {' '.join(sys.argv[1:])}`".strip(),
    f"({datetime.date.today().isoformat()}, jax {jax.__version__} on"
    f" {jax.default_backend()}, {os.cpu_count()} cores, Python"
    f" {platform.python_version()}; {len(asked)} questions, temperature 1,"
    f" seeds {', '.join(map(str, seeds))}, {_VERIFIER.value} runs; by item,"
    " mean ± standard error over questions, ddof 1)",
    "",
    "| draft | tree | realised | token-level expects | traversal expects |"
    " gain, same drafts | in % | realised - expected, by cycle |",
    "|---|---|---|---|---|---|---|---|",
  ]
  say(lines)
  matches = {}
  for name in cli.split(_DRAFTS.value):
    kind = "eagle" if name == "eagle" else "llama"
    pair = tv_jax.load(folder / name, folder / "target", draft_kind=kind)
    for tree in cli.split(_TREES.value):
      rules = ["token_level", "traversal"]
      rules.remove(_VERIFIER.value)
      run = Run(
        pair, asked, seeds, tree=tree, verifier=_VERIFIER.value, panel=rules
      )
      gain = run.length("traversal", minus="token_level")
      least = run.length("token_level")
      row = (
        f"{run.realised:}",
        f"{least:}",
        f"{run.length('traversal'):}",
        f"{gain:+.3f}",
        f"{100 * gain.mean / least.mean:+.1f}",
        f"{run.check:+.3f}",
      )
      say(lines, f"| {name} | {tree} | " + " | ".join(row) + " |")
      matches[f"{_VERIFIER.value}, {name}, {tree}, T = 1"] = run.exact_match
  if asked[0].references:
    compare(name, pair, asked, seeds[:1], matches, lines)
  if _OUT.value:
    disk.write_atomic(_OUT.value, "\n".join(lines) + "\n")


def compare(name, pair, asked, seeds, matches, lines):
  """The table of exact match, the last draft's at temperature 0 among it."""
  plain = Run(pair, asked, seeds, verifier=None, temperature=0)
  greedy = Run(pair, asked, seeds, tree="eagle", temperature=0)
  matches["plain, T = 0"] = plain.exact_match
  matches[f"traversal, {name}, eagle, T = 0"] = greedy.exact_match
  sampled = Run(pair, asked, seeds, verifier=None)
  matches["plain, T = 1"] = sampled.exact_match
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


def say(lines, *more):
  """Prints lines, and keeps them."""
  lines += more
  print("\n".join(more or lines), flush=True)


if __name__ == "__main__":
  cli.run("benchmarks.minibench", main)
