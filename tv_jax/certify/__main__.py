"""Certifies verification rules: `python -m tv_jax.certify --help`."""

import contextlib
import time

import jax
import numpy as np
from absl import flags, logging

from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import certificate, contracts, programs, report
from tv_jax.certify import plan as plan_lib
from tv_jax.edge import cli, names, progress
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import DEFAULT, VERIFIERS

_NAMED = "package.module:name, or several with commas or spaces between"
_VERIFIERS = flags.DEFINE_string(
  "verifiers",
  None,
  f"Rules to certify: {', '.join(VERIFIERS)}, or a `decide` or `Verifier` of"
  f" your own as {_NAMED}. Default: {', '.join(DEFAULT)}.",
)
_PROPOSALS = flags.DEFINE_string(
  "proposals",
  None,
  f"How siblings are drawn: {', '.join(PROPOSALS)}, or a `Proposal` of your own"
  f" as {_NAMED}. One of your own is certified itself, first. Default: all that"
  " the rules are defined for.",
)
_TREES = flags.DEFINE_string(
  "trees",
  None,
  "Trees, in any form that tree.parse reads. Default:"
  f" {', '.join(plan_lib.USUAL)}.",
)
_VOCAB = flags.DEFINE_integer(
  "vocab",
  None,
  "Tokens in the vocabulary. Default: 3 to 64, as a tree needs.",
)
_CASES = flags.DEFINE_integer("cases", 27, "Random laws for each row.")
_DRAFTS = flags.DEFINE_integer(
  "drafts", 1000, "Drafts where there are too many to enumerate."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the laws and the drafts.")
_PROGRAM = flags.DEFINE_string(
  "program",
  None,
  "A Python function to certify instead, as package.module:name;"
  " docs/lossless.md has its contracts. --trees and --proposals (one each),"
  " --vocab, --cases and --seed are of it as well.",
)
_KIND = flags.DEFINE_enum(
  "kind",
  None,
  [*programs.KINDS],
  "Of the program. Default: what its parameters tell.",
)
_ARRAYS = flags.DEFINE_enum(
  "arrays", "numpy", [*contracts.ARRAYS], "What laws a verifier is given as."
)
_TOLERANCE = flags.DEFINE_float(
  "tolerance",
  programs.USUAL.tolerance,
  "Total variation that counts as rounding: a program that computes in float32"
  " needs 1e-6.",
  lower_bound=0.0,
)
_F32 = flags.DEFINE_bool("f32", False, "In float32, not float64.")
_BOUND = flags.DEFINE_bool(
  "bound",
  False,
  "Say of each rule how much of what any lossless rule could gain it gains.",
)
_SAMPLED = flags.DEFINE_bool(
  "sampled",
  False,
  "Toss coins, and test what comes out, in place of enumerating them: for rules"
  " with noise that is no coin of theirs. At least 4000 drafts in each case.",
)


def main(arguments) -> int:
  """Prints the certificate; 1 if a rule or a proposal fails."""
  started = time.monotonic()
  cli.no_arguments(arguments)
  if _PROGRAM.value:
    return _certify_program()
  settings = _settings()
  plan = plan_lib.make(
    names.split(_VERIFIERS.value) or None,
    names.split(_PROPOSALS.value) or None,
    names.split(_TREES.value) or None,
  )
  by_row = [
    settings._replace(vocabulary=settings.vocabulary or row.vocabulary)
    for row in plan.rows
  ]
  # All of them before the first is worked on.
  for row, own in zip(plan.rows, by_row, strict=True):
    with _blaming(row):
      certificate.check_size(row.proposal, row.tree, own)
  logging.set_verbosity(logging.WARNING)
  jax.config.update("jax_enable_x64", not _F32.value)
  checked, rows = [], []
  with progress.bar(len(plan.rows) + len(plan.to_certify)) as bar:
    for proposal in plan.to_certify:
      bar.show(proposal.name)
      found = certify.check_proposal(proposal, settings, plan.widths)
      checked.append((proposal.name, found))
      bar.advance()
    for row, own in zip(plan.rows, by_row, strict=True):
      bar.show(", ".join(row.names))
      what = row.rule, row.proposal, row.tree, own
      with _blaming(row):
        rows.append((row, certify.check(*what, widths=plan.widths)))
      bar.advance()
  if checked:
    print(f"{report.proposal_table(checked)}\n{report.PROPOSAL_LEGEND}\n")
  print(report.table((*row.names, check) for row, check in rows))
  print(report.LEGEND)
  if _BOUND.value:
    print(report.BOUND_LEGEND)
  if _SAMPLED.value:
    print(report.SAMPLED_LEGEND)
  for name, check in checked:
    if not check.sound:
      print(f"\nWRONG: proposal {name}")
      print("\n".join(f"  fault: {fault}" for fault in check.faults))
  printed = {}
  for row, check in rows:
    _explain(row, check, settings, printed)
  sound = sum(check.sound for _, check in checked)
  good = sum(check.lossless for _, check in rows)
  told = f"{sound} of {len(checked)} proposals are sound, " * bool(checked)
  print(
    f"\n{told}{good} of {len(rows)} rows are lossless,"
    f" in {'float32' if _F32.value else 'float64'},"
    f" {time.monotonic() - started:.0f} s"
  )
  return int(sound < len(checked) or good < len(rows))


def _certify_program() -> int:
  """Prints the certificate of a program; 1 if it is not lossless."""
  given = [
    flag.name
    for flag in (_VERIFIERS, _DRAFTS, _F32, _BOUND, _SAMPLED)
    if flag.present
  ]
  if given:
    raise ValueError(f"--{given[0]} is for rules, not for --program")
  usual = programs.USUAL
  tree, proposal = _TREES.value, _PROPOSALS.value
  program = names.load(str(_PROGRAM.value), "program")
  if not callable(program):
    raise ValueError(f"program {_PROGRAM.value!r} is no function")
  settings = programs.Settings(
    vocabulary=_VOCAB.value,
    cases=_CASES.value if _CASES.present else usual.cases,
    tree=tree and tree_lib.resolve(tree),
    proposal=proposal or usual.proposal,
    arrays=_ARRAYS.value,
    tolerance=_TOLERANCE.value,
    seed=_SEED.value,
  )
  kind = _KIND.value or programs.kind_of(program)
  found = programs.certify(program, kind, settings)
  print(f"{_PROGRAM.value}, a {contracts.CONTRACTS[kind]}")
  print(found)
  return int(not found.lossless)


def _settings() -> certify.Settings:
  """Returns how much to check; refuses what it can't do."""
  least = ((_VOCAB, 2), (_DRAFTS, 2), (_SEED, 0), (_CASES, 1))
  for flag, number in least:
    if flag.value is not None and flag.value < number:
      raise ValueError(f"--{flag.name}={flag.value}: give {number} or more")
  return certify.Settings(
    vocabulary=_VOCAB.value,
    cases=_CASES.value,
    drafts=_DRAFTS.value,
    dtype=np.float32 if _F32.value else np.float64,
    seed=_SEED.value,
    bound=_BOUND.value,
    sampled=_SAMPLED.value,
  )


@contextlib.contextmanager
def _blaming(row):
  """Tells whatever a stranger's rule raises in a line that names it."""
  try:
    yield
  except Exception as error:
    place = f"{row.names[0]} on {row.names[2]}"
    raise ValueError(f"{place}: {names.raised(error)}") from error


def _explain(row, check, settings, printed):
  """Prints what is wrong with a rule, at its smallest, and each case once.

  Args:
    row: The rule, the proposal and the tree.
    check: What was found.
    settings: As it was found.
    printed: {case: the names of the row that it was printed for}; grows.
  """
  if check.lossless or check.failure.proposal_wrong:
    return
  failure = certify.smallest_failure(
    row.rule, row.proposal, check.failure, settings
  )
  names = ", ".join(row.names)
  spelled = report.spell_out(failure)
  if (first := printed.setdefault((row.names[0], spelled), names)) != names:
    print(f"\n{check.verdict}: {names}; fails as {first} does")
    return
  what = "; smallest failing case" if failure.case else ""
  print(f"\n{check.verdict}: {names}{what}:")
  print(spelled)


if __name__ == "__main__":
  cli.run("tv_jax.certify", main)
