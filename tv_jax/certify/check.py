"""One row of the certificate: a verifier, a proposal, a tree."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tv_jax import tree as tree_lib
from tv_jax.certify import cases as cases_lib
from tv_jax.certify import drafts, exact, sampled
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import VERIFIERS, Verifier, misfit

# Decisions a case may take before drafts are sampled instead of enumerated.
BUDGET = 300_000
# Rows in the tables of laws of a sampled case.
_ROWS = 257


class Settings(NamedTuple):
  """How much to check."""

  vocabulary: int = 3
  cases: int = 27
  drafts: int = 1000  # where they are sampled
  dtype: type = np.float64
  seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
  """A case in which a rule was caught."""

  tree: Tree
  case: cases_lib.Case
  faults: tuple[str, ...]
  law: np.ndarray  # of the output's first tokens, under the rule
  target: np.ndarray  # the same under the target
  tokens: np.ndarray | None = None  # [N] of one draft on the way to the worst
  stop: np.ndarray | None = None  # [N] which node is accepted on that draft


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
  """What was found."""

  method: str  # how the law was had
  cases: int
  distance: float  # the largest total variation from the target
  bound: str  # what it was held against
  expected: float  # tokens gained in a cycle, mean over cases
  gain: float  # over token-level on the same drafts, relative
  shorter: int  # cases in which it gains less than token-level
  shortfall: float  # by how many tokens at most
  failure: Failure | None

  @property
  def lossless(self) -> bool:
    """Whether nothing was found against the rule."""
    return self.failure is None


def enumerable(tree: Tree, proposal: Proposal, settings: Settings) -> bool:
  """Whether all drafts and coins of a case fit into the budget."""
  V, widest = settings.vocabulary, int(tree.num_children.max())
  contexts = cases_lib.num_contexts(V, tree.max_depth)
  if len(tree) > 20 or V**widest > BUDGET or contexts * V > BUDGET:
    return False
  outcomes = drafts.count_outcomes(tree, proposal, V)
  return outcomes * exact.decisions(tree) <= BUDGET


def check(
  verifier: Verifier,
  proposal: Proposal,
  tree: Tree,
  settings: Settings,
  tick: Callable[[], None] = lambda: None,
) -> Check:
  """Certifies one combination; `tick` is called after each case."""
  method = _exact if enumerable(tree, proposal, settings) else _sampled
  return method(verifier, proposal, tree, settings, tick)


def _exact(verifier, proposal, tree, settings, tick) -> Check:
  dtype, V = settings.dtype, settings.vocabulary
  run = exact.make_runner(verifier, proposal, tree, dtype, V)
  baseline = exact.make_lengths(VERIFIERS["token_level"], proposal, tree, dtype)
  bound = exact.tolerance(dtype)
  found, lengths, others, failure = [], [], [], None
  for case in _cases(tree, settings):
    outcome = run(case)
    found.append(outcome.distance)
    lengths.append(outcome.expected)
    others.append(baseline(case, outcome.drafts))
    if failure is None and (outcome.faults or not outcome.distance <= bound):
      draft = _telling_draft(outcome, settings.vocabulary, tree.max_depth)
      failure = Failure(
        tree=tree,
        case=case,
        faults=outcome.faults,
        law=outcome.law,
        target=outcome.target,
        tokens=outcome.drafts.tokens[draft],
        stop=outcome.nodes[draft],
      )
    tick()
  return _summary("exact", found, f"{bound:g}", lengths, others, failure, bound)


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
  run = sampled.make_runner(verifier, proposal, tree, settings.dtype, count)
  baseline = sampled.make_lengths(
    VERIFIERS["token_level"], proposal, tree, settings.dtype
  )
  V = settings.vocabulary
  sigmas, lengths, others, failure = [], [], [], None
  for index, case in enumerate(
    cases_lib.generate(settings.seed, settings.cases, V, _ROWS)
  ):
    outcome = run(case, settings.seed + index)
    sigmas.append(outcome.sigmas)
    lengths.append(outcome.expected)
    others.append(baseline(case, outcome))
    if failure is None and (
      outcome.faults or not outcome.sigmas <= sampled.SIGMAS
    ):
      failure = Failure(
        tree=tree,
        case=case,
        faults=outcome.faults,
        law=outcome.law.ravel(),
        target=outcome.target.ravel(),
      )
    tick()
  bound = f"{sampled.SIGMAS:g} sigma"
  return _summary(
    f"{count} drafts", sigmas, bound, lengths, others, failure, 1e-9
  )


def _summary(method, found, bound, lengths, others, failure, rounding) -> Check:
  lengths, others = np.array(lengths), np.array(others)
  behind = others - lengths
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


def _cases(tree, settings) -> list[cases_lib.Case]:
  V = settings.vocabulary
  contexts = cases_lib.num_contexts(V, tree.max_depth)
  return cases_lib.generate(settings.seed, settings.cases, V, contexts)


def smallest_failure(
  verifier: Verifier, proposal: Proposal, known: Failure, settings: Settings
) -> Failure:
  """A failure on the least tree and vocabulary that shows one."""
  for tree, V in _ladder(known.tree):
    if misfit(verifier, tree, proposal):
      continue
    smaller = settings._replace(vocabulary=V, cases=18)
    try:
      failure = _exact(verifier, proposal, tree, smaller, lambda: None).failure
    except ValueError:  # the rule itself refuses such a tree
      continue
    if failure is not None and _alike(failure, known):
      return failure
  return known


def _alike(small: Failure, known: Failure) -> bool:
  """Whether a smaller failure shows what is wrong in the known one.

  Not only that a distance is past the bound: one near rounding would be printed
  with two equal probabilities.
  """
  if small.faults:
    return True
  distance, other = (
    0.5 * abs(failure.law - failure.target).sum() for failure in (small, known)
  )
  return distance >= min(1e-2, 0.1 * other)


def _ladder(tree: Tree) -> Iterator[tuple[Tree, int]]:
  """Trees smaller than this one, from the least."""
  trees = [
    tree_lib.chain(1),
    tree_lib.kary(2, 1),
    tree_lib.chain(2),
    tree_lib.from_parents([-1, 0, 1, 1]),
    tree_lib.from_parents([-1, 0, 0, 1]),
    tree_lib.kary(2, 2),
  ]
  smaller = [other for other in trees if len(other) < len(tree)]
  return itertools.product(smaller, (2, 3))
