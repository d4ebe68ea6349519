"""Times decoding: plain and speculative, by tree, verifier and batch size.

  python -m benchmarks.decode --draft=DIR --target=DIR
  python -m benchmarks.decode --draft=HEAD --target=DIR --draft_kind=eagle

Checkpoints are in Hugging Face's layout; without any, random weights of a
small shape are timed, and nothing is to be learned about acceptance.

Protocol. Every method is compiled and run once before a clock starts. Then all
methods take turns, in a new random order in each round, on the same prompts; a
round has prompts and draws of its own. Ends are ignored, so that each row
yields as many tokens as the others. Tokens per second are the median of the
rounds, with the prompt's reading and without compilation; the ratio to plain
decoding is taken within each round. Nothing is computed but what decoding needs
(panel=None); the check, mean(realised - expected) acceptance length, comes from
a run apart of the same cycles, and is 0 within its error. Only ratios travel
from one machine to another.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys

import numpy as np
from absl import flags

import tv_jax
from benchmarks import common
from tv_jax import names
from tv_jax import tree as tree_lib
from tv_jax.metrics import Estimate
from tv_jax.verifiers import VERIFIERS

FLAGS = flags.FlagValues()
_string = functools.partial(flags.DEFINE_string, flag_values=FLAGS)
_list = functools.partial(flags.DEFINE_list, flag_values=FLAGS)
_integer = functools.partial(flags.DEFINE_integer, flag_values=FLAGS)
_DRAFT = _string("draft", None, "The draft: a directory or a repository.")
_TARGET = _string("target", None, "The target.")
_KIND = _string("draft_kind", "independent", "independent or eagle.")
_TREES = _string("trees", "chain:5,kary:2x5,eagle", "As tree.parse reads them.")
_VERIFIERS = _list("verifiers", ["token_level", "traversal"], "Rules by name.")
_PROPOSAL = _string(
  "proposal", "without_replacement", "How siblings are drawn."
)
_BATCHES = _list("batches", ["1", "4", "16"], "Rows decoded together.")
_TEMPERATURE = flags.DEFINE_float(
  "temperature", 1.0, "0 is greedy.", flag_values=FLAGS
)
_TOKENS = _integer("tokens", 128, "New tokens of each row.", 1)
_ROUNDS = _integer("rounds", 7, "How often each method has its turn.", 1)
_PROMPTS = _string(
  "prompts", None, "JSON lines as Spec-Bench's, or text lines."
)
_TEMPLATE = _string("template", "raw", "raw, chat or vicuna.")
_SEED = _integer("seed", 0, "Of the draws and the orders.", 0)
_MARKDOWN = _string("markdown", None, "A file to write the tables to.")
_PROFILE = flags.DEFINE_boolean(
  "profile", False, "Show where a cycle's time goes as well.", flag_values=FLAGS
)

PLAIN = "plain"
HEADER = [
  "",
  "tokens/s",
  "over plain (quartiles)",
  "tokens a cycle",
  "realised - expected",
  "compile s",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
  """What is to be measured."""

  pair: tv_jax.Pair
  prompts: list[list[int]]
  methods: dict[str, dict]  # options of `generate` by name, plain first
  batches: list[int]
  rounds: int
  seed: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
  """Of one method at one batch size."""

  speeds: np.ndarray  # [rounds] tokens per second
  accepted: Estimate | None
  check: Estimate | None
  compile_seconds: float


def parse_trees(text: str) -> list[str]:
  """Trees as `tree.parse` reads them; "branching:4,2" holds a comma."""
  names = re.split(r",(?!\d)", text.strip())
  try:
    for name in names:
      tree_lib.parse(name)
  except ValueError as error:
    raise ValueError(f"--trees: {error}") from error
  return names


def methods_of(trees: list[str], rules: list[str], shared: dict) -> dict:
  """Options by name; rules for chains alone are left out elsewhere."""
  methods = {PLAIN: shared | {"verifier": None}}
  for tree in trees:
    for rule in rules:
      verifier = names.lookup(VERIFIERS, rule, "--verifiers")
      if tree_lib.parse(tree).is_chain or not verifier.chains_only:
        methods[f"{tree} {rule}"] = shared | {"tree": tree, "verifier": rule}
  if len(methods) == 1:
    raise ValueError("nothing to compare: these rules are for chains alone")
  return methods


def measure(work: Work, rows: int) -> dict[str, Measured]:
  """All methods at one batch size."""

  def run(options, turn, count=rows, panel=None):
    prompts, items = common.rows_of(work.prompts, count, turn)
    return tv_jax.generate(
      work.pair, prompts, items=items, batch_size=rows, panel=panel, **options
    )

  compiling, checks = {}, dict.fromkeys(work.methods)
  for name, options in work.methods.items():
    common.say(f"compiling and checking {name}, {rows} at a time")
    compiling[name] = run(options, 0).compile_seconds
    if name != PLAIN:  # its own expected lengths would slow down what is timed
      checks[name] = run(options, 0, rows * work.rounds, ()).check
  timed = common.race(
    {
      name: functools.partial(run, options)
      for name, options in work.methods.items()
    },
    work.rounds,
    work.seed,
    common.say,
  )
  return {
    name: Measured(
      speeds=np.array([run.tokens_per_second for run in runs]),
      accepted=_accepted(runs) if name != PLAIN else None,
      check=checks[name],
      compile_seconds=compiling[name],
    )
    for name, runs in timed.items()
  }


def _accepted(runs) -> Estimate:
  return Estimate.of(np.concatenate([np.concatenate(r.accepted) for r in runs]))


def table(title: str, of: dict[str, Measured]) -> common.Table:
  """A batch size as a table."""
  plain = of[PLAIN].speeds
  return common.Table(
    title=title,
    header=HEADER,
    rows=[
      [
        name,
        f"{np.median(own.speeds):.0f}",
        "1" if name == PLAIN else common.spread(own.speeds / plain),
        f"{own.accepted}" if own.accepted else "1",
        f"{own.check:+.3f}" if own.check else "-",
        f"{own.compile_seconds:.1f}",
      ]
      for name, own in of.items()
    ],
  )


def profiles(work: Work, rows: int) -> list[str]:
  """Where a cycle's time goes, of each method."""
  parts = []
  for name, options in work.methods.items():
    common.say(f"profiling {name}, {rows} at a time")
    prompts, items = common.rows_of(work.prompts, rows, 0)
    found = tv_jax.profile(
      work.pair, prompts, items=items, batch_size=rows, panel=None, **options
    )
    parts.append(f"```\n{name}, {rows} at a time: {found!r}\n```")
    print(f"\n{parts[-1]}", flush=True)
  return parts


def _work() -> Work:
  """What the flags ask for; refuses what can't be done."""
  common.check_markdown(_MARKDOWN.value)
  rows = common.numbers("batches", _BATCHES.value, int, 1)
  trees = parse_trees(_TREES.value)
  shared = {
    "temperature": _TEMPERATURE.value,
    "proposal": _PROPOSAL.value,
    "max_new_tokens": _TOKENS.value,
    "seed": _SEED.value,
    "ends": (),
  }
  methods = methods_of(trees, _VERIFIERS.value, shared)
  pair = common.load(_DRAFT.value, _TARGET.value, _KIND.value)
  prompts = common.read_prompts(_PROMPTS.value, pair, _TEMPLATE.value)
  for options in methods.values():
    common.check(pair, prompts, options)
  return Work(
    pair=pair,
    prompts=prompts,
    methods=methods,
    batches=rows,
    rounds=_ROUNDS.value,
    seed=_SEED.value,
  )


def main(arguments: list[str]) -> None:
  """Reads the flags and runs."""
  common.read_flags(FLAGS, arguments, __doc__)
  try:
    work = _work()
  except ValueError as error:
    sys.exit(f"{error}")
  lines = common.setting("benchmarks.decode", arguments[1:])
  lines.append(common.describe(work.pair, _TARGET.value is None))
  print("\n".join(lines))
  parts = []
  for rows in work.batches:
    title = f"{rows} at a time, temperature {_TEMPERATURE.value:g}"
    found = table(title, measure(work, rows))
    found.show()
    parts.append(found.markdown())
  if _PROFILE.value:
    parts += profiles(work, min(work.batches))
  common.write_markdown(_MARKDOWN.value, "Decoding", lines, parts)


if __name__ == "__main__":
  main(sys.argv)
