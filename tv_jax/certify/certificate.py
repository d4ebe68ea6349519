"""One row of the certificate: a verifier, a proposal, a tree."""

import dataclasses
import itertools
import re
from collections.abc import Iterable

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import bound, cases, drafts, exact, sampled
from tv_jax.certify.findings import Check, Failure, Settings
from tv_jax.certify.proposal import check_proposal
from tv_jax.engine import contract
from tv_jax.proposals import INVALID, PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import VERIFIERS, Decide, Verifier, misfit, resolve

_USUAL = Settings()
# Decisions a case may take before drafts are sampled instead of enumerated;
# coins of a decision, likewise.
BUDGET, _COINS = 300_000, 20
# Rows in the tables of laws of a sampled case.
_ROWS = 257
# Cases that are tossed, and drafts of each at least, where thresholds lie; so
# many drafts, too, where that is asked for.
_TOSSED, _TOSSES = 9, 4000


def enumerable(
  tree: Tree | Adaptive, proposal: Proposal, settings: Settings
) -> bool:
  """Returns whether all drafts and coins of a case fit into the budget."""
  V, N = settings.tokens(tree), len(tree)
  contexts = cases.num_contexts(V, tree.max_depth)
  if max(V**tree.max_children, contexts * V) > BUDGET or N > _COINS:
    return False
  outcomes = drafts.count_outcomes(tree, proposal, V)
  return outcomes * 2 ** (N - 1) <= BUDGET


def check_size(
  proposal: Proposal, tree: Tree | Adaptive, settings: Settings
) -> None:
  """Refuses what would not be seen, or cannot be enumerated or sampled."""
  V, most = settings.tokens(tree), tree.max_children
  if most >= V:
    raise ValueError(
      f"of {most} siblings the last may have no choice among {V} tokens, so"
      f" that no fault there shows: give {most + 1} tokens or more"
    )
  if not isinstance(tree, Adaptive):
    return
  if settings.sampled:
    raise ValueError(
      f"{tree!r} takes shape as it is drafted, and such drafts are not sampled:"
      " give trees that are known beforehand, such as kary:2x2"
    )
  if not enumerable(tree, proposal, settings):
    raise ValueError(
      f"{tree!r} is too large to enumerate: certify a smaller one, such as"
      " adaptive:2,2,2"
    )


def check(
  verifier: Verifier | Decide | str,
  proposal: Proposal | str,
  tree: Tree | Adaptive | str,
  settings: Settings = _USUAL,
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
    widths: Numbers of siblings that the proposal is certified for, beside 1 to
      3 and the tree's.

  Returns:
    What was found.
  """
  proposal, tree = proposals.resolve(proposal), tree_lib.resolve(tree)
  rule = resolve(verifier)
  if reason := misfit(rule, tree, proposal):
    raise ValueError(reason)
  check_size(proposal, tree, settings)
  if proposal not in PROPOSALS.values():
    own = tuple(sorted({*widths, *tree.family_sizes}))
    faults = check_proposal(proposal, settings, own).faults
    if faults:
      return _not_run(tree, settings, faults, proposal_wrong=True)
  V, dtype = settings.tokens(tree), settings.dtype
  if faults := contract.faults(rule, proposal, tree, dtype, V):
    return _not_run(tree, settings, faults)
  return _check_rule(rule, proposal, tree, settings)


def smallest_failure(
  verifier: Verifier, proposal: Proposal, known: Failure, settings: Settings
) -> Failure:
  """Returns a failure on the least tree and vocabulary that shows one.

  If the law is broken, that is what it shows; its faults are then those known.
  """
  if known.case is None:  # nothing was run
    return known
  ladder = ([-1, 0], [-1, 0, 0], [-1, 0, 1], [-1, 0, 1, 1], [-1, 0, 0, 1])
  ladder += ([-1, 0, 0, 1, 1, 2, 2],)
  smaller = [tree_lib.from_parents(one) for one in ladder]
  for tree, V in itertools.product(smaller, (2, 3)):
    if len(tree) >= len(known.tree) or misfit(verifier, tree, proposal):
      continue
    few = settings._replace(vocabulary=V, cases=18, bound=False)
    try:
      found = _check_rule(verifier, proposal, tree, few).failure
    except Exception:  # the rule itself refuses such a tree
      continue
    if found is not None and _alike(found, known):
      faults = known.faults if known.law_broken else found.faults
      return dataclasses.replace(found, faults=faults)
  return known


def _alike(small: Failure, known: Failure) -> bool:
  """Returns whether a smaller failure shows what is wrong in the known one.

  Not only that a distance is past the bound: one near rounding would be printed
  with two equal probabilities.
  """
  if not known.law_broken:
    return small.contract_broken
  enough = min(1e-2, 0.1 * known.distance)
  return bool(small.law_broken) and small.distance >= enough


def _not_run(tree, settings, faults, *, proposal_wrong=False) -> Check:
  return Check(
    method="not run",
    vocabulary=settings.tokens(tree),
    failure=Failure(
      tree=tree, faults=tuple(faults), proposal_wrong=proposal_wrong
    ),
  )


def _check_rule(rule, proposal, tree, settings) -> Check:
  """Certifies a rule whose contract was checked.

  By enumeration, if that is possible and sampling was not asked for.
  """
  if settings.sampled:
    settings = settings._replace(drafts=max(settings.drafts, _TOSSES))
  if settings.sampled or not enumerable(tree, proposal, settings):
    return _look(rule, proposal, tree, settings, exactly=False)[0]
  found, believed = _look(rule, proposal, tree, settings, exactly=True)
  if believed or found.failure is None:
    return found
  faults = found.failure.faults
  if isinstance(tree, Adaptive):  # whose drafts are not sampled
    return _not_run(tree, settings, faults)
  # Its thresholds cannot be believed: real coins tell the law.
  bare = dataclasses.replace(rule, offers=None, decision=rule.decide)
  few = settings._replace(
    cases=min(settings.cases, _TOSSED), drafts=max(settings.drafts, _TOSSES)
  )
  seen, _ = _look(bare, proposal, tree, few, exactly=False)
  failure = found.failure
  broken = seen.failure is not None and bool(seen.failure.law_broken)
  if seen.failure and broken:
    failure = seen.failure
  failure = dataclasses.replace(
    failure, faults=faults, law_broken=broken, sigmas=seen.distance
  )
  return dataclasses.replace(seen, failure=failure)


def _look(
  rule, proposal, tree, settings, *, exactly: bool
) -> tuple[Check, bool]:
  """Runs a rule on all cases; returns whether its thresholds are believed, too.

  If not, the law that was enumerated from them is not the output's.
  """
  V, dtype, count = settings.tokens(tree), settings.dtype, settings.drafts
  if exactly:
    rows = cases.num_contexts(V, tree.max_depth)
    allowed = exact.tolerance(dtype)
    run = exact.make_runner(rule, proposal, tree, dtype, V)
  else:
    rows, allowed = _ROWS, sampled.SIGMAS
    toss = sampled.make_runner(rule, proposal, tree, dtype, count)
  baseline = exact.make_lengths(VERIFIERS["token_level"], proposal, tree, dtype)
  errors, lengths, others, possible, failures = [], [], [], [], []
  idle, believed = isinstance(tree, Adaptive), True
  worlds = cases.generate(settings.seed, settings.cases, V, rows)
  for i, case in enumerate(worlds):
    outcome = run(case) if exactly else toss(case, settings.seed + i)
    errors.append(outcome.distance if exactly else outcome.sigmas)
    lengths.append(outcome.expected)
    others.append(baseline(case, outcome.drafts))
    if settings.bound and exactly:
      p = case.p.astype(dtype)
      possible.append(bound.on_drafts(p, outcome.drafts))
    idle &= bool((outcome.drafts.tokens[:, 1:] == INVALID).all())
    believed &= outcome.believed
    broken = not errors[-1] <= allowed
    if broken or outcome.faults:
      failures.append(
        Failure(
          tree=tree,
          case=case,
          faults=outcome.faults,
          law_broken=broken,
          sigmas=outcome.sigmas,
          law=outcome.law,
          target=outcome.target,
        )
      )
  if idle and not failures:
    told = "the tree's policy drafts nothing, whatever the laws"
    return _not_run(tree, settings, [told]), True
  less = np.subtract(others, lengths)
  worst = float(np.max(errors))
  found = Check(
    method="exact" if exactly else f"{count} drafts",
    vocabulary=V,
    cases=len(errors),
    distance=worst,
    allowed=allowed,
    expected=float(np.mean(lengths)),
    gain=float(np.mean(lengths) / np.mean(others) - 1),
    # Of what is realised a case is shorter by chance.
    shorter=int((less > (10 * allowed if exactly else 1e-8)).sum())
    if exactly or rule.offers
    else None,
    shortfall=float(max(less.max(), 0)),
    possible=float(np.mean(possible)) if possible else np.nan,
    sampled=0 if exactly else count * len(errors),
    failure=_worst(failures, None if exactly else worst) if failures else None,
  )
  return found, believed


def _worst(failures: list[Failure], sigmas: float | None) -> Failure:
  """Returns the first in which as much as possible is wrong."""
  found = max(failures, key=lambda one: (one.law_broken, bool(one.faults)))
  faults = _all_faults(failures)
  return dataclasses.replace(found, faults=faults, sigmas=sigmas)


def _all_faults(failures: Iterable[Failure]) -> tuple[str, ...]:
  """Of all cases; those that differ in numbers alone are one."""
  told: dict[str, str] = {}
  for failure in failures:
    for fault in failure.faults:
      told.setdefault(re.sub(r"[\d.e+-]+", "", fault), fault)
  return tuple(told.values())
