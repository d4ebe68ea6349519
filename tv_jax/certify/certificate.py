"""One row of the certificate: a verifier, a proposal, a tree."""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import bound as bound_lib
from tv_jax.certify import cases as cases_lib
from tv_jax.certify import drafts, exact, sampled
from tv_jax.certify.findings import Check, Failure, Settings
from tv_jax.certify.proposal import check_proposal
from tv_jax.engine import contract
from tv_jax.proposals import INVALID, PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import VERIFIERS, Decide, Verifier, misfit, resolve

_USUAL = Settings()
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
  tree: Tree | Adaptive,
  proposal: Proposal,
  settings: Settings,
  verifier: Verifier = VERIFIERS["token_level"],
) -> bool:
  """Returns whether all drafts and coins of a case fit into the budget."""
  V, widest = settings.tokens(tree), tree.max_children
  contexts = cases_lib.num_contexts(V, tree.max_depth)
  if V**widest > BUDGET or contexts * V > BUDGET:
    return False
  if len(tree) > _COINS:
    return False
  outcomes = drafts.count_outcomes(tree, proposal, V)
  return outcomes * exact.decisions(verifier, tree) <= BUDGET


def check_size(
  rule: Verifier, proposal: Proposal, tree: Tree | Adaptive, settings: Settings
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
  if not enumerable(tree, proposal, settings, rule):
    raise ValueError(
      f"{tree!r} is too large to enumerate: certify a smaller one, such as"
      " adaptive:2,2,2"
    )


def check(
  verifier: Verifier | Decide | str,
  proposal: Proposal | str,
  tree: Tree | Adaptive | str,
  settings: Settings = _USUAL,
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
  check_size(rule, proposal, tree, settings)
  if proposal not in PROPOSALS.values():
    own = {*widths, *tree.family_sizes}
    found = check_proposal(proposal, settings, tuple(sorted(own)))
    if not found.sound:
      return _not_run(tree, settings, found.faults, proposal_wrong=True)
  V, dtype = settings.tokens(tree), settings.dtype
  if faults := [*contract.faults(rule, proposal, tree, dtype, V)]:
    return _not_run(tree, settings, faults)
  return _check_rule(rule, proposal, tree, settings, tick)


def smallest_failure(
  verifier: Verifier, proposal: Proposal, known: Failure, settings: Settings
) -> Failure:
  """Returns a failure on the least tree and vocabulary that shows one.

  If the law is broken, that is what it shows; its faults are then those known.
  """
  if known.case is None:  # nothing was run
    return known
  ladder = [
    tree_lib.chain(1),
    tree_lib.kary(2, 1),
    tree_lib.chain(2),
    tree_lib.from_parents([-1, 0, 1, 1]),
    tree_lib.from_parents([-1, 0, 0, 1]),
    tree_lib.kary(2, 2),
  ]
  smaller = [other for other in ladder if len(other) < len(known.tree)]
  for tree, V in itertools.product(smaller, (2, 3)):
    if misfit(verifier, tree, proposal):
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
  failure = Failure(
    tree=tree, faults=tuple(faults), proposal_wrong=proposal_wrong
  )
  return Check(
    method="not run",
    cases=0,
    vocabulary=settings.tokens(tree),
    failure=failure,
  )


def _check_rule(verifier, proposal, tree, settings, tick=lambda: None) -> Check:
  """Certifies a rule whose contract was checked.

  By enumeration, if that is possible and sampling was not asked for.
  """
  if settings.sampled:
    more = settings._replace(drafts=max(settings.drafts, _TOSSES))
    found = _sample(verifier, proposal, tree, more, tick)
    return dataclasses.replace(found, tossed=True)
  if not enumerable(tree, proposal, settings, verifier):
    return _sample(verifier, proposal, tree, settings, tick)
  V, dtype = settings.tokens(tree), settings.dtype
  run = exact.make_runner(verifier, proposal, tree, dtype, V)
  allowed = exact.tolerance(dtype)
  seen = [
    *_look(
      lambda case, _: run(case),
      _cases(settings, V, cases_lib.num_contexts(V, tree.max_depth)),
      allowed,
      exact.make_lengths(VERIFIERS["token_level"], proposal, tree, dtype),
      tree,
      settings,
      tick,
    )
  ]
  failures = [one.failure for one in seen if one.failure]
  idle = isinstance(tree, Adaptive) and all(one.idle for one in seen)
  if idle and not failures:
    told = "the tree's policy drafts nothing, whatever the laws"
    return _not_run(tree, settings, [told])
  if not all(one.believed for one in seen):
    return _tossed(verifier, proposal, tree, settings, failures)
  return _summary("exact", V, seen, f"{allowed:g}", allowed)


def _tossed(verifier, proposal, tree, settings, failures) -> Check:
  """Returns the law where it can't be enumerated, by real coins."""
  faults = _all_faults(failures)
  if isinstance(tree, Adaptive):  # whose drafts are not sampled
    return _not_run(tree, settings, faults)
  bare = dataclasses.replace(verifier, offers=None, decision=verifier.decide)
  few = settings._replace(
    cases=min(settings.cases, _TOSSED), drafts=max(settings.drafts, _TOSSES)
  )
  found = _sample(bare, proposal, tree, few)
  broken = bool(found.failure and found.failure.law_broken)
  shown = found.failure if found.failure and broken else failures[0]
  failure = dataclasses.replace(
    shown,
    law_broken=broken,
    tossed=True,
    sigmas=found.distance,
    faults=faults,
  )
  return dataclasses.replace(found, failure=failure)


def _sample(verifier, proposal, tree, settings, tick=lambda: None) -> Check:
  count, dtype = settings.drafts, settings.dtype
  V = settings.tokens(tree)
  seen = _look(
    sampled.make_runner(
      verifier, proposal, tree, dtype, count, settings.sampled
    ),
    _cases(settings, V, _ROWS),
    sampled.SIGMAS,
    exact.make_lengths(VERIFIERS["token_level"], proposal, tree, dtype),
    tree,
    settings,
    tick,
  )
  bound = f"{sampled.SIGMAS:g} sigma"
  found = _summary(f"{count} drafts", V, [*seen], bound, 1e-9)
  failure = found.failure and dataclasses.replace(
    found.failure, sigmas=found.distance
  )
  return dataclasses.replace(
    found, sampled=found.cases * count, failure=failure
  )


class _Seen(NamedTuple):
  """What is kept of a case."""

  error: float
  length: float
  other: float  # token-level's
  possible: float
  believed: bool
  idle: bool
  failure: Failure | None


def _look(
  run, worlds, allowed, baseline, tree, settings, tick
) -> Iterator[_Seen]:
  """Runs a rule on cases, by `run` of a case and a seed."""
  for index, case in enumerate(worlds):
    outcome = run(case, settings.seed + index)
    sampled = outcome.sigmas is not None
    error = outcome.sigmas if sampled else outcome.distance
    broken = not error <= allowed
    possible = np.nan
    if settings.bound and not sampled:
      p = case.p.astype(settings.dtype)
      possible = bound_lib.on_drafts(p, outcome.drafts)
    yield _Seen(
      error=error,
      length=outcome.expected,
      other=baseline(case, outcome.drafts),
      possible=possible,
      believed=outcome.believed,
      idle=bool((outcome.drafts.tokens[:, 1:] == INVALID).all()),
      failure=_failure(tree, case, outcome, broken)
      if broken or outcome.faults
      else None,
    )
    tick()


def _cases(settings, V, rows) -> list[cases_lib.Case]:
  return cases_lib.generate(settings.seed, settings.cases, V, rows)


def _failure(tree, case, outcome, broken) -> Failure:
  """How a case was failed; if drafts were enumerated, on a telling one."""
  failure = Failure(
    tree=tree,
    case=case,
    faults=outcome.faults,
    law_broken=broken,
    law=outcome.law,
    target=outcome.target,
  )
  if outcome.nodes is None:
    return failure
  draft = _telling_draft(outcome, case.p.shape[1], tree.max_depth)
  drawn, places = drafts.tree_of(tree, outcome.drafts, draft)
  return dataclasses.replace(
    failure,
    tree=drawn,
    tokens=outcome.drafts.tokens[draft, places],
    stop=outcome.nodes[draft, places],
  )


def _telling_draft(outcome: exact.Outcome, V: int, depth: int) -> int:
  """The likeliest draft that holds most of the sequence that is most wrong."""
  worst = int(abs(outcome.law - outcome.target).argmax())
  path = np.unravel_index(worst, (V,) * (depth + 1))
  context, held = 0, np.zeros(len(outcome.drafts.chance))
  for length, token in enumerate(path[:-1], start=1):
    context = cases_lib.below(context, int(token), V)
    held[(outcome.drafts.context == context).any(axis=1)] = length
  return int((held + outcome.drafts.chance / 2).argmax())


def _summary(
  method, V: int, seen: list[_Seen], bound: str, rounding: float
) -> Check:
  lengths = np.array([one.length for one in seen])
  others = np.array([one.other for one in seen])
  failures = [one.failure for one in seen if one.failure]
  failure = None
  if failures:  # the first in which as much as possible is wrong
    worst = max(failures, key=lambda one: (one.law_broken, bool(one.faults)))
    failure = dataclasses.replace(worst, faults=_all_faults(failures))
  return Check(
    method=method,
    cases=len(seen),
    vocabulary=V,
    distance=float(np.max([one.error for one in seen])),
    bound=bound,
    expected=float(lengths.mean()),
    gain=float(lengths.mean() / others.mean() - 1),
    shorter=int((others - lengths > 10 * rounding).sum()),
    shortfall=float(max((others - lengths).max(), 0)),
    possible=float(np.mean([one.possible for one in seen])),
    failure=failure,
  )


def _all_faults(failures: Iterable[Failure]) -> tuple[str, ...]:
  """Of all cases; those that differ in numbers alone are one."""
  told: dict[str, str] = {}
  for failure in failures:
    for fault in failure.faults:
      told.setdefault(re.sub(r"[\d.e+-]+", "", fault), fault)
  return tuple(told.values())
