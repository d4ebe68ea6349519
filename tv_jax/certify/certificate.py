"""Certifies a rule on a tree, or a program, in five steps.

1. plan.py: the trees, and worlds.py: the target p and the draft q.
2. rules.py or programs.py: the exact distribution of the output in each world.
3. compare.py: the output, continued by the target alone, must have the target's
   law on all prefixes.
4. compare.py: a smaller tree and vocabulary on which it still fails. For a
   program this is part of the certificate, for a rule `smallest_failure`.
5. report.py: the verdict and what is printed.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import plan, programs, rules, worlds
from tv_jax.certify.compare import smaller, smallest
from tv_jax.certify.dice import ExploreError
from tv_jax.certify.proposal import check_proposal
from tv_jax.certify.report import (
  FLOAT32,
  Case,
  Certificate,
  Settings,
  Verdict,
  verdict,
)
from tv_jax.io.errors import UserError
from tv_jax.proposals import PROPOSALS, WITHOUT_REPLACEMENT, Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import (
  VERIFIERS,
  Decide,
  Verifier,
  contract,
  resolve,
  unsupported_reason,
)

_SETTINGS = Settings()


def check(
  verifier: Verifier | Decide | str,
  proposal: Proposal | str,
  tree: Tree | str,
  settings: Settings = _SETTINGS,
) -> Certificate:
  """Certifies a rule for a proposal on a tree.

  Args:
    verifier: A name, module:name, a `Verifier` or a `decide`.
    proposal: A name, module:name or a `Proposal`. A proposal that is not built
      in is certified first. The rule is not run if the proposal is wrong.
    tree: A `Tree`, or a text that `tree.parse` reads.
    settings: How much to check.
  """
  with settings.precision:
    rule, proposal = resolve(verifier), proposals.resolve(proposal)
    tree = tree_lib.resolve(tree)
    faults: tuple[str, ...] = ()
    if proposal not in PROPOSALS.values():
      widths = tuple(sorted(tree.family_sizes))
      faults = check_proposal(proposal, settings, widths).faults
    return check_rule(rule, proposal, tree, settings, faults)


def check_rule(
  rule: Verifier,
  proposal: Proposal,
  tree: Tree,
  settings: Settings,
  proposal_faults: tuple[str, ...],
) -> Certificate:
  """Certifies a rule, which is not run if its proposal has faults."""
  if reason := unsupported_reason(rule, tree, proposal):
    raise UserError(reason)
  V, dtype = settings.tokens(tree), settings.dtype
  if worlds.num_contexts(V, tree.max_depth + 1) >= 2**63:
    raise UserError(f"{tree!r} is too deep to certify: give a smaller tree")
  if proposal_faults:
    return Certificate(Verdict.NOT_RUN, faults=proposal_faults)
  with settings.precision:
    if rule not in VERIFIERS.values():
      faults = contract.rule_faults(rule, proposal, tree, dtype, V)
      if faults:
        return Certificate(verdict([], faults), faults=tuple(faults))
    run = rules.compile_rule(rule, proposal, tree, settings)
    cases = [*map(run, plan.of_rule(proposal, tree, settings))]
  faults = _distinct(fault for case in cases for fault in case.faults)
  if any(case.wrong is None for case in cases):
    return Certificate(verdict([], faults), faults=faults)
  wrong = [case.wrong for case in cases]
  failing = [x for x in cases if x.wrong or (x.faults and not any(wrong))]
  shown = smallest(failing)
  return Certificate(
    verdict(wrong, faults),
    cases,
    shown and shown._replace(faults=faults),
    faults=faults,
  )


def smallest_failure(
  verifier: Verifier, proposal: Proposal, known: Case, settings: Settings
) -> Case:
  """Returns a failing case on a small part of the tree that is still clear.

  Args:
    verifier: The rule.
    proposal: How siblings are drawn.
    known: A failing case.
    settings: The settings of the known case.
  """

  def cases_on(tree) -> Sequence[Case]:
    V = tree.max_children + 1
    refused = unsupported_reason(verifier, tree, proposal)
    if refused or known.world.vocabulary < V:
      return []
    few = settings._replace(vocabulary=V, cases=18)
    try:
      with settings.precision:
        run = rules.compile_rule(verifier, proposal, tree, few)
        return [*map(run, plan.of_rule(proposal, tree, few))]
    except Exception:  # the rule refuses this tree
      return []

  found = [
    case for case in smaller(known, cases_on) if case.wrong == known.wrong
  ]
  small = smallest([known, *found]) or known
  return small._replace(faults=known.faults or small.faults)


def check_program(
  program: Callable,
  *,
  tree: Tree | str | None = None,
  proposal: Proposal | str = WITHOUT_REPLACEMENT,
  **fields,
) -> Certificate:
  """Certifies a program.

  Args:
    program: A function with a signature of programs.py. The names of its
      parameters tell which.
    tree: The tree that a verifier gets. None: several trees, to depth 5 and to
      4 siblings. "chain": several chains.
    proposal: How the siblings that a verifier gets are drawn.
    **fields: Fields of `Settings`.

  Raises:
    ExploreError: The program cannot be explored; one line tells why and where.
  """
  settings, proposal = Settings(**fields), proposals.resolve(proposal)
  signature = programs.signature(program)
  cycle = signature == programs.CYCLE
  if signature is None:
    raise UserError(
      f"{program} is neither a {programs.CYCLE} nor a {programs.VERIFY}: name"
      " its parameters so"
    )
  if cycle and proposal != WITHOUT_REPLACEMENT:
    raise UserError("a cycle is not told how siblings are drawn")
  if cycle and tree not in (None, plan.CHAINS):
    raise UserError(f"a cycle drafts for itself: leave out tree={tree!s}")
  trials, needed = plan.of_program(cycle, proposal, tree, settings)
  run = functools.partial(programs.run, program, proposal, settings)
  cases, runs = [], 0
  for trial in trials:
    case = run(trial.tree, trial.world)
    if case.wrong:
      programs.confirm(case, run)
    cases.append(case)
    runs += case.runs
    # A small failure may be rounding: further cases may show a real fault.
    if (case.wrong and case.distance > FLOAT32) or runs > settings.most_runs:
      break
  found, left = [case for case in cases if case.failed], settings.most_runs

  def cases_on(tree) -> Iterator[Case]:
    nonlocal left
    for world in plan.few(tree, settings.seed) if left > 0 else []:
      try:
        case = run(tree, world)
      except ExploreError:  # it may need more tokens, or another tree
        return
      left -= case.runs
      yield case

  if found and trials[0].world.vocabulary > 2:
    found.sort(key=lambda case: bool(case.wrong) and case.distance)
    found += smaller(found[-1], cases_on)
  shown = smallest(case for case in found if case.wrong)
  at_zero = smallest(
    case._replace(wrong=False) for case in found if case.at_zero
  )
  wrong = [case.wrong for case in cases]
  # A slow program was not tried on every kind of laws.
  if len(cases) < needed:
    wrong.append(None)
  if settings.strict and at_zero:
    wrong.append(True)
  notes = [] if cycle else [f"  {plan.told(trials)} {proposal.name}"]
  if not shown and len(cases) < len(trials):
    kinds = len(worlds.KINDS)
    every = len({trial.world.kind for trial in trials[:kinds]}) == kinds
    notes.append(
      f"  {runs} runs were made after {len(cases)} of {len(trials)} cases"
      + every * f"; the first {kinds} have each kind of laws"
    )
  outcome = verdict(wrong, ())
  if outcome == Verdict.UNDECIDED:
    notes.append(_way_out(cases, cycle))
  return Certificate(outcome, cases, shown, at_zero, notes=tuple(notes))


def assert_lossless(program: Callable, **asked) -> None:
  """Raises AssertionError with the smallest failing case.

  Args:
    program: A function with a signature of programs.py.
    **asked: What `check_program` is asked.
  """
  found = check_program(program, **asked)
  if not found.lossless:
    raise AssertionError(repr(found))


def _way_out(cases: Sequence[Case], cycle: bool) -> str:
  """Says which smaller certificate may decide."""
  V = max((x.world.vocabulary for x in cases if x.wrong is None), default=0)
  if V == plan.WIDE:
    return (
      "  too many paths with 64 tokens (a race of noise is one choice as an"
      " argmax); --vocab=5 leaves these cases out, and with them faults beyond"
      " the 50 likeliest tokens"
    )
  smaller = "--vocab=3" if cycle else "--trees=chain:2 --vocab=3"
  return f"  too many paths: {smaller} has fewer"


def _distinct(faults: Iterable[str]) -> tuple[str, ...]:
  """Returns one fault of each group that differs in its numbers alone."""
  first: dict[str, str] = {}
  for fault in faults:
    first.setdefault(re.sub(r"[\d.e+-]+", "", fault), fault)
  return tuple(first.values())
