"""Certifies rules, proposals, and any sampler in Python.

    python -m tv_jax.certify --verifiers=my_rule:RULE --trees=kary:2x2
    python -m tv_jax.certify --proposals=my_proposal:MINE
    python -m tv_jax.certify --program=my_sampler:verify --trees=chain:2

Exits with 1 if something is not lossless or not decided.
"""

import itertools
import time
from typing import NamedTuple

import numpy as np
from absl import flags

from tv_jax import certify, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.certify import certificate, plan, programs
from tv_jax.certify.report import Certificate, Verdict
from tv_jax.certify.rules import REACHED
from tv_jax.io import cli, names
from tv_jax.io.errors import UserError
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import Tree
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
  f" {', '.join(plan.USUAL)}.",
)
_VOCAB = flags.DEFINE_integer(
  "vocab",
  None,
  "Tokens in the vocabulary. Default: 3 to 64, as a tree needs.",
  lower_bound=2,
)
_CASES = flags.DEFINE_integer(
  "cases",
  None,
  "Random laws for each row. Default: 27, and 24 for a program.",
  1,
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the laws and the drafts.", 0)
_PROGRAM = flags.DEFINE_string(
  "program",
  None,
  "A Python function to certify instead, as package.module:name;"
  " docs/samplers.md gives the signatures. --trees and --proposals (one each),"
  " --vocab, --cases and --seed apply to it, too.",
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
_OF_PROGRAMS = _ARRAYS, _TOLERANCE, _STRICT


# The columns after the names, and their widths.
_COLUMNS = {
  "tokens": 6,
  "check": 28,
  "largest error": 13,
  "length": 6,
  "verdict": 7,
}
_LEGEND = """\
exact: all drafts, or on a large tree all drafts of a q with few tokens.
largest error: total variation of the output's first depth + 1 tokens; length:
  expected tokens of a cycle. docs/rules.md explains the verdicts."""


class Entry(NamedTuple):
  """The rule, proposal and tree of a row of the table."""

  names: tuple[str, str, str]
  rule: Verifier
  proposal: Proposal
  tree: Tree
  settings: certify.Settings


def main() -> int:
  """Prints the certificate.

  Returns:
    1 if a rule or a proposal fails or is undecided, 2 if a rule cannot be run.
  """
  started = time.monotonic()
  others = (_VERIFIERS, _F32) if _PROGRAM.value else _OF_PROGRAMS
  for flag in others:
    if flag.present:
      what = "rules, not for" if _PROGRAM.value else "programs: give"
      raise UserError(f"--{flag.name} is for {what} --program")
  settings = certify.Settings(
    vocabulary=_VOCAB.value,
    cases=_CASES.value,
    dtype=np.float32 if _F32.value else np.float64,
    arrays=_ARRAYS.value,
    tolerance=_TOLERANCE.value,
    strict=_STRICT.value,
    seed=_SEED.value,
  )
  if _PROGRAM.value:
    return _certify_program(settings)
  entries, to_certify = _plan(settings)
  widths = {k for entry in entries for k in entry.tree.family_sizes}
  proposal_faults = {}
  for proposal in to_certify:
    check = certify.check_proposal(proposal, settings, tuple(sorted(widths)))
    proposal_faults[proposal] = check.faults
    print(f"proposal {proposal.name}: {check}\n", flush=True)
  checks, broken = _check_rows(entries, proposal_faults)
  print(_LEGEND)
  _explain(checks)
  sound = sum(not faults for faults in proposal_faults.values())
  if to_certify:
    print(f"\n{sound} of {len(to_certify)} proposals are sound", end="")
  print(
    f"\n{_summary(checks, len(entries))}"
    f"\n{'float32' if _F32.value else 'float64'},"
    f" {time.monotonic() - started:.0f} s"
  )
  right = [check.lossless for _, check in checks]
  failed = sound < len(to_certify) or not all(right)
  return 2 if broken else int(failed)


def _check_rows(entries, proposal_faults) -> tuple[list, bool]:
  """Prints the rows; returns the checks, and whether a rule raised an error."""
  count, checks, broken = len(entries), [], False
  titles = "row", "verifier", "proposal", "tree"
  rows = [(f"{i}/{count}", *x.names) for i, x in enumerate(entries, 1)]
  columns = zip(titles, *rows, strict=True)
  widths = [*(max(map(len, column)) for column in columns), *_COLUMNS.values()]

  def show(cells):
    print("  ".join(map(str.ljust, cells, widths)).rstrip(), flush=True)

  show([*titles, *_COLUMNS])
  show(["-" * width for width in widths])
  for row, entry in zip(rows, entries, strict=True):
    _, rule, proposal, tree, settings = entry
    faults = proposal_faults.get(proposal, ())
    try:
      check = certificate.check_rule(rule, proposal, tree, settings, faults)
    except Exception as error:  # a user's rule may raise anything
      broken = True
      show([*row, f"NOT RUN: {names.raised(error)}"])
      continue
    checks.append((entry, check))
    show([*row, *_cells(entry, check)])
  return checks, broken


def _cells(entry: Entry, check: Certificate) -> tuple[str, ...]:
  """Returns the cells of a row, from the vocabulary to the verdict."""
  verdict, count = check.verdict, len(check.cases)
  if verdict == Verdict.UNDECIDED:
    verdict += " (give a tree of 6 nodes or fewer)"
  return (
    str(entry.settings.tokens(entry.tree)),
    f"exact, {count} cases" if count else "not run",
    f"{check.distance:.1e}" if count else "-",
    f"{check.length:.4f}" if count else "-",
    verdict,
  )


def _explain(checks) -> None:
  """Prints the smallest failing case found for each rule and verdict."""
  explained: set = {Verdict.LOSSLESS, Verdict.UNDECIDED, Verdict.NOT_RUN}
  for entry, check in checks:
    name, what, shown = entry.names[0], "", [f"  {x}" for x in check.faults]
    if {check.verdict, (name, check.verdict)} & explained:
      continue
    explained.add((name, check.verdict))
    if check.smallest:
      what = "; smallest failing case"
      shown = [
        certify.smallest_failure(
          entry.rule, entry.proposal, check.smallest, entry.settings
        )
      ]
    print(
      f"\n{check.verdict}: {', '.join(entry.names)}{what}:", *shown, sep="\n"
    )


def _summary(checks, count: int) -> str:
  """Counts the lossless rows, and says which places were reached."""
  lossless = sum(check.lossless for _, check in checks)
  lines = [f"{lossless} of {count} rows are lossless"]
  known = [(entry, check) for entry, check in checks if check.cases]
  if not known:
    return lines[0]
  depth = max(entry.tree.max_depth for entry, _ in known)
  table, missed = [["proposal", *REACHED]], []
  for proposal in dict.fromkeys(entry.names[1] for entry, _ in known):
    of_rules: dict[str, np.ndarray] = {}
    for entry, check in known:
      if entry.names[1] != proposal:
        continue
      tree = entry.tree
      last = of_rules.setdefault(entry.names[0], np.zeros((4, depth), int))
      reached = check.reached[:, 1:]
      for what, node in np.argwhere(reached):
        at = what, tree.depth[node + 1] - 1
        last[at] = max(last[at], tree.rank[node + 1] + 1)
      if nodes := [*map(str, np.flatnonzero(~reached[0]) + 1)]:
        missed.append(f"{', '.join(entry.names)}: {' '.join(nodes)}")
    last = np.min([*of_rules.values()], axis=0)
    table.append([proposal, *(" ".join(map(str, row)) for row in last)])
  widths = [max(map(len, column)) for column in zip(*table, strict=True)]
  lines += ["The last sibling that was reached at depths 1, 2, ..:"]
  for row in table:
    lines.append("  " + "  ".join(map(str.ljust, row, widths)).rstrip())
  if missed:
    lines += ["Nodes that were never offered:", *(f"  {x}" for x in missed)]
  return "\n".join([*lines[1:], lines[0]])


def _certify_program(settings: certify.Settings) -> int:
  """Prints the certificate of a program; returns 1 if it is not lossless."""
  program = names.load(str(_PROGRAM.value), "program")
  if not callable(program):
    raise UserError(
      f"program {_PROGRAM.value!r} is no function: give module:function"
    )
  drawn = _PROPOSALS.value or proposals.WITHOUT_REPLACEMENT
  found = certify.check_program(
    program, tree=_TREES.value, proposal=drawn, **settings._asdict()
  )
  print(f"{_PROGRAM.value}, a {programs.signature(program)}\n{found}")
  return int(not found.lossless)


def _plan(settings: certify.Settings) -> tuple[list[Entry], list[Proposal]]:
  """Resolves the names in the flags.

  Returns:
    A row for each combination that the rule is defined for; and the proposals
    to certify. Built-in proposals are certified only if no rule is named.
  """
  rules = names.split(_VERIFIERS.value) or DEFAULT
  rules = {text: verifiers.resolve(text) for text in rules}
  declared = itertools.chain(*(rule.proposals for rule in rules.values()))
  drawn = names.split(_PROPOSALS.value) or [*PROPOSALS, *declared]
  drawn = {text: proposals.resolve(text) for text in drawn}
  usual = {} if _TREES.value else plan.USUAL
  trees = names.split(_TREES.value) or usual
  trees = {text: tree_lib.parse(text) for text in trees}
  entries, reasons = [], {}
  for texts in itertools.product(rules, drawn, trees):
    what = rules[texts[0]], drawn[texts[1]], trees[texts[2]]
    vocabulary = settings.vocabulary or usual.get(texts[2])
    entry = Entry(texts, *what, settings._replace(vocabulary=vocabulary))
    if reason := verifiers.unsupported_reason(
      entry.rule, entry.tree, entry.proposal
    ):
      reasons[texts[0]] = reason
      continue
    entries.append(entry)
  idle = {*reasons} - {entry.names[0] for entry in entries}
  if idle and (_VERIFIERS.value or not entries):
    raise UserError(f"nothing to certify: {reasons[idle.pop()]}")
  known = PROPOSALS.values() if _VERIFIERS.value else ()
  return entries, [each for each in drawn.values() if each not in known]


if __name__ == "__main__":
  cli.run("tv_jax.certify", main)
