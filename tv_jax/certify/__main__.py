"""Certifies verification rules: `python -m tv_jax.certify --help`."""

import contextlib
import itertools
import time
from typing import NamedTuple

import jax
import numpy as np
from absl import flags

from tv_jax import certify, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.certify import certificate, contracts, programs, report
from tv_jax.edge import cli, names, progress
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import DEFAULT, VERIFIERS, Verifier

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
  f" {', '.join(certificate.USUAL)}.",
)
_VOCAB = flags.DEFINE_integer(
  "vocab",
  None,
  "Tokens in the vocabulary. Default: 3 to 64, as a tree needs.",
  lower_bound=2,
)
_CASES = flags.DEFINE_integer("cases", 27, "Random laws for each row.", 1)
_DRAFTS = flags.DEFINE_integer(
  "drafts", 1000, "Drafts where there are too many to enumerate.", 2
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the laws and the drafts.", 0)
_PROGRAM = flags.DEFINE_string(
  "program",
  None,
  "A Python function to certify instead, as package.module:name;"
  " docs/lossless.md has its contracts. --trees and --proposals (one each),"
  " --vocab, --cases and --seed are of it as well.",
)
_ARRAYS = flags.DEFINE_enum(
  "arrays",
  "numpy",
  ["numpy", "torch", "jax"],
  "What laws a verifier is given as. With jax, a cycle's are JAX's arrays too,"
  " and rng is a jax.random.key.",
)
_TOLERANCE = flags.DEFINE_float(
  "tolerance",
  None,
  "Total variation that counts as rounding. Default: 1e-9, and 1e-6 for laws in"
  " float32 (--arrays=jax). Other programs that compute in float32 need 1e-6.",
  lower_bound=0.0,
)
_STRICT = flags.DEFINE_bool(
  "strict",
  False,
  "Whether a program fails that compares a coin with <=, which is wrong where"
  " the coin is exactly 0.",
)
_F32 = flags.DEFINE_bool("f32", False, "In float32, not float64.")


class Row(NamedTuple):
  """A rule, a proposal and a tree."""

  names: tuple[str, str, str]
  rule: Verifier
  proposal: Proposal
  tree: Tree | Adaptive
  settings: certify.Settings


def main() -> int:
  """Prints the certificate; 1 if a rule or a proposal fails."""
  started = time.monotonic()
  if _PROGRAM.value:
    return _certify_program()
  settings = certify.Settings(
    vocabulary=_VOCAB.value,
    cases=_CASES.value,
    drafts=_DRAFTS.value,
    dtype=np.float32 if _F32.value else np.float64,
    seed=_SEED.value,
  )
  rows, to_certify = _plan(settings)
  widths = {k for row in rows for k in row.tree.family_sizes}
  jax.config.update("jax_enable_x64", not _F32.value)
  of_proposals, checks = {}, []
  with progress.bar(len(rows) + len(to_certify)) as bar:
    for proposal in to_certify:
      bar.show(proposal.name)
      check = certify.check_proposal(proposal, settings, tuple(sorted(widths)))
      of_proposals[proposal] = check
      bar.advance()
    for row in rows:
      bar.show(", ".join(row.names))
      known = of_proposals.get(row.proposal)
      with _blaming(row):
        checks.append(certify.check(*row[1:], proposal_check=known))
      bar.advance()
  for proposal, check in of_proposals.items():
    print(f"proposal {proposal.name}: {check}\n")
  table = [(*row.names, check) for row, check in zip(rows, checks, strict=True)]
  print(f"{report.table(table)}\n{report.LEGEND}")
  explained = set()
  for row, check in zip(rows, checks, strict=True):
    kind, failure = (row.names[0], check.verdict), check.failure
    if failure and not failure.proposal_wrong and kind not in explained:
      explained.add(kind)
      print(_explained(row, check))
  sound = sum(check.sound for check in of_proposals.values())
  lossless = sum(check.lossless for check in checks)
  summary = f"{lossless} of {len(rows)} rows are lossless"
  if of_proposals:
    proposals_too = f"{sound} of {len(of_proposals)} proposals are sound"
    summary = f"{proposals_too}, {summary}"
  print(
    f"\n{summary}, in {'float32' if _F32.value else 'float64'},"
    f" {time.monotonic() - started:.0f} s"
  )
  return int(sound < len(of_proposals) or lossless < len(rows))


def _certify_program() -> int:
  """Prints the certificate of a program; 1 if it is not lossless."""
  for flag in (_VERIFIERS, _DRAFTS, _F32):
    if flag.present:
      raise ValueError(f"--{flag.name} is for rules, not for --program")
  usual = contracts.Settings()
  proposal = _PROPOSALS.value
  program = names.load(str(_PROGRAM.value), "program")
  if not callable(program):
    raise ValueError(
      f"program {_PROGRAM.value!r} is no function: write module:name"
    )
  settings = contracts.Settings(
    vocabulary=_VOCAB.value,
    cases=_CASES.value if _CASES.present else usual.cases,
    tree=_TREES.value,
    proposal=proposal or usual.proposal,
    arrays=_ARRAYS.value,
    tolerance=_TOLERANCE.value,
    strict=_STRICT.value,
    seed=_SEED.value,
  )
  result = programs.certify(program, settings)
  cycle = contracts.is_cycle(program)
  contract = contracts.CYCLE if cycle else contracts.VERIFY
  print(f"{_PROGRAM.value}, a {contract}\n{result}")
  return int(not result.lossless)


def _plan(settings: certify.Settings) -> tuple[list[Row], list[Proposal]]:
  """Finds everything by its name.

  Returns:
    A row for each combination for which the rule is defined, and the proposals
    to certify: those that are built in only if no rule is named.
  """
  rules = names.split(_VERIFIERS.value) or DEFAULT
  rules = {text: verifiers.resolve(text) for text in rules}
  declared = itertools.chain(*(rule.proposals for rule in rules.values()))
  drawn = names.split(_PROPOSALS.value) or [*PROPOSALS, *declared]
  drawn = {text: proposals.resolve(text) for text in drawn}
  usual = {} if _TREES.value else certificate.USUAL
  trees = names.split(_TREES.value) or usual
  trees = {text: tree_lib.parse(text) for text in trees}
  rows, reasons = [], {}
  for texts in itertools.product(rules, drawn, trees):
    what = rules[texts[0]], drawn[texts[1]], trees[texts[2]]
    vocabulary = settings.vocabulary or usual.get(texts[2])
    row = Row(texts, *what, settings._replace(vocabulary=vocabulary))
    if reason := verifiers.misfit(row.rule, row.tree, row.proposal):
      reasons[texts[0]] = reason
      continue
    with _blaming(row):
      certificate.check_size(row.proposal, row.tree, row.settings)
    rows.append(row)
  idle = {*reasons} - {row.names[0] for row in rows}
  if idle and (_VERIFIERS.value or not rows):
    raise ValueError(f"nothing to certify: {reasons[idle.pop()]}")
  known = PROPOSALS.values() if _VERIFIERS.value else ()
  return rows, [each for each in drawn.values() if each not in known]


@contextlib.contextmanager
def _blaming(row):
  """Tells whatever a stranger's rule raises in a line that names it."""
  try:
    yield
  except Exception as error:
    place = f"{row.names[0]} on {row.names[2]}"
    raise ValueError(f"{place}: {names.raised(error)}") from error


def _explained(row, check) -> str:
  """Returns what is wrong with a rule, at its smallest."""
  failure = certify.smallest_failure(
    row.rule, row.proposal, check.failure, row.settings
  )
  what = "; smallest failing case" if failure.case else ""
  return f"\n{check.verdict}: {', '.join(row.names)}{what}:\n{failure}"


if __name__ == "__main__":
  cli.run("tv_jax.certify", main)
