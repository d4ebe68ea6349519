"""Finds the best tree for a pair and a machine: `python -m tv_jax.tune`."""

import os
import pathlib

from absl import flags

from tv_jax import runs
from tv_jax.engine import Options
from tv_jax.io import cli, config_flag, progress
from tv_jax.io.errors import UserError
from tv_jax.tune import tuning

_CONFIG = config_flag.define(
  f"{config_flag.HELP} Used are its pair, its questions' first turns, its first"
  " proposal, temperature and seed, and its trees to compare with. Default:"
  " quickstart.",
)
_NODES = flags.DEFINE_integer("nodes", 25, "Drafted nodes of the tree.", 1)
_DEPTH = flags.DEFINE_integer("depth", 5, "Maximum depth of the tree.", 1)
_SIZES = flags.DEFINE_list(
  "sizes",
  [*map(str, tuning.SIZES)],
  "More numbers of nodes to find the best trees of.",
)
_VERIFIERS = flags.DEFINE_string(
  "verifiers", "traversal", "The rule, one name or package.module:name."
)
_TOKENS = flags.DEFINE_integer(
  "tokens", 32, "Maximum number of new tokens of each prompt.", lower_bound=1
)
_TIMING = flags.DEFINE_bool("timing", True, "Whether to time trees as well.")
_OUT = flags.DEFINE_string(
  "out", "tree.json", "The file to write the tree of --nodes to."
)


def main() -> None:
  """Tunes, prints the table, and writes the file."""
  out = pathlib.Path(_OUT.value)
  if out.exists() or out.suffix != ".json":
    raise UserError(f"--out={out}: give a new file whose name ends in .json")
  if not os.access(out.parent, os.W_OK):
    raise UserError(f"--out={out}: give a file in a folder to write in")
  settings = runs.from_config(_CONFIG.value)
  questions = runs.read_questions(settings)
  runs.keep_programs(None)
  options = Options(
    verifier=_VERIFIERS.value,
    proposal=settings.proposals[0],
    temperature=settings.temperatures[0],
    seed=settings.seeds[0],
    draft_temperature=settings.draft_temperature,
    draft_stop=settings.draft_stop,
    top_k=settings.top_k,
    top_p=settings.top_p,
    batch_size=settings.batch_size,
    max_new_tokens=min(_TOKENS.value, settings.max_new_tokens),
  )
  with progress.bar() as bar:
    tuned = tuning.tune(
      runs.load(settings),
      # Each prompt once.
      [*dict.fromkeys(question.turns[0] for question in questions)],
      options,
      nodes=_NODES.value,
      depth=_DEPTH.value,
      sizes=[int(count) for count in _SIZES.value],
      trees=settings.trees,
      template=settings.models.template,
      speed=_TIMING.value,
      progress=bar,
    )
  print(tuned)
  tuned.save(out)
  print(f"written: {out}")


if __name__ == "__main__":
  cli.run("tv_jax.tune", main, config_flag.parse)
