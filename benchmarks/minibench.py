"""Acceptance lengths on MiniBench: the bundled models' own tables.

    python -m benchmarks.minibench --seeds=0,1,2 --out=minibench.md
    python -m benchmarks.minibench --questions=python --template=raw

Every tree with every draft at temperature 1: the traversal runs, token-level
verification is evaluated on the same drafts. Both turns of a dialogue are
asked, the second after the model's own first answer. Errors are over questions,
their turns and seeds pooled: cycles of one answer are no independent draws.
"""

import argparse
import pathlib

import numpy as np

import tv_jax
from benchmarks import common
from tv_jax.edge import names, reading
from tv_jax.engine.estimates import Estimate
from tv_jax.models import templates
from tv_jax.runs import questions as questions_lib

RULES = "traversal", "token_level"
HEADER = ["draft", "tree", "realised", "token-level expects"]
HEADER += ["traversal expects", "gain, same drafts", "in %"]
HEADER += ["realised - expected, by cycle"]


def answer(pair, asked, seed, given, tree) -> list[dict]:
  """By question: arrays of cycles, one a turn, by rule and as realised."""
  found = [{key: [] for key in (*RULES, "realised")} for _ in asked]
  answers = [[] for _ in asked]
  panel = [rule for rule in RULES if rule != given.verifiers]
  for turn in range(max(len(question.turns) for question in asked)):
    left = [i for i, one in enumerate(asked) if turn < len(one.turns)]
    texts = [questions_lib.conversation(asked[i], answers[i]) for i in left]
    result = tv_jax.generate(
      pair,
      [
        templates.encode(given.template, pair.tokenizer, text) for text in texts
      ],
      items=[1000 * turn + i for i in left],
      max_new_tokens=given.tokens,
      seed=seed,
      tree=tree,
      verifier=given.verifiers,
      panel=panel,
    )
    lengths = result.expected | {"realised": result.accepted}
    for row, i in enumerate(left):
      answers[i].append(result.text[row])
      for key, own in found[i].items():
        own.append(lengths[key][row])
  return found


def line(pair, asked, given, tree) -> list[str]:
  """All questions answered with all seeds: the cells after draft and tree."""
  runs = [answer(pair, asked, seed, given, tree) for seed in given.seeds]
  cycles = [
    {
      key: np.concatenate([x for one in own for x in one[key]])
      for key in own[0]
    }
    for own in zip(*runs, strict=True)
  ]
  mean = {
    key: np.array([own[key].mean() for own in cycles]) for key in cycles[0]
  }
  least = Estimate.of(mean["token_level"])
  gain = Estimate.of(mean["traversal"] - mean["token_level"])
  # By question it would not be 0: a lucky answer takes fewer cycles.
  check = [own["realised"] - own[given.verifiers] for own in cycles]
  return [
    f"{Estimate.of(mean['realised']):}",
    f"{least:}",
    f"{Estimate.of(mean['traversal']):}",
    f"{gain:+.3f}",
    f"{100 * gain.mean / least.mean:+.1f}",
    f"{Estimate.of(np.concatenate(check)):+.3f}",
  ]


def parse(arguments: list[str]) -> argparse.Namespace:
  """The command line."""
  parser = common.Parser("minibench", __doc__)
  parser.add_argument("--trees", default="chain:5 kary:2x5 eagle")
  parser.add_argument("--drafts", default="draft draft_weak eagle")
  parser.add_argument("--directory", default=reading.BUNDLED, type=pathlib.Path)
  parser.add_argument("--questions", default="minibench")
  parser.add_argument("--template", default="chat")
  parser.add_argument("--verifiers", default=RULES[0], choices=RULES)
  parser.add_argument("--tokens", type=common.at_least(1), default=160)
  parser.add_argument("--seeds", default="0")
  parser.add_argument("--per_task", type=common.at_least(0), default=0)
  parser.add_argument("--out", "--markdown", help="an .md for the table")
  given = parser.parse_args(arguments)
  try:
    given.seeds = [*map(common.at_least(0), names.split(given.seeds))]
  except (ValueError, argparse.ArgumentTypeError):
    parser.error(f"--seeds={given.seeds}: give whole numbers of 0 or more")
  return given


def main(arguments: list[str]) -> None:
  """Prints the table."""
  given = parse(arguments)
  common.check_out(given.out)
  trees = common.parse_trees(given.trees, tv_jax.tree.parse)
  asked = questions_lib.load_questions(given.questions)
  if given.per_task:
    asked = questions_lib.limit(asked, per_task=given.per_task)
  parts = common.setting("minibench", arguments)
  rows = []
  for name in names.split(given.drafts):
    kind = "eagle" if name == "eagle" else "independent"
    pair = tv_jax.load(
      given.directory / name, given.directory / "target", draft_kind=kind
    )
    for tree in trees:
      rows.append([name, tree, *line(pair, asked, given, tree)])
      common.say(" | ".join(rows[-1]))
  title = f"{len(asked)} questions, temperature 1, {given.verifiers} runs"
  parts.append(common.Table(title=title, header=HEADER, rows=rows).show())
  common.write(given.out, parts)


if __name__ == "__main__":
  common.run("minibench", main)
