"""One row of the certificate: a verifier, a proposal, a tree."""

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import drafts, outcome, worlds
from tv_jax.certify.findings import Check, Failure, ProposalCheck, Settings
from tv_jax.certify.proposal import check_proposal
from tv_jax.certify.worlds import World
from tv_jax.io.errors import UserError
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers import (
  VERIFIERS,
  Decide,
  Verifier,
  contract,
  resolve,
  unsupported_reason,
)

# The default trees, and the number of tokens on each.
USUAL = {
  "chain:5": 3,
  "parents:0,0,2,2,4,4": 3,  # second children of second children
  "branching:4": 6,
  "parents:0,0,0,2,3,3,3,3,7,8": 6,  # four children of a third child
  "chain:1": 64,  # tests rules that keep only the likeliest tokens
  "eagle": 6,  # all drafts of draft models with few likely tokens
}
_SETTINGS = Settings()
# Maximum number of decisions in a world whose drafts are all enumerated.
BUDGET = 300_000
# Maximum number of drafts in a thinned world, and in a world that is made to
# reach a family.
_FEW, _MANY = 100, 700


def enumerable(tree: Tree, proposal: Proposal, settings: Settings) -> bool:
  """Returns whether a world has few enough drafts and patterns of coins."""
  V = settings.tokens(tree)
  contexts = worlds.num_contexts(V, tree.max_depth)
  if max(V**tree.max_children, contexts * V) > BUDGET:
    return False
  decisions = outcome.count_patterns(tree)
  return drafts.count_outcomes(tree, proposal, V) * decisions <= BUDGET


def check_size(tree: Tree, settings: Settings) -> None:
  """Refuses a tree that is too deep to certify."""
  if worlds.num_contexts(settings.tokens(tree), tree.max_depth + 1) >= 2**63:
    raise UserError(f"{tree!r} is too deep to certify: give a smaller tree")


def check(
  verifier: Verifier | Decide | str,
  proposal: Proposal | str,
  tree: Tree | str,
  settings: Settings = _SETTINGS,
  *,
  proposal_check: ProposalCheck | None = None,
) -> Check:
  """Certifies a rule for a proposal on a tree.

  Args:
    verifier: A name, module:name, a `Verifier` or a `decide`.
    proposal: A name, module:name or a `Proposal`. A proposal that is not built
      in is certified first. The rule is not run if the proposal is wrong.
    tree: A `Tree`, or a text that `tree.parse` reads.
    settings: How much to check.
    proposal_check: The result for the proposal, if it was certified before.
  """
  proposal, tree = proposals.resolve(proposal), tree_lib.resolve(tree)
  rule = resolve(verifier)
  if reason := unsupported_reason(rule, tree, proposal):
    raise UserError(reason)
  check_size(tree, settings)
  if proposal_check is None and proposal not in PROPOSALS.values():
    widths = tuple(sorted(tree.family_sizes))
    proposal_check = check_proposal(proposal, settings, widths)
  if proposal_check and not proposal_check.sound:
    faults = proposal_check.faults
    return _without_law(tree, settings, faults, proposal_wrong=True)
  V, dtype = settings.tokens(tree), settings.dtype
  own = rule not in VERIFIERS.values()
  if faults := own and contract.rule_faults(rule, proposal, tree, dtype, V):
    return _without_law(tree, settings, faults)
  run = outcome.compile_rule(rule, proposal, tree, dtype, V)
  return _enumerate(run, proposal, tree, settings)


def smallest_failure(
  verifier: Verifier, proposal: Proposal, known: Failure, settings: Settings
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
  """
  if not (known.world and known.outcome):
    return known
  for part in parts(known.tree, np.flatnonzero(known.outcome.nodes)):
    V = part.max_children + 1
    if unsupported_reason(verifier, part, proposal):
      continue
    if known.world.p.shape[1] < V:
      continue
    few = settings._replace(vocabulary=V, cases=18)
    try:
      run = outcome.compile_rule(verifier, proposal, part, few.dtype, V)
      small = _enumerate(run, proposal, part, few).failure
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


def parts(tree: Tree, offered: Sequence[int] | np.ndarray) -> list[Tree]:
  """Returns parts of a failing tree, the smallest first.

  A part has the path to an offered node, the elder siblings of nodes on the
  path, and none, one or all of the node's children. The last part has all
  offered nodes.
  """
  nodes = [ROOT, *map(int, offered)]
  sets = {_paths(tree, nodes)}
  for node in nodes:
    below = [c for c in tree.children[node].tolist() if c != NO_CHILD]
    for some in ([], below[:1], below):
      sets.add(_paths(tree, [node, *some]))
  smaller = [paths for paths in sets if 0 < len(paths) < len(tree) - 1]
  smaller.sort(key=lambda paths: (len(paths), sorted(paths)))
  return [tree_lib.from_paths(paths) for paths in smaller]


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


def _worlds(proposal, tree, settings, *, whole: bool) -> list[World]:
  """Returns the worlds of a row, thinned if their drafts are too many."""
  V = settings.tokens(tree)
  contexts = worlds.num_contexts(V, tree.max_depth)
  made = worlds.generate(settings.seed, settings.cases, V, contexts)
  if whole:
    return made
  # All kinds of worlds, thinned; then worlds that are made to reach a family.
  families = tree.inner.tolist()
  aims = [(ROOT, _FEW)] * len(made) + [(node, _MANY) for node in families]
  made += worlds.generate(
    settings.seed + 1, len(families), V, contexts, ["smooth"]
  )
  return [
    drafts.thin(i, tree, proposal, world, *aim)
    for i, (world, aim) in enumerate(zip(made, aims, strict=True))
  ]


def _enumerate(run, proposal, tree, settings) -> Check:
  """Certifies a rule, compiled by `compile_rule`, in the worlds of a row."""
  V = settings.tokens(tree)
  allowed = outcome.tolerance(settings.dtype)
  whole = enumerable(tree, proposal, settings)
  made = _worlds(proposal, tree, settings, whole=whole)
  outcomes = [run(world) for world in made]
  if not all(found.complete for found in outcomes):
    seen = itertools.chain(*(found.faults for found in outcomes))
    # The stopping distribution lacks the missing paths, too.
    told = _distinct(x for x in seen if not x.startswith("stopping"))
    if told:
      return _without_law(tree, settings, told, "too many paths")
    return Check(method="too many paths", vocabulary=V)
  failures = [
    Failure(
      tree=tree,
      proposal=proposal,
      world=world,
      faults=found.faults,
      law_broken=not found.distance <= allowed,
      outcome=found,
    )
    for world, found in zip(made, outcomes, strict=True)
    if found.faults or not found.distance <= allowed
  ]
  faults = _distinct(itertools.chain(*(x.faults for x in failures)))
  if not all(found.believed for found in outcomes):
    # The thresholds are wrong, and so is the distribution computed from them.
    return _without_law(tree, settings, faults, "exact")
  failure = max(failures, key=_clearness, default=None)
  return Check(
    method="exact",
    vocabulary=V,
    cases=len(outcomes),
    whole=whole,
    distance=float(np.max([found.distance for found in outcomes])),
    length=float(np.mean([found.length for found in outcomes])),
    reached=np.any([found.reached for found in outcomes], axis=0),
    failure=failure and failure._replace(faults=faults),
  )


def _clearness(failure: Failure):
  """Returns a sort key: large for few nodes and contexts, and large errors."""
  assert failure.outcome is not None
  size = failure.outcome.nodes.sum() + len(failure.outcome.contexts)
  return failure.law_broken, bool(failure.faults), failure.distance / size


def _distinct(faults: Iterable[str]) -> tuple[str, ...]:
  """Returns one fault of each group that differs in its numbers alone."""
  first: dict[str, str] = {}
  for fault in faults:
    first.setdefault(re.sub(r"[\d.e+-]+", "", fault), fault)
  return tuple(first.values())
