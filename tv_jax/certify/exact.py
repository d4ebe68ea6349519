"""The exact law of what a rule puts out, by enumeration.

Axes: O outcomes of drafting, E patterns of coins, N nodes, V vocabulary.

Every draft, and on each draft every pattern of coins in {0, just under 1}: a
coin of 0 passes any threshold above 0, a coin just under 1 passes only a
threshold of 1. A pattern's weight is the product of a or 1 - a over the coins
that were compared with thresholds a, and of one half over the others, so no
order of comparing need be known. The thresholds come from `Decision.accept`,
which is not believed but probed: each pattern is run again with every compared
coin moved to its threshold's edge, and again with each anywhere on its side and
all other coins anywhere; neither may change anything.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import numpy as np

from tv_jax.certify import cases as cases_lib
from tv_jax.certify import compiling
from tv_jax.certify import drafts as drafts_lib
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Adaptive, Tree
from tv_jax.verifiers import NOT_OFFERED, Shape, Verifier

_BATCH = 1 << 14  # decisions of one compiled call


class Outcome(NamedTuple):
  """What a rule does to one case, on all drafts or on sampled ones."""

  law: np.ndarray  # [V ** n] of the output's first n tokens: depth + 1, or 2
  target: np.ndarray  # the same under the target
  length: float  # expected tokens gained in a cycle
  faults: tuple[str, ...]  # what of the contract is broken
  idle: bool = False  # whether a policy drafted nothing at all
  believed: bool = True  # whether `accept` decides, as the exact law takes it
  sigmas: float | None = None  # the largest deviation, if sampled

  @property
  def distance(self) -> float:
    """Total variation between the rule's law and the target's."""
    return 0.5 * float(np.abs(self.law - self.target).sum())

  @property
  def error(self) -> float:
    """Returns what is to be small: the distance, or a sample's deviation."""
    return self.distance if self.sigmas is None else self.sigmas


class _Decided(NamedTuple):
  """Decisions over drafts and all patterns, and whether probes agreed."""

  node: np.ndarray  # [O, E]
  residual: np.ndarray  # [O, E, V]
  accept: np.ndarray  # [O, E, N]
  fault: np.ndarray  # [O, E]
  honest: np.ndarray  # [O, E] whether coins at their edges change nothing
  closed: np.ndarray  # [O, E] whether nothing but the thresholds matters
  stop: np.ndarray | None  # [O, N] the rule's own stop law, if it has one


def make_runner(
  verifier: Verifier,
  proposal: Proposal,
  tree: Tree | Adaptive,
  dtype: type,
  V: int,
) -> Callable[..., Outcome]:
  """Makes a function that certifies one case on this tree; compiled once."""
  high = np.nextafter(dtype(1), dtype(0))
  coins = itertools.product((0, high), repeat=len(tree) - 1)
  patterns = np.array([(high, *rest) for rest in coins], dtype)
  outcomes = drafts_lib.count_outcomes(tree, proposal, V)
  chunk = max(1, min(outcomes, _BATCH // len(patterns)))

  def decide(topology, *draft):
    return verifier.decide(cast(Shape, topology or tree), proposal, *draft)

  def stop_law(topology, *draft):
    return verifier.stop_law(cast(Shape, topology or tree), proposal, *draft)

  each_pattern = jax.vmap(decide, in_axes=(None, None, None, None, 0))
  compiled = compiling.jit(jax.vmap(each_pattern))
  stops = compiling.jit(jax.vmap(stop_law)) if verifier.offers else None

  def run(case: cases_lib.Case, seed: int = 0) -> Outcome:
    del seed  # nothing is drawn
    p, q = (laws.astype(dtype) for laws in (case.p, case.q))
    drafts = drafts_lib.enumerate_drafts(tree, proposal, q.astype(float))

    def on_drafts(topology, tokens, rows):
      draft = topology, tokens, q[rows], p[rows]

      def at(eta):
        decision = compiled(*draft, eta)
        names = "node", "residual", "accept", "fault"
        return [np.asarray(getattr(decision, name)) for name in names]

      eta = np.broadcast_to(patterns, (len(tokens), *patterns.shape))
      first = at(eta)
      return _Decided(
        *first,
        honest=_same(first, at(_at_the_edge(eta, first[2]))),
        closed=_same(first, at(_on_its_side(eta, first[2], high))),
        stop=stops and stops(*draft),
      )

    every = drafts.topology, drafts.tokens, drafts.context
    decided = compiling.in_pieces(on_drafts, chunk, *every)
    return _judge(tree, drafts, decided, patterns == 0, p)

  return run


def _at_the_edge(eta, accept):
  """Returns the coins that were compared, moved to their thresholds' edges.

  Just under the threshold for a coin of 0, which passed; on it for a coin just
  under 1, which did not. A threshold of 0 or 1 leaves no room on its far side.
  """
  under = np.nextafter(accept, np.zeros_like(accept))
  edge = np.where(eta == 0, under, accept)
  movable = (accept > 0) & (accept < 1)
  return np.where(movable, edge, np.where(accept == 0, 0, eta))


def _on_its_side(eta, accept, high):
  """Every coin anywhere on its side of its threshold; others anywhere."""
  u = np.random.default_rng(0).random(eta.shape).astype(eta.dtype)
  inside = (accept >= 0) & (accept <= 1)
  a = np.where(inside, accept, 0)
  under = np.minimum(a * u, np.nextafter(a, np.zeros_like(a)))
  over = np.clip(a + (1 - a) * u, a, high)
  moved = np.where((eta == 0) & (a > 0), under, over)
  return np.where(accept == NOT_OFFERED, u * high, np.where(inside, moved, eta))


def _same(first, second):
  """[O, E] whether two runs came to the same, NaN for NaN."""
  same = [
    ((x == y) | ((x != x) & (y != y))).reshape(*x.shape[:2], -1).all(axis=-1)
    for x, y in zip(first, second, strict=True)
  ]
  return np.logical_and.reduce(same)


def _judge(tree, drafts, decided, low, p) -> Outcome:
  """Returns the output's law, and what else is wrong with the decisions."""
  depth, V = tree.max_depth, p.shape[1]
  p, residual = p.astype(float), decided.residual.astype(float)
  accept = decided.accept.astype(float)
  offered = accept != NOT_OFFERED
  factor = np.where(offered, np.where(low, accept, 1 - accept), 0.5)
  factor[..., ROOT] = 1
  weight = factor.prod(axis=-1)  # [O, E]
  live, sums = weight > 0, weight.sum(axis=1)
  odd = np.isnan(accept) | (offered & ((accept < 0) | (accept > 1)))
  node = np.clip(decided.node, 0, len(tree) - 1)
  worst = sums[abs(sums - 1).argmax()]
  lies = {
    "accept holds what is no probability": odd,
    "node is not a node of the tree": live & (node != decided.node),
    "accept lies: a coin moved to its edge changes the decision": live
    & ~decided.honest,
    "accept hides something: more than its thresholds decides": live
    & ~decided.closed,
    f"accept contradicts itself: a draft's paths have chance {worst:.6g}": (
      not odd.any() and abs(worst - 1) > tolerance(np.float64)
    ),
  }
  outcome = np.arange(len(node))[:, None]
  nodes = np.zeros(drafts.tokens.shape)
  np.add.at(nodes, (outcome, node), weight)
  stop = nodes if decided.stop is None else decided.stop
  gap = np.nan_to_num(abs(stop - nodes), nan=1.0).max()
  at_node = np.take_along_axis(accept, node[..., None], -1)[..., 0]
  tokens = np.take_along_axis(drafts.tokens, node, axis=1)
  faults = {
    # Whatever the path's weight, which such a coin makes 0.
    "a node is accepted with threshold 0": (node != ROOT) & (at_node == 0),
    "a node that could not be drawn (INVALID) is accepted": live
    & (tokens == INVALID),
    "residual is no law": live & improper(residual),
    "fault is raised on sound laws": live & decided.fault,
    "the tree's policy gives a NaN": drafts.fault,
    f"stop_law differs from the decisions by {gap:.1e}": (
      gap > tolerance(decided.accept.dtype)
    ),
  }
  # What the output begins with: the accepted path and the bonus token, ..
  weight = weight * drafts.chance[:, None] * (tokens != INVALID)
  begun = np.zeros(p.shape)
  context = drafts.context[outcome, node]
  np.add.at(begun, context, weight[..., None] * residual)
  # .. and from there on what the target says.
  ours, target = np.zeros(1), np.ones(1)
  for level in range(depth + 1):
    first = cases_lib.num_contexts(V, level - 1) if level else 0
    level = slice(first, cases_lib.num_contexts(V, level))
    ours = (ours[:, None] * p[level] + begun[level]).ravel()
    target = (target[:, None] * p[level]).ravel()
  every = (lies | faults).items()
  return Outcome(
    law=ours,
    target=target,
    length=float((drafts.chance @ nodes) @ (tree.depth + 1.0)),
    faults=tuple(text for text, wrong in every if np.any(wrong)),
    idle=drafts.topology is not None and (drafts.tokens[:, 1:] < 0).all(),
    believed=not any(map(np.any, lies.values())),
  )


def improper(residual: np.ndarray) -> np.ndarray:
  """Returns which rows [.., V] are no laws."""
  error = np.abs(residual.sum(axis=-1) - 1)
  return ~(error < 1e-3) | ~(residual >= 0).all(axis=-1)


def tolerance(dtype) -> float:
  """Returns how far rounding may move a lossless rule from the target."""
  return 1e-12 if dtype == np.float64 else 2e-6
