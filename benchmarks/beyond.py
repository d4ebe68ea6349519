"""How much further than the paper: rules and trees at equal nodes and depth.

    python -m benchmarks.beyond
    python -m benchmarks.beyond --draft=draft_weak --seeds=0,1,2

Of each task of MiniBench every other question is for `tv_jax.tune`, which finds
the best tree of each number of nodes for each rule; the others are asked, with
the paper's rule on its tree of as many nodes, with the trees that were found,
and with `ot_traversal` on both. All at temperature 1 and without replacement.

Lengths are what the running rule expects of each cycle, no coin tossed, by
item. Differences are of questions, each asked in every way: what they have in
common drops out, but drafts are not the same.
"""

import datetime
import os
import platform
import sys

import jax
import numpy as np
from absl import flags

import tv_jax
from tv_jax.edge import cli, reading
from tv_jax.engine.estimates import Estimate
from tv_jax.models import templates
from tv_jax.runs import questions as questions_lib

_DRAFT = flags.DEFINE_string("draft", "draft", "Of the bundled folder.")
_TREES = cli.define_names(
  "trees", "eagle kary:2x5", "The paper's; for each, trees of as many nodes."
)
_VERIFIERS = cli.define_names("verifiers", "traversal ot_traversal", "Rules.")
flags.DEFINE_alias("rules", "verifiers")
_TOKENS = flags.DEFINE_integer("tokens", 160, "New tokens at most.", 1)
_TUNED_ON = flags.DEFINE_integer("tuned_on", 32, "The same, to tune on.", 1)
_SEEDS = cli.define_names("seeds", "0", "Of all draws; pooled.")
_PER_TASK = flags.DEFINE_integer("per_task", 0, "Questions a task; 0: all.", 0)


def halves(questions):
  """Every other question of each task, and the others."""
  tasks = {}
  for question in questions:
    tasks.setdefault(question.task, []).append(question)
  first = [q for own in tasks.values() for q in own[::2]]
  return first, [q for own in tasks.values() for q in own[1::2]]


def encoded(pair, questions):
  """Their first turns as tokens."""
  texts = [questions_lib.conversation(question, []) for question in questions]
  return [templates.encode("chat", pair.tokenizer, text) for text in texts]


def lengths(pair, asked, rule, tree, seeds, tokens):
  """[questions] what is expected of a cycle; realised less that, by cycle."""
  expected, excess = [[] for _ in asked], []
  for seed in seeds:
    run = tv_jax.generate(
      pair,
      asked,
      verifier=rule,
      tree=tree,
      panel=[rule],
      seed=seed,
      max_new_tokens=tokens,
      progress=False,
    )
    for own, more in zip(expected, run.expected[rule], strict=True):
      own.append(more)
    excess += [
      got - own
      for got, own in zip(run.accepted, run.expected[rule], strict=True)
    ]
  items = np.repeat(
    np.arange(len(excess)) % len(asked), [len(own) for own in excess]
  )
  by_item = np.array([np.concatenate(own).mean() for own in expected])
  return by_item, Estimate.clustered(np.concatenate(excess), items)


def report(draft, trees, rules, seeds, *, tokens, tuned_on, per_task) -> None:
  """Tunes, asks, and prints the table."""
  folder = reading.BUNDLED
  pair = tv_jax.load(folder / draft, folder / "target")
  questions = questions_lib.load_questions("minibench")
  if per_task:
    questions = questions_lib.limit(questions, per_task=per_task)
  tuning, asked = (encoded(pair, half) for half in halves(questions))
  named = {name: tv_jax.tree.parse(name) for name in trees}
  print(
    f"`python -m benchmarks.beyond {' '.join(sys.argv[1:])}`".strip()
    + f" ({datetime.date.today().isoformat()}, jax {jax.__version__} on"
    f" {jax.default_backend()}, {os.cpu_count()} cores, Python"
    f" {platform.python_version()}; {len(tuning)} questions tuned on,"
    f" {len(asked)} others asked, seeds {', '.join(map(str, seeds))})\n"
  )
  head = "nodes", "rule", "tree", "by depth", "tokens a cycle"
  head += "more than the first, %", "realised - expected"
  print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
  found = {
    (rule, name): tv_jax.tune(
      pair,
      tuning,
      nodes=len(tree) - 1,
      depth=tree.max_depth,
      verifier=rule,
      budgets=(),
      trees=[],
      speed=False,
      max_new_tokens=tuned_on,
    ).tree
    for rule in rules
    for name, tree in named.items()
  }
  for name, tree in named.items():
    base = None
    for rule in rules:
      for label, own in ((name, tree), ("tuned", found[rule, name])):
        by_item, check = lengths(pair, asked, rule, own, seeds, tokens)
        base = by_item if base is None else base
        more = Estimate.of(100 * (by_item - base) / base.mean())
        levels = " ".join(str(len(level)) for level in own.levels[1:])
        print(
          f"| {len(own) - 1} | {rule} | {label} | {levels} |"
          f" {Estimate.of(by_item):.3f} |"
          f" {'-' if by_item is base else f'{more:+.2f}'} | {check:+.3f} |",
          flush=True,
        )


def main(heard, arguments):
  """Reads the flags and runs."""
  del heard
  cli.no_arguments(arguments)
  report(
    _DRAFT.value,
    cli.split(_TREES.value),
    cli.split(_VERIFIERS.value),
    cli.numbers(_SEEDS, int, least=0),
    tokens=_TOKENS.value,
    tuned_on=_TUNED_ON.value,
    per_task=_PER_TASK.value,
  )


if __name__ == "__main__":
  cli.run("benchmarks.beyond", main)
