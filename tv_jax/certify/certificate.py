"""One row of the certificate: a verifier, a proposal, a tree."""

import itertools
import re
from collections.abc import Iterable

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import cases, drafts, exact
from tv_jax.certify.findings import Check, Failure, ProposalCheck, Settings
from tv_jax.certify.proposal import check_proposal
from tv_jax.engine import contract
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import NO_CHILD, ROOT, Adaptive, Tree
from tv_jax.verifiers import (
  Decide,
  Verifier,
  misfit,
  resolve,
)

# The default trees, and the number of tokens on each.
USUAL = {
  "chain:5": 3,
  "kary:2x2": 3,
  "branching:4": 6,
  "chain:1": 64,  # tests rules that keep only the likeliest tokens
  "eagle": 6,  # all drafts of draft models with few likely tokens
}
_SETTINGS = Settings()
# Maximum number of decisions in a world whose drafts are all enumerated, and
# maximum number of nodes of an adaptive tree.
BUDGET, _COINS = 300_000, 20
# Maximum number of drafts in a thinned world, and in a world that is made to
# reach a family.
_FEW, _MANY = 100, 700


def enumerable(
  tree: Tree | Adaptive, proposal: Proposal, settings: Settings
) -> bool:
  """Returns whether a world has few enough drafts and patterns of coins."""
  V, N = settings.tokens(tree), len(tree)
  contexts = cases.num_contexts(V, tree.max_depth)
  if max(V**tree.max_children, contexts * V) > BUDGET:
    return False
  if isinstance(tree, Adaptive) and N > _COINS:
    return False
  patterns = len(exact.coins_of(tree, np.float64))
  return drafts.count_outcomes(tree, proposal, V) * patterns <= BUDGET


def check_size(
  proposal: Proposal, tree: Tree | Adaptive, settings: Settings
) -> None:
  """Refuses too few tokens, and an adaptive tree too large to enumerate."""
  V, most = settings.tokens(tree), tree.max_children
  if most >= V:
    raise ValueError(
      f"of {most} siblings the last may have no choice among {V} tokens, so"
      f" that no fault there shows: give {most + 1} tokens or more"
    )
  if cases.num_contexts(V, tree.max_depth + 1) >= 2**63:
    raise ValueError(f"{tree!r} is too deep to certify: give a smaller tree")
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
  """Certifies a rule for a proposal on a tree.

  Args:
    verifier: A name, module:name, a `Verifier` or a `decide`.
    proposal: A name, module:name or a `Proposal`. A proposal that is not built
      in is certified first. The rule is not run if the proposal is wrong.
    tree: A `Tree` or `Adaptive`, or a text that `tree.parse` reads.
    settings: How much to check.
    proposal_check: The result for the proposal, if it was certified before.
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
  decide = exact.make_decider(rule, proposal, tree, dtype, V)
  return _enumerate(decide, proposal, tree, settings)


def smallest_failure(
  verifier: Verifier,
  proposal: Proposal,
  known: Failure,
  settings: Settings,
  passed: Iterable[Tree] = (),
) -> Failure:
  """Returns a failure on a small part of the tree that is still clear.

  Parts of the tree that were offered in the known failure are tried, the
  smallest first. If the rule fails on none of them, the known failure is
  returned.

  Args:
    verifier: The rule.
    proposal: How siblings are drawn.
    known: A failure.
    settings: The settings of the known failure.
    passed: Trees on which the rule passed; parts of these are not tried.
  """
  if known.world is None or known.nodes is None:  # no distribution is known
    return known
  for part in _parts(known, passed):
    V = part.max_children + 1
    if misfit(verifier, part, proposal) or known.world.p.shape[1] < V:
      continue
    few = settings._replace(vocabulary=V, cases=18)
    try:
      decide = exact.make_decider(verifier, proposal, part, few.dtype, V)
      small = _enumerate(decide, proposal, part, few).failure
    except Exception:  # the rule refuses this tree
      continue
    if small is None or small.world is None:
      continue
    if not known.law_broken and small.contract_broken:
      return small
    enough = min(1e-2, 0.3 * known.distance)
    if known.law_broken and small.law_broken and small.distance >= enough:
      return small._replace(faults=known.faults)
  return known


def _parts(known: Failure, passed: Iterable[Tree]) -> list[Tree]:
  """Returns parts of a failing tree, the smallest first.

  A part has the path to a node, the elder siblings of nodes on the path, and
  none, one or all of the node's children. The last has all offered nodes.
  """
  tree = known.tree
  if isinstance(tree, Adaptive):
    return [tree_lib.from_parents([-1, 0, 0, 1])]
  nodes = () if known.nodes is None else np.flatnonzero(known.nodes).tolist()
  offered = {ROOT, *nodes}

  def closed(nodes):
    return _paths(tree, nodes)

  sets = {closed(offered)}
  for node in offered:
    below = [c for c in tree.children[node].tolist() if c != NO_CHILD]
    sets |= {closed([node]), closed([node, *below[:1]]), closed([node, *below])}
  seen = [frozenset(), *(_paths(other, range(len(other))) for other in passed)]
  sets = [x for x in sets if not any(x <= other for other in seen)]
  sets = [x for x in sets if len(x) < len(tree) - 1]
  sets.sort(key=lambda paths: (len(paths), sorted(paths)))
  return [tree_lib.from_paths(paths) for paths in sets]


def _paths(tree: Tree, nodes: Iterable[int]) -> frozenset[tuple[int, ...]]:
  """Returns the paths, as ranks, to nodes, ancestors and all elder siblings."""
  paths = set()
  for node in nodes:
    ranks = tree.rank[tree.paths[node]].tolist()[1 : tree.depth[node] + 1]
    for depth, last in enumerate(ranks):
      paths |= {(*ranks[:depth], rank) for rank in range(last + 1)}
  return frozenset(paths)


def _without_law(tree, settings, faults, method="not run", **fields) -> Check:
  return Check(
    method=method,
    vocabulary=settings.tokens(tree),
    failure=Failure(tree=tree, faults=tuple(faults), **fields),
  )


def _enumerate(decide, proposal, tree, settings) -> Check:
  """Certifies a rule on all drafts of worlds, thinned if these are too many."""
  V, dtype = settings.tokens(tree), settings.dtype
  whole = enumerable(tree, proposal, settings)
  allowed = exact.tolerance(dtype)
  contexts = cases.num_contexts(V, tree.max_depth)
  worlds = cases.generate(settings.seed, settings.cases, V, contexts)
  if not whole:
    # All kinds of worlds, thinned; then worlds that are made to reach a family.
    families = tree.inner.tolist()
    aims = [ROOT] * len(worlds) + families
    most = [_FEW] * len(worlds) + [_MANY] * len(families)
    made = cases.generate(
      settings.seed + 1, len(families), V, contexts, ["smooth"]
    )
    worlds = [
      drafts.thin(i, tree, proposal, world, *aim)
      for i, (world, *aim) in enumerate(
        zip([*worlds, *made], aims, most, strict=True)
      )
    ]
  outcomes = [exact.run(decide, tree, proposal, dtype, x) for x in worlds]
  if not all(outcome.complete for outcome in outcomes):
    seen = itertools.chain(*(outcome.faults for outcome in outcomes))
    # The paths that are missing are missing in the stop law, too.
    told = _distinct(x for x in seen if not x.startswith("stop_law"))
    if told:
      return _without_law(tree, settings, told, "too many paths")
    return Check(method="too many paths", vocabulary=V)
  failures = [
    Failure(
      tree=tree,
      world=world,
      faults=outcome.faults,
      law_broken=not outcome.distance <= allowed,
      contexts=outcome.contexts,
      law=outcome.law,
      target=outcome.target,
      nodes=outcome.nodes,
    )
    for world, outcome in zip(worlds, outcomes, strict=True)
    if outcome.faults or not outcome.distance <= allowed
  ]
  if not failures and all(outcome.idle for outcome in outcomes):
    fault = "the tree's policy drafts nothing, whatever the laws"
    return _without_law(tree, settings, [fault], "exact")
  faults = _distinct(itertools.chain(*(x.faults for x in failures)))
  if not all(outcome.believed for outcome in outcomes):
    # The thresholds are wrong, and so is the distribution computed from them.
    return _without_law(tree, settings, faults, "exact")
  failure = None
  if failures:
    failure = max(failures, key=_clearness)._replace(faults=faults)
  return Check(
    method="exact",
    vocabulary=V,
    cases=len(outcomes),
    distance=float(np.max([outcome.distance for outcome in outcomes])),
    allowed=allowed,
    length=float(np.mean([outcome.length for outcome in outcomes])),
    failure=failure,
  )


def _clearness(failure: Failure):
  """Returns a sort key: large for few nodes and contexts, and large errors."""
  assert failure.nodes is not None
  assert failure.contexts is not None
  size = failure.nodes.sum() + len(failure.contexts)
  return failure.law_broken, bool(failure.faults), failure.distance / size


def _distinct(faults: Iterable[str]) -> tuple[str, ...]:
  """Returns one fault of each group that differs in its numbers alone."""
  first: dict[str, str] = {}
  for fault in faults:
    first.setdefault(re.sub(r"[\d.e+-]+", "", fault), fault)
  return tuple(first.values())
