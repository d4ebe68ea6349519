"""Any verifier on recorded cycles: `python -m tv_jax.replay --help`."""

import rich.console
from absl import flags, logging

from tv_jax import proposals, replay
from tv_jax.edge import cli, names, progress
from tv_jax.replay import bound as bound_lib
from tv_jax.replay import lengths as lengths_lib
from tv_jax.replay import report
from tv_jax.verifiers import DEFAULT, VERIFIERS, misfit, resolve

_VERIFIERS = flags.DEFINE_string(
  "verifiers",
  None,
  f"Rules to replay: {', '.join(VERIFIERS)}, or package.module:function, a"
  f" `decide` or a `Verifier`. Default: those of {', '.join(DEFAULT)} that suit"
  " the tree.",
)
_PROPOSALS = flags.DEFINE_string(
  "proposals",
  None,
  "How siblings were drawn, one package.module:name, where a file names a"
  " proposal of one's own.",
)
_COINS = flags.DEFINE_integer(
  "coins", 64, "Runs on each cycle of a rule that has no stop law."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of these runs' coins.")
_BOUND = flags.DEFINE_bool(
  "bound",
  False,
  "Bound what any lossless rule can gain on such drafts, and say how much of it"
  " each rule gains.",
)


def main(paths) -> None:
  """Prints a table for each file."""
  named = names.split(_VERIFIERS.value)
  rules = {name: resolve(name) for name in named} if named else None
  if not paths:
    raise ValueError("give the files to replay, as tv_jax.record writes them")
  for flag in (_COINS, _SEED):
    if flag.value < (least := int(flag is _COINS)):
      raise ValueError(f"--{flag.name}={flag.value}: give {least} or more")
  logging.set_verbosity(logging.WARNING)
  # All files are checked before the first is worked on.
  own = _PROPOSALS.value
  drawn = proposals.resolve(own) if own else None
  files = {path: replay.load(path, drawn) for path in paths}
  suiting = {}
  for path, cycles in files.items():
    suiting[path] = {}
    for name, rule in (rules or {x: VERIFIERS[x] for x in DEFAULT}).items():
      reason = misfit(rule, cycles.tree, cycles.proposal)
      if reason and rules:
        raise ValueError(f"{path}: {reason}")
      if not reason:
        suiting[path][name] = rule
    if _BOUND.value and (reason := bound_lib.unknown(cycles)):
      raise ValueError(f"{path}: {reason}")
  for i, path in enumerate(files):
    print("\n" * (i > 0), end="")
    _replay(path, files[path], suiting[path])


def _replay(path, cycles, rules):
  """Prints the table of one file."""
  lengths, by = {}, {}
  with progress.bar(len(rules) * len(cycles)) as bar:
    for name, rule in rules.items():
      try:
        lengths[name] = lengths_lib.expected_lengths(
          rule, cycles, coins=_COINS.value, seed=_SEED.value, tick=bar.advance
        )
      except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
      by[name] = "stop law" if rule.offers else f"{_COINS.value} runs"
  print(report.describe(path, cycles))
  bounds = bound_lib.upper_bounds(cycles) if _BOUND.value else None
  made = report.table(cycles, report.rows(cycles, lengths, by, bounds), bounds)
  console = rich.console.Console()
  if not console.is_terminal:
    # A table that would be broken over lines is easier to pipe whole.
    console = rich.console.Console(width=1000)
  console.print(made)
  if line := report.check(cycles, lengths):
    print(line)
  if bounds is not None:
    print(report.BOUND)


if __name__ == "__main__":
  cli.run("tv_jax.replay", main)
