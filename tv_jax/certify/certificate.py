"""One row of the certificate: a verifier, a proposal, a tree."""

import dataclasses
import re
from collections.abc import Callable, Iterable

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import bound as bound_lib
from tv_jax.certify import cases as cases_lib
from tv_jax.certify import drafts, exact, growing, sampled
from tv_jax.certify.findings import Check, Failure, not_run
from tv_jax.certify.proposal import check_proposal
from tv_jax.certify.settings import DEFAULT, Settings
from tv_jax.engine import contract
from tv_jax.proposals import INVALID, PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import VERIFIERS, Decide, Verifier, misfit, resolve

# Decisions a case may take before drafts are sampled instead of enumerated.
BUDGET = 300_000
# Coins of a decision, likewise.
_COINS = 20
# Rows in the tables of laws of a sampled case.
_ROWS = 257
# Cases that are tossed, and drafts of each at least, where thresholds lie; so
# many drafts, too, where that is asked for.
_TOSSED, _TOSSES = 9, 4000


def enumerable(
  tree: Tree,
  proposal: Proposal,
  settings: Settings,
  verifier: Verifier = VERIFIERS["token_level"],
) -> bool:
  """Whether all drafts and coins of a case fit into the budget."""
  V, widest = settings.vocabulary, tree.max_children
  contexts = cases_lib.num_contexts(V, tree.max_depth)
  if V**widest > BUDGET or contexts * V > BUDGET:
    return False
  if verifier.num_coins(tree) > _COINS:
    return False
  outcomes = drafts.count_outcomes(tree, proposal, V)
  return outcomes * exact.decisions(verifier, tree) <= BUDGET


def check_size(
  rule: Verifier, proposal: Proposal, tree: Tree | Adaptive, settings: Settings
) -> None:
  """Refuses an adaptive tree that is too large: its drafts are not sampled."""
  small = enumerable(tree, proposal, settings, rule)
  if isinstance(tree, Adaptive) and settings.sampled:
    raise ValueError(
      f"{tree!r} takes shape as it is drafted, and such drafts are not sampled:"
      " give trees that are known beforehand, such as kary:2x2"
    )
  if isinstance(tree, Adaptive) and not small:
    raise ValueError(
      f"{tree!r} is too large to enumerate: certify a smaller one, such as"
      " adaptive:2,2,2"
    )


def check(
  verifier: Verifier | Decide | str,
  proposal: Proposal | str,
  tree: Tree | str,
  settings: Settings = DEFAULT,
  tick: Callable[[], None] = lambda: None,
  *,
  widths: tuple[int, ...] = (),
) -> Check:
  """Certifies one combination.

  Args:
    verifier: A name, module:name, a `Verifier` or a `decide`.
    proposal: A name, module:name or a `Proposal`. One that is not built in is
      certified first; the rule is not run if it is wrong.
    tree: A `Tree`, or what `tree.parse` reads.
    settings: How much to look at.
    tick: Called after each case.
    widths: Numbers of siblings that the proposal is certified for, beside 1 to
      3 and the tree's.

  Returns:
    What was found.
  """
  proposal, tree = proposals.resolve(proposal), tree_lib.resolve(tree)
  rule = resolve(verifier)
  if reason := misfit(rule, tree, proposal):
    raise ValueError(reason)
  if proposal not in PROPOSALS.values():
    own = {*widths, *tree.family_sizes}
    found = check_proposal(proposal, settings, tuple(sorted(own)))
    if not found.sound:
      return not_run(tree, [*found.faults], proposal_wrong=True)
  V, dtype = settings.vocabulary, settings.dtype
  if faults := [*contract.faults(rule, proposal, tree, dtype, V)]:
    return not_run(tree, faults)
  check_size(rule, proposal, tree, settings)
  small = settings.sampled or enumerable(tree, proposal, settings, rule)
  return (of_small if small else _sampled)(rule, proposal, tree, settings, tick)


def of_small(verifier, proposal, tree, settings, tick) -> Check:
  """Certifies by enumeration, for which it is small enough; or as asked."""
  if settings.sampled:
    more = settings._replace(drafts=max(settings.drafts, _TOSSES))
    found = _sampled(verifier, proposal, tree, more, tick)
    return dataclasses.replace(found, sampled=found.cases * more.drafts)
  dtype, V = settings.dtype, settings.vocabulary
  run = exact.make_runner(verifier, proposal, tree, dtype, V)
  baseline = exact.make_lengths(VERIFIERS["token_level"], proposal, tree, dtype)
  bound = exact.tolerance(dtype)
  found, lengths, others, failures, believed = [], [], [], [], True
  possible, idle = [], isinstance(tree, Adaptive)
  for case in _cases(tree, settings):
    outcome = run(case)
    idle &= bool((outcome.drafts.tokens[:, 1:] == INVALID).all())
    found.append(outcome.distance)
    lengths.append(outcome.expected)
    others.append(baseline(case, outcome.drafts))
    if settings.bound:
      p = case.p.astype(dtype)
      possible.append(bound_lib.on_drafts(p, outcome.drafts))
    believed &= outcome.believed
    broken = not outcome.distance <= bound
    if outcome.faults or broken:
      draft = _telling_draft(outcome, V, tree.max_depth)
      drawn, places = growing.outcome(tree, outcome.drafts, draft)
      failures.append(
        Failure(
          tree=drawn,
          case=case,
          faults=outcome.faults,
          law_broken=broken,
          law=outcome.law,
          target=outcome.target,
          tokens=outcome.drafts.tokens[draft, places],
          stop=outcome.nodes[draft, places],
        )
      )
    tick()
  if idle and not failures:
    return not_run(
      tree, ["the tree's policy drafts nothing, whatever the laws"]
    )
  if not believed:
    return _tossed(verifier, proposal, tree, settings, failures)
  check = _summary(
    "exact", found, f"{bound:g}", lengths, others, failures, bound
  )
  if possible:
    check = dataclasses.replace(check, possible=float(np.mean(possible)))
  return check


def _tossed(verifier, proposal, tree, settings, failures) -> Check:
  """The law where it can't be enumerated, by real coins."""
  if isinstance(tree, Adaptive):  # whose drafts are not sampled
    return not_run(tree, [*_all_faults(failures)])
  bare = dataclasses.replace(verifier, stop_law=None)
  few = settings._replace(
    cases=min(settings.cases, _TOSSED), drafts=max(settings.drafts, _TOSSES)
  )
  found = _sampled(bare, proposal, tree, few, lambda: None)
  broken = bool(found.failure and found.failure.law_broken)
  shown = found.failure if broken else failures[0]
  failure = dataclasses.replace(
    shown, law_broken=broken, tossed=True, faults=_all_faults(failures)
  )
  return dataclasses.replace(found, failure=failure)


def _telling_draft(outcome: exact.Outcome, V: int, depth: int) -> int:
  """The likeliest draft that holds most of the sequence that is most wrong."""
  worst = int(abs(outcome.law - outcome.target).argmax())
  path = np.unravel_index(worst, (V,) * (depth + 1))
  context, held = 0, np.zeros(len(outcome.drafts.chance))
  for length, token in enumerate(path[:-1], start=1):
    context = cases_lib.below(context, int(token), V)
    held[(outcome.drafts.context == context).any(axis=1)] = length
  return int((held + outcome.drafts.chance / 2).argmax())


def _sampled(verifier, proposal, tree, settings, tick) -> Check:
  count = settings.drafts
  run = sampled.make_runner(
    verifier, proposal, tree, settings.dtype, count, settings.sampled
  )
  baseline = sampled.make_lengths(
    VERIFIERS["token_level"], proposal, tree, settings.dtype
  )
  V = settings.vocabulary
  sigmas, lengths, others, failures = [], [], [], []
  for index, case in enumerate(
    cases_lib.generate(settings.seed, settings.cases, V, _ROWS)
  ):
    outcome = run(case, settings.seed + index)
    sigmas.append(outcome.sigmas)
    lengths.append(outcome.expected)
    others.append(baseline(case, outcome))
    broken = not outcome.sigmas <= sampled.SIGMAS
    if outcome.faults or broken:
      failures.append(
        Failure(
          tree=tree,
          case=case,
          faults=outcome.faults,
          law_broken=broken,
          law=outcome.law.ravel(),
          target=outcome.target.ravel(),
        )
      )
    tick()
  bound = f"{sampled.SIGMAS:g} sigma"
  return _summary(
    f"{count} drafts", sigmas, bound, lengths, others, failures, 1e-9
  )


def _summary(
  method, found, bound, lengths, others, failures, rounding
) -> Check:
  lengths, others = np.array(lengths), np.array(others)
  behind = others - lengths
  failure = None
  if failures:  # the first in which as much as possible is wrong
    worst = max(failures, key=lambda one: (one.law_broken, bool(one.faults)))
    failure = dataclasses.replace(worst, faults=_all_faults(failures))
  return Check(
    method=method,
    cases=len(found),
    distance=float(np.max(found)),
    bound=bound,
    expected=float(lengths.mean()),
    gain=float(lengths.mean() / others.mean() - 1),
    shorter=int((behind > 10 * rounding).sum()),
    shortfall=float(max(behind.max(), 0)),
    failure=failure,
  )


def _all_faults(failures: Iterable[Failure]) -> tuple[str, ...]:
  """Of all cases; those that differ in numbers alone are one."""
  told: dict[str, str] = {}
  for failure in failures:
    for fault in failure.faults:
      told.setdefault(re.sub(r"[\d.e+-]+", "", fault), fault)
  return tuple(told.values())


def _cases(tree, settings) -> list[cases_lib.Case]:
  V = settings.vocabulary
  contexts = cases_lib.num_contexts(V, tree.max_depth)
  return cases_lib.generate(settings.seed, settings.cases, V, contexts)
