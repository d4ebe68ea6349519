"""Times decoding: plain and speculative, by tree, verifier and batch size.

  python -m benchmarks.decode --draft=DIR --target=DIR
  python -m benchmarks.decode --draft=HEAD --target=DIR --draft_kinds=eagle

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

import functools
import sys

import numpy as np
from absl import flags

import tv_jax
from benchmarks import common
from tv_jax import proposals
from tv_jax.edge import cli, names
from tv_jax.engine.estimates import Estimate
from tv_jax.verifiers import VERIFIERS, misfit

FLAGS = common.flags_of_pairs()
flags.DEFINE_string(
  "draft_kinds", "independent", "One: independent or eagle.", FLAGS
)
cli.define_names(
  "proposals", "without_replacement", "How siblings are drawn: one way.", FLAGS
)
cli.define_names("verifiers", "token_level traversal", "Rules by name.", FLAGS)
cli.define_names("batches", "1 4 16", "Rows decoded together.", FLAGS)
flags.DEFINE_float("temperatures", 1.0, "One; 0 is greedy.", flag_values=FLAGS)
flags.DEFINE_boolean(
  "profile", False, "Show where a cycle's time goes as well.", FLAGS
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


def methods_of(trees: dict, rules: list[str], shared: dict) -> dict:
  """Options of `generate` by name, plain first.

  Rules are left out where they are not defined.
  """
  proposal = proposals.resolve(shared["proposal"])
  methods = {PLAIN: shared | {"verifier": None}}
  for name, tree in trees.items():
    for rule in rules:
      verifier = names.lookup(VERIFIERS, rule, "--verifiers")
      if not misfit(verifier, tree, proposal):
        methods[f"{name} {rule}"] = shared | {"tree": name, "verifier": rule}
  if len(methods) == 1:
    raise ValueError("nothing to compare: no rule is defined on these trees")
  return methods


def measure(pair, prompts, methods: dict[str, dict], rows: int) -> common.Table:
  """All methods at one batch size."""

  def run(options, turn, count=rows, panel=None):
    own, items = common.rows_of(prompts, count, turn)
    return tv_jax.generate(
      pair, own, items=items, batch_size=rows, panel=panel, **options
    )

  compiling, checks = {}, {}
  for name, options in methods.items():
    common.say(f"compiling and checking {name}, {rows} at a time")
    compiling[name] = run(options, 0).compile_seconds
    if name != PLAIN:  # its own expected lengths would slow down what is timed
      checks[name] = run(options, 0, rows * FLAGS.rounds, ()).check
  bound = {name: functools.partial(run, own) for name, own in methods.items()}
  timed = common.race(bound, FLAGS.rounds, FLAGS.seed, common.say)
  speeds = {
    name: np.array([run.tokens_per_second for run in runs])
    for name, runs in timed.items()
  }
  lines = []
  for name, runs in timed.items():
    ratio, length, check = "1", "1", "-"
    if name != PLAIN:
      ratio = common.spread(speeds[name] / speeds[PLAIN])
      gained = [own for run in runs for own in run.accepted]
      length = f"{Estimate.of(np.concatenate(gained))}"
      check = f"{checks[name]:+.3f}"
    speed, compiled = np.median(speeds[name]), compiling[name]
    lines.append(
      [name, f"{speed:.0f}", ratio, length, check, f"{compiled:.1f}"]
    )
  return common.Table(
    title=f"{rows} at a time, temperature {FLAGS.temperatures:g}",
    header=HEADER,
    rows=lines,
  )


def profiles(pair, prompts, methods: dict[str, dict], rows: int) -> list[str]:
  """Where a cycle's time goes, of each method."""
  parts = []
  for name, options in methods.items():
    common.say(f"profiling {name}, {rows} at a time")
    own, items = common.rows_of(prompts, rows, 0)
    found = tv_jax.profile(
      pair, own, items=items, batch_size=rows, panel=None, **options
    )
    parts.append(f"```\n{name}, {rows} at a time: {found!r}\n```")
    print(f"\n{parts[-1]}", flush=True)
  return parts


def _work() -> tuple:
  """Pair, prompts, methods, batches; refuses what can't be done."""
  batches = cli.numbers(FLAGS["batches"], int, least=1)
  shared = {
    "temperature": FLAGS.temperatures,
    "proposal": cli.only(FLAGS["proposals"]),
    "max_new_tokens": FLAGS.tokens,
    "seed": FLAGS.seed,
    "ends": (),
  }
  trees = common.parse_trees(" ".join(FLAGS.trees))
  methods = methods_of(trees, cli.split(FLAGS.verifiers), shared)
  pair, prompts = common.read_pair(FLAGS, FLAGS.draft_kinds)
  for options in methods.values():
    common.check(pair, prompts, options)
  return pair, prompts, methods, batches


def main(arguments: list[str]) -> None:
  """Reads the flags and runs."""
  common.read_flags(FLAGS, arguments, __doc__)
  try:
    pair, prompts, methods, batches = _work()
  except ValueError as error:
    sys.exit(f"{error}")
  lines = common.setting("benchmarks.decode", arguments[1:])
  lines.append(common.describe(pair, FLAGS.target is None))
  print("\n".join(lines))
  parts = []
  for rows in batches:
    found = measure(pair, prompts, methods, rows)
    found.show()
    parts.append(found.markdown())
  if FLAGS.profile:
    parts += profiles(pair, prompts, methods, min(batches))
  common.write_markdown(FLAGS.out, "Decoding", lines, parts)


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv))
