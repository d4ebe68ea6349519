"""Times the stages of a cycle: draft, target, verify, commit; and prefill.

  python -m benchmarks.stages --draft=bundled/draft --target=bundled/target

Each stage is compiled alone, and runs on the states of real cycles. `cycle` is
the whole cycle in one program, as `tv_jax.generate` runs it. The last column
divides it by a cycle of plain decoding: a tree pays if its acceptance length is
larger. The stages need not add up to the cycle, since stages that are compiled
alone copy their results.

Trees take turns, in a new random order in each round. Times are medians over
rounds, in milliseconds.
"""

from __future__ import annotations

import argparse
import functools

import jax
import numpy as np

import tv_jax
from benchmarks import common
from benchmarks.passes import seconds
from tv_jax.engine import cycle
from tv_jax.engine.config import Options, decode_config
from tv_jax.engine.decode import Batch, Prompt
from tv_jax.engine.pair import Pair
from tv_jax.io.reading import path_of

PROMPT, NEW = 64, 256  # tokens
STAGES = "prefill", "draft", "target", "verify", "commit", "cycle"


class Staged:
  """A batch of one prompt, and its stages as programs."""

  def __init__(self, pair: Pair, tree: str | None):
    """Reads a random prompt; `tree` None is plain decoding."""
    rule = "traversal" if tree else "plain"
    config = decode_config(
      pair,
      Options(
        tree=tree or "chain:1",
        verifier=rule,
        panel=None,
        max_new_tokens=NEW,
        ends=(),
      ),
    )
    tokens = np.random.default_rng(0).integers(
      pair.target.config.vocab_size, size=PROMPT
    )
    self.prompt = Prompt(tokens.tolist(), 0, NEW)
    self.batch = Batch(pair, config, 1, PROMPT)
    self.whole = jax.jit(
      lambda params, state: cycle.cycle(self.batch.static, params, state)[0]
    )
    self.grow, self.score, self.verify, self.commit = (
      jax.jit(functools.partial(stage, self.batch.static))
      for stage in (cycle.grow, cycle.score, cycle.verify, cycle.commit)
    )

  def run(self, _) -> dict[str, float]:
    """Reads the prompt, runs two cycles, and returns the seconds by stage."""
    batch, kept = self.batch, {}

    def timed(name, call, *arguments):
      def run():
        kept[name] = call(*arguments)
        return kept[name]

      times[name] = seconds(run)
      return kept[name]

    times: dict[str, float] = {}
    timed("prefill", lambda: batch.insert([self.prompt], 0))
    params, state = batch.params, batch.state
    drafted = timed("draft", self.grow, params, state)
    scored = timed("target", self.score, params, state, drafted)
    verified = timed("verify", self.verify, params, state, drafted, scored.p)
    state = timed("commit", self.commit, state, drafted, scored, verified)
    timed("cycle", self.whole, params, state)
    return times


def main() -> None:
  """Reads the flags and runs."""
  parser = argparse.ArgumentParser("benchmarks.stages")
  parser.add_argument("--draft", required=True, help="as tv_jax.load takes it")
  parser.add_argument("--target", required=True, help="likewise")
  parser.add_argument(
    "--trees", nargs="+", default=["chain:1", "chain:2", "chain:4", "eagle"]
  )
  parser.add_argument("--rounds", type=int, default=15)
  flags = parser.parse_args()
  pair = tv_jax.load(path_of(flags.target), path_of(flags.draft))
  methods = {}
  for tree in (None, *flags.trees):
    name = tree or "plain"
    common.say(f"warming {name}")
    staged = Staged(pair, tree)
    staged.run(0)
    methods[name] = staged.run
  runs = common.race(methods, flags.rounds, seed=0)
  middle = {
    name: {stage: np.median([run[stage] for run in own]) for stage in STAGES}
    for name, own in runs.items()
  }
  common.setting("stages")
  common.show(
    f"Stages of a cycle, ms; a prompt of {PROMPT} tokens",
    ["", *STAGES, "over plain"],
    [
      [
        name,
        *(f"{1e3 * times[stage]:.4g}" for stage in STAGES),
        f"{times['cycle'] / middle['plain']['cycle']:.2f}",
      ]
      for name, times in middle.items()
    ],
  )


if __name__ == "__main__":
  main()
