"""Finds the best tree for a pair and a machine: `python -m tv_jax.tune`.

By default for the bundled pair; given a recorded file, for its cycles.
"""

import pathlib
import sys

import rich.console
from absl import flags, logging

from tv_jax import proposals, replay, runs, verifiers
from tv_jax.edge import cli, config_flag, names
from tv_jax.models import templates
from tv_jax.replay import report
from tv_jax.tune import files, finding, sampling, tuning

_CONFIG = config_flag.define(
  f"{config_flag.HELP} Its pair, its questions' first turns, its first"
  " temperature and seed, and its trees to compare with. Default: quickstart.",
)
_NODES = flags.DEFINE_integer("nodes", 25, "Drafted nodes of the tree.")
_DEPTH = flags.DEFINE_integer("depth", 5, "Levels of the tree at most.")
_BUDGETS = flags.DEFINE_string(
  "budgets",
  " ".join(map(str, finding.BUDGETS)),
  "More numbers of nodes to find the best trees of.",
)
_VERIFIERS = flags.DEFINE_string(
  "verifiers", "traversal", "The rule, one name or package.module:name."
)
_PROPOSALS = flags.DEFINE_string(
  "proposals",
  None,
  "How siblings are drawn, one name or package.module:name. Default: the"
  " config's first, or what a file names.",
)
_TOKENS = flags.DEFINE_integer(
  "tokens", 32, "New tokens of each prompt at most."
)
_TIMING = flags.DEFINE_bool("timing", True, "Whether to time trees as well.")
_OUT = flags.DEFINE_string(
  "out",
  "tree.json",
  "The file for the tree; those of the budgets, of the fastest tree and of the"
  " chart are written beside it.",
)
_CALIBRATE = flags.DEFINE_string(
  "calibrate",
  None,
  "A file to write as well: what children are worth by how sure the draft is,"
  " for trees named adaptive:5,5,5,5,5@FILE.",
)
_CACHE = flags.DEFINE_string(
  "compilation_cache",
  None,
  "Where compiled programs are kept, as in tv_jax.main. Empty: nowhere.",
)


def main(paths) -> None:
  """Tunes, prints the table, and writes the files."""
  logging.set_verbosity(logging.WARNING)
  budgets = [int(x) for x in names.split(_BUDGETS.value)]
  trees = _OUT.value, {*budgets, _NODES.value}
  cli.check_place(_OUT, ".json")
  cli.check_place(_CALIBRATE, ".json")
  files.check([*files.named(*trees), *filter(None, [_CALIBRATE.value])])
  asked = {
    "nodes": _NODES.value,
    "depth": _DEPTH.value,
    "budgets": budgets,
    "verifier": verifiers.resolve(_VERIFIERS.value),
  }
  if _TOKENS.value < 1:
    raise ValueError(f"--tokens={_TOKENS.value}: give 1 or more")
  settings = runs.from_config(_CONFIG.value)
  asked["trees"] = settings.trees
  finding.wanted(**asked)
  found = _of_file(paths, asked) if paths else _of_config(settings, asked)
  console = rich.console.Console()
  if not console.is_terminal:
    # A table that would be broken over lines is easier to pipe whole.
    console = rich.console.Console(width=1000)
  console.print(found.table())
  print("\n".join(found.lines()))
  texts = files.texts(_OUT.value, found)
  if _CALIBRATE.value:
    path = pathlib.Path(_CALIBRATE.value)
    texts[path] = sampling.calibration_text(found.policy, found.how)
  files.write_all(texts)
  print(f"written: {', '.join(map(str, texts))}")


def _of_file(paths, asked):
  """Tunes for recorded cycles."""
  if len(paths) > 1:
    raise ValueError(
      f"unexpected argument {paths[1]!r}: give one recorded file"
    )
  drawn = _PROPOSALS.value
  cycles = replay.load(paths[0], proposals.resolve(drawn) if drawn else None)
  print(report.describe(paths[0], cycles))
  print("no models, no speeds: those of trees are not estimated")
  try:
    return tuning.tune_recorded(cycles, **asked)
  except ValueError as error:
    raise ValueError(f"{paths[0]}: {error}") from error


def _of_config(settings, asked):
  """Tunes for a config's pair."""
  questions = runs.read_questions(settings)
  runs.keep_programs(_CACHE.value)
  pair = runs.load(settings)
  texts = {
    tuple(
      templates.encode(settings.models.template, pair.tokenizer, first)
    ): None
    for first in (question.turns[:1] for question in questions)
  }
  return tuning.tune(
    pair,
    [[*tokens] for tokens in texts],
    proposal=_PROPOSALS.value or settings.proposals[0],
    temperature=settings.temperatures[0],
    seed=settings.seeds[0],
    draft_temperature=settings.draft_temperature or None,
    draft_stop=settings.draft_stop,
    top_k=settings.top_k,
    top_p=settings.top_p,
    batch_size=settings.batch_size,
    max_new_tokens=min(_TOKENS.value, settings.max_new_tokens),
    speed=_TIMING.value,
    say=lambda line: print(f"{line} ..", file=sys.stderr),
    **asked,
  )


if __name__ == "__main__":
  cli.run("tv_jax.tune", main, config_flag.parse)
