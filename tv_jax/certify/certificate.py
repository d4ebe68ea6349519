"""One row of the certificate: a verifier, a proposal, a tree."""

import itertools
import re
from collections.abc import Iterable

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import cases, drafts, exact, sampled
from tv_jax.certify.proposal import check_proposal
from tv_jax.certify.report import Check, Failure, ProposalCheck, Settings
from tv_jax.engine import contract
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Decide, Verifier, misfit, resolve

# Trees, and tokens in the vocabulary, that rules are certified on.
USUAL = {
  "chain:3": 3,
  "kary:2x2": 3,
  "branching:3": 5,  # a third sibling, with a choice
  "chain:1": 64,  # and all that is cut to the likeliest tokens
  "eagle": 6,
}
_SETTINGS = Settings()
# Decisions a case may take before drafts are sampled instead of enumerated;
# coins of a decision, likewise.
BUDGET, _COINS = 300_000, 20


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
  if isinstance(tree, Adaptive) and not enumerable(tree, proposal, settings):
    raise ValueError(
      f"{tree!r} is too large to enumerate: certify a smaller one, such as"
      " adaptive:2,2,2"
    )


def check(
  verifier: Verifier | Decide | str,
  proposal: Proposal | str,
  tree: Tree | Adaptive | str,
  settings: Settings = _SETTINGS,
  *,
  proposal_check: ProposalCheck | None = None,
) -> Check:
  """Certifies one combination.

  Args:
    verifier: A name, module:name, a `Verifier` or a `decide`.
    proposal: A name, module:name or a `Proposal`. One that is not built in is
      certified first; the rule is not run if it is wrong.
    tree: A `Tree`, or what `tree.parse` reads.
    settings: How much to look at.
    proposal_check: Of a proposal that was certified already.
  """
  proposal, tree = proposals.resolve(proposal), tree_lib.resolve(tree)
  rule = resolve(verifier)
  if reason := misfit(rule, tree, proposal):
    raise ValueError(reason)
  check_size(proposal, tree, settings)
  if proposal_check is None and proposal not in PROPOSALS.values():
    widths = tuple(sorted(tree.family_sizes))
    proposal_check = check_proposal(proposal, settings, widths)
  if proposal_check and not proposal_check.sound:
    faults = proposal_check.faults
    return _without_law(tree, settings, faults, proposal_wrong=True)
  V, dtype = settings.tokens(tree), settings.dtype
  if faults := contract.faults(rule, proposal, tree, dtype, V):
    return _without_law(tree, settings, faults)
  return _check_rule(rule, proposal, tree, settings)


def smallest_failure(
  verifier: Verifier, proposal: Proposal, known: Failure, settings: Settings
) -> Failure:
  """Returns a failure on the least tree and vocabulary that shows one.

  If the law is broken, that is what it shows; its faults are then those known.
  """
  if known.case is None:  # no law is known
    return known
  ladder = ([-1, 0], [-1, 0, 0], [-1, 0, 1], [-1, 0, 1, 1], [-1, 0, 0, 1])
  ladder += ([-1, 0, 0, 1, 1, 2, 2],)
  trees = map(tree_lib.from_parents, ladder)
  for tree, V in itertools.product(trees, (2, 3)):
    if len(tree) >= len(known.tree) or misfit(verifier, tree, proposal):
      continue
    few = settings._replace(vocabulary=V, cases=18)
    try:
      small = _check_rule(verifier, proposal, tree, few).failure
    except Exception:  # the rule itself refuses such a tree
      continue
    if small is None:
      continue
    if not known.law_broken and small.contract_broken:
      return small
    # Past the bound is not enough: a distance near rounding would be printed
    # with two equal probabilities.
    enough = min(1e-2, 0.1 * known.distance)
    if known.law_broken and small.law_broken and small.distance >= enough:
      return small._replace(faults=known.faults)
  return known


def _without_law(tree, settings, faults, method="not run", **fields) -> Check:
  return Check(
    method=method,
    vocabulary=settings.tokens(tree),
    failure=Failure(tree=tree, faults=tuple(faults), **fields),
  )


def _check_rule(rule, proposal, tree, settings) -> Check:
  """Certifies a rule whose shapes were checked, by enumeration if possible."""
  exactly = enumerable(tree, proposal, settings)
  V, dtype, count = settings.tokens(tree), settings.dtype, settings.drafts
  if exactly:
    rows = cases.num_contexts(V, tree.max_depth)
    allowed = exact.tolerance(dtype)
    run = exact.make_runner(rule, proposal, tree, dtype, V)
  else:
    rows, allowed = sampled.ROWS, sampled.SIGMAS
    run = sampled.make_runner(rule, proposal, tree, dtype, count)
  worlds = cases.generate(settings.seed, settings.cases, V, rows)
  outcomes = [run(case, settings.seed + i) for i, case in enumerate(worlds)]
  failures = [
    Failure(
      tree=tree,
      case=case,
      faults=outcome.faults,
      law_broken=not outcome.error <= allowed,
      law=outcome.law,
      target=outcome.target,
    )
    for case, outcome in zip(worlds, outcomes, strict=True)
    if outcome.faults or not outcome.error <= allowed
  ]
  if not failures and all(outcome.idle for outcome in outcomes):
    fault = "the tree's policy drafts nothing, whatever the laws"
    return _without_law(tree, settings, [fault], "exact")
  faults = _distinct(itertools.chain(*(x.faults for x in failures)))
  if not all(outcome.believed for outcome in outcomes):
    # The law was enumerated from thresholds that are wrong.
    return _without_law(tree, settings, faults, "exact")
  worst = float(np.max([outcome.error for outcome in outcomes]))
  failure = None
  if failures:
    failure = max(failures, key=lambda x: (x.law_broken, bool(x.faults)))
    failure = failure._replace(faults=faults, sigmas=None if exactly else worst)
  return Check(
    method="exact" if exactly else f"{count} drafts",
    vocabulary=V,
    cases=len(outcomes),
    distance=worst,
    allowed=allowed,
    length=float(np.mean([outcome.length for outcome in outcomes])),
    sampled=0 if exactly else count * len(outcomes),
    failure=failure,
  )


def _distinct(faults: Iterable[str]) -> tuple[str, ...]:
  """Returns the first of those that differ in numbers alone."""
  first: dict[str, str] = {}
  for fault in faults:
    first.setdefault(re.sub(r"[\d.e+-]+", "", fault), fault)
  return tuple(first.values())
