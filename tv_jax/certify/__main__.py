"""Certifies verification rules: `python -m tv_jax.certify --help`."""

import time

import jax
import numpy as np
import rich.console
from absl import flags, logging

from tv_jax import certify
from tv_jax.certify import plan as plan_lib
from tv_jax.certify import progress
from tv_jax.edge import cli, names
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import DEFAULT, VERIFIERS

_NAMED = "package.module:name, or several with commas or spaces between"
_VERIFIERS = cli.define_names(
  "verifiers",
  None,
  f"Rules to certify: {', '.join(VERIFIERS)}, or a `decide` or `Verifier` of"
  f" your own as {_NAMED}. Default: {', '.join(DEFAULT)}.",
)
_PROPOSALS = cli.define_names(
  "proposals",
  None,
  f"How siblings are drawn: {', '.join(PROPOSALS)}, or a `Proposal` of your own"
  f" as {_NAMED}. One of your own is certified itself, first. Default: all that"
  " the rules are defined for.",
)
_TREES = cli.define_names(
  "trees",
  "chain:3 kary:2x2 eagle",
  "Trees, in any form that tree.parse reads.",
)
_VOCAB = flags.DEFINE_integer("vocab", 3, "Tokens in the vocabulary.")
_CASES = flags.DEFINE_integer("cases", 27, "Random laws for each row.")
_DRAFTS = flags.DEFINE_integer(
  "drafts", 1000, "Drafts where there are too many to enumerate."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the laws and the drafts.")
_OUT = flags.DEFINE_string(
  "out", None, "A file to save the table's picture in, an .svg."
)
flags.DEFINE_alias("svg", "out")
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


def main(heard, arguments) -> int:
  """Prints the certificate; 1 if a rule or a proposal fails."""
  del heard
  started = time.monotonic()
  cli.no_arguments(arguments)
  settings = _settings()
  named = (cli.split(one.value) for one in (_VERIFIERS, _PROPOSALS, _TREES))
  plan = plan_lib.make(*named)
  for row in plan.rows:  # before the first is worked on
    try:
      certify.check_size(row.rule, row.proposal, row.tree, settings)
    except Exception as error:
      raise _refusal(row, error) from error
  logging.set_verbosity(logging.WARNING)
  jax.config.update("jax_enable_x64", not _F32.value)
  total = settings.cases * len(plan.rows)
  with progress.shown(total + len(plan.to_certify)) as shown:
    proposals = _certify_proposals(plan, settings, shown)
    rows = _certify_rules(plan, settings, shown)
  if proposals:
    _show(certify.proposal_table(proposals), certify.PROPOSAL_LEGEND)
    if rows:
      print()
  if rows:
    result = certify.table((*row.names, check) for row, check in rows)
    legend = certify.LEGEND
    if _BOUND.value:
      legend = f"{legend}\n{certify.BOUND_LEGEND}"
    if _SAMPLED.value:
      legend = f"{legend}\n{certify.SAMPLED_LEGEND}"
    _show(result, legend)
  for name, check in proposals:
    if not check.sound:
      print(f"\nWRONG: proposal {name}")
      print("\n".join(f"  fault: {fault}" for fault in check.faults))
  for row, check in rows:
    _explain(row, check, settings)
  seconds = time.monotonic() - started
  print(f"\n{_summary(proposals, rows)}, {seconds:.0f} s")
  if rows and _OUT.value:
    certify.save_picture(result, _OUT.value)
  sound = all(check.sound for _, check in proposals)
  return 0 if sound and all(check.lossless for _, check in rows) else 1


def _settings():
  """How much to check; refuses what it can't do."""
  for flag in (_VOCAB, _DRAFTS):
    if flag.value < 2:
      raise ValueError(f"--{flag.name}={flag.value}: give 2 or more")
  if _SEED.value < 0:
    raise ValueError(f"--seed={_SEED.value}: give 0 or more")
  cli.check_place(_OUT, ".svg")
  if _CASES.value < 1:
    raise ValueError(f"--cases={_CASES.value}: give 1 or more")
  return certify.Settings(
    vocabulary=_VOCAB.value,
    cases=_CASES.value,
    drafts=_DRAFTS.value,
    dtype=np.float32 if _F32.value else np.float64,
    seed=_SEED.value,
    bound=_BOUND.value,
    sampled=_SAMPLED.value,
  )


def _certify_proposals(plan, settings, shown):
  """(name, what was found) of each that is to be certified."""
  found = []
  for proposal in plan.to_certify:
    shown.say(proposal.name)
    check = certify.check_proposal(proposal, settings, plan.widths)
    found.append((proposal.name, check))
    shown.advance()
  return found


def _certify_rules(plan, settings, shown):
  """(row, what was found) of each."""
  found = []
  for row in plan.rows:
    shown.say(", ".join(row.names))
    try:
      check = certify.check(
        row.rule,
        row.proposal,
        row.tree,
        settings,
        shown.advance,
        widths=plan.widths,
      )
    except Exception as error:
      shown.stop()
      raise _refusal(row, error) from error
    found.append((row, check))
  return found


def _refusal(row, error) -> ValueError:
  """Whatever a stranger's rule raises, in a line that names it."""
  place = f"{row.names[0]} on {row.names[2]}"
  return ValueError(f"{place}: {names.raised(error)}")


def _show(table, legend):
  # A table that would be broken over lines is easier to read and to pipe whole.
  console = rich.console.Console()
  if console.is_terminal:
    console.print(table)
  else:
    print(certify.text(table))
  print(legend)


def _explain(row, check, settings):
  """What is wrong with a rule, at its smallest."""
  if check.lossless or check.failure.proposal_wrong:
    return
  failure = certify.smallest_failure(
    row.rule, row.proposal, check.failure, settings
  )
  what = "; smallest failing case" if failure.case else ""
  print(f"\n{check.verdict}: {', '.join(row.names)}{what}:")
  print(certify.spell_out(failure))


def _summary(proposals, rows):
  told = []
  if proposals:
    sound = sum(check.sound for _, check in proposals)
    told.append(f"{sound} of {len(proposals)} proposals are sound")
  if rows:
    good = sum(check.lossless for _, check in rows)
    told.append(f"{good} of {len(rows)} rows are lossless")
  told.append(f"in {'float32' if _F32.value else 'float64'}")
  return ", ".join(told)


if __name__ == "__main__":
  cli.run("tv_jax.certify", main)
