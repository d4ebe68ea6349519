"""Evaluates rules on cycles that `tv_jax.record` wrote.

    python -m tv_jax.replay run.npz --verifiers=traversal,my_rule:RULE

Prints each rule's expected length, and the paired difference from the rule that
ran.
"""

from absl import flags

from tv_jax import proposals, replay
from tv_jax.io import cli, names, progress
from tv_jax.io.errors import UserError
from tv_jax.replay import comparison
from tv_jax.verifiers import DEFAULT, VERIFIERS, resolve, unsupported_reason

_VERIFIERS = flags.DEFINE_string(
  "verifiers",
  None,
  f"Rules to replay: {', '.join(VERIFIERS)}, or package.module:function of a"
  f" `decide` or a `Verifier`. Default: those of {', '.join(DEFAULT)} that"
  " support the tree.",
)
_PROPOSALS = flags.DEFINE_string(
  "proposals",
  None,
  "The proposal of all files, as package.module:name, if they name one that is"
  " not built in.",
)
_COINS = flags.DEFINE_integer(
  "coins",
  64,
  "Number of runs on each cycle for a rule without a stopping distribution.",
  lower_bound=1,
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of these runs.", lower_bound=0)


def main(paths) -> None:
  """Prints a table for each file."""
  if not paths:
    raise UserError("give the files to replay, as tv_jax.record writes them")
  asked = names.split(_VERIFIERS.value)
  rules = {name: resolve(name) for name in asked or DEFAULT}
  proposal = _PROPOSALS.value
  drawn = proposals.resolve(proposal) if proposal else None
  # All files are read before the first is evaluated.
  files = {path: replay.load(path, drawn) for path in paths}
  for path, cycles in files.items():
    misfits = {
      name: unsupported_reason(rule, cycles.tree, cycles.proposal)
      for name, rule in rules.items()
    }
    for reason in filter(None, misfits.values()):
      if asked:
        raise UserError(f"{path}: {reason}")
    suiting = {name: rules[name] for name in rules if not misfits[name]}
    _replay(path, cycles, suiting)


def _replay(path, cycles, rules):
  """Prints the table of one file."""
  lengths, by = {}, {}
  with progress.bar() as bar:
    for name, rule in rules.items():
      lengths[name] = replay.expected_lengths(
        rule, cycles, coins=_COINS.value, seed=_SEED.value, progress=bar
      )
      by[name] = "stopping" if rule.offers else f"{_COINS.value} runs"
  print(comparison.describe(path, cycles))
  print(comparison.table(cycles, lengths, by).to_string(index=False))
  if line := comparison.check_line(cycles, lengths):
    print(line)


if __name__ == "__main__":
  cli.run("tv_jax.replay", main, arguments=True)
