"""Any verifier on recorded cycles: `python -m tv_jax.replay --help`."""

import contextlib
import time

import rich.console
import rich.progress
from absl import flags, logging

from tv_jax import proposals, replay
from tv_jax.edge import cli
from tv_jax.replay import bound as bound_lib
from tv_jax.replay import lengths as lengths_lib
from tv_jax.replay import report
from tv_jax.verifiers import DEFAULT, VERIFIERS, misfit, resolve

_VERIFIERS = cli.define_names(
  "verifiers",
  None,
  f"Rules to replay: {', '.join(VERIFIERS)}, or package.module:function, a"
  f" `decide` or a `Verifier`. Default: those of {', '.join(DEFAULT)} that suit"
  " the tree.",
)
_PROPOSALS = cli.define_names(
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

# A progress bar appears when the work takes longer than this.
_PATIENCE = 2.0


def main(heard, paths) -> None:
  """Prints a table for each file."""
  del heard
  named = cli.split(_VERIFIERS.value)
  rules = {name: resolve(name) for name in named} if named else None
  if not paths:
    raise ValueError("give the files to replay, as tv_jax.record writes them")
  for flag in (_COINS, _SEED):
    if flag.value < (least := int(flag is _COINS)):
      raise ValueError(f"--{flag.name}={flag.value}: give {least} or more")
  logging.set_verbosity(logging.WARNING)
  # All files are checked before the first is worked on.
  drawn = cli.only(_PROPOSALS)
  drawn = drawn and proposals.resolve(drawn)
  files = {path: replay.load(path, drawn) for path in paths}
  own = {path: _suiting(path, files[path], rules) for path in paths}
  for path, cycles in files.items():
    if _BOUND.value and (reason := bound_lib.unknown(cycles)):
      raise ValueError(f"{path}: {reason}")
  for i, path in enumerate(files):
    print("\n" * (i > 0), end="")
    _replay(path, files[path], own[path])


def _suiting(path, cycles, rules):
  """The rules to replay on a file: those asked for, or usual ones that suit."""
  if rules is None:
    usual = {name: VERIFIERS[name] for name in DEFAULT}
    return {
      name: rule
      for name, rule in usual.items()
      if not misfit(rule, cycles.tree, cycles.proposal)
    }
  for rule in rules.values():
    if reason := misfit(rule, cycles.tree, cycles.proposal):
      raise ValueError(f"{path}: {reason}")
  return rules


def _replay(path, cycles, rules):
  """One file: its table."""
  lengths, by = {}, {}
  with _bar(len(rules) * len(cycles)) as tick:
    for name, rule in rules.items():
      try:
        lengths[name] = lengths_lib.expected_lengths(
          rule, cycles, coins=_COINS.value, seed=_SEED.value, tick=tick
        )
      except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
      by[name] = "stop law" if rule.stop_law else f"{_COINS.value} runs"
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


@contextlib.contextmanager
def _bar(total):
  """A progress bar, which is shown when this takes long."""
  progress = rich.progress.Progress(
    *rich.progress.Progress.get_default_columns(),
    console=rich.console.Console(stderr=True),
    transient=True,
  )
  task = progress.add_task("replay", total=total)
  started = time.monotonic()

  def tick(count):
    progress.advance(task, count)
    if time.monotonic() - started > _PATIENCE:
      progress.start()

  try:
    yield tick
  finally:
    if progress.live.is_started:  # else a stop prints an empty line
      progress.stop()


if __name__ == "__main__":
  cli.run("tv_jax.replay", main)
