"""The exact distribution of a rule's output: all drafts, all paths of coins.

Axes: O drafts, E patterns of coins, N nodes, U contexts, V vocabulary.

Each draft is decided with several patterns of coins in {0, just under 1}. A
coin of 0 passes any threshold above 0. A coin just under 1 passes only a
threshold of 1. Small trees take all patterns. Larger trees take a pattern for
each node: the coins on the path to the node are 0. These patterns reach every
outcome of a rule that offers children before their parents, or that goes down
from the root.

Two patterns have the same path if they compare the same coins with the same
results. The probability of a path is the product of a or 1 - a over the
thresholds a of these coins, and is divided among the patterns of the path. So
the order of comparisons need not be known. The paths of a draft must sum to 1.

Values that a rule should not read are random: the root's token, and the rows
below nodes that could not be drawn. A leaf's row of q may also be scaled, 0 or
NaN. The root needs no coin. If a rule reports a threshold for it, all patterns
are tried with a root's coin of 0, too.

The thresholds come from `Decision.threshold`. Two probes test them. The first
moves every compared coin to the edge of its threshold. The second moves every
compared coin at random on its side of its threshold, and the other coins at
random. Neither may change the decision.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from tv_jax.certify import compiling, plan, words, worlds
from tv_jax.certify import drafts as drafts_lib
from tv_jax.certify.compare import compare
from tv_jax.certify.plan import SMALL
from tv_jax.certify.report import Case, Settings
from tv_jax.certify.worlds import World
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import NOT_OFFERED, Draft, Verifier

_BATCH = 1 << 14  # decisions in a compiled call
# Drafts in a compiled call if the number of drafts depends on the world.
_FEW = 64
# Events at a node. "offered": it was offered with a threshold above 0. In the
# other events its turn came (its parent was entered, its elder siblings were
# rejected), and p = q > 0 at its token, or q was one-hot, or it was INVALID.
REACHED = "offered", "p = q", "one-hot q", "INVALID"
# Factors of leaves' rows of q, which no rule may read.
_SCALES = 1, 0, 3, np.nan


class Decided(NamedTuple):
  """Decisions on drafts, for each pattern of coins."""

  node: np.ndarray  # [O, E]
  residual: np.ndarray  # [O, E, V]
  threshold: np.ndarray  # [O, E, N]
  fault: np.ndarray  # [O, E]
  stop: np.ndarray | None  # [O, N] the rule's `stopping`, if it has one
  # Whether each of the two probes leaves the decision unchanged.
  same_at_edge: np.ndarray  # [O, E]
  same_on_side: np.ndarray  # [O, E]


def compile_rule(
  verifier: Verifier, proposal: Proposal, tree: Tree, settings: Settings
) -> Callable[[World], Case]:
  """Compiles a rule as a function of a world; it tries all drafts."""
  V, dtype = settings.tokens(tree), settings.dtype
  coins_low = plan.coins_low(tree)
  high = np.nextafter(dtype(1), dtype(0))
  leaves = tree.num_children == 0
  count = drafts_lib.count_outcomes(tree, proposal, V)
  count = count if len(tree) <= SMALL else min(count, _FEW)
  chunk = max(1, int(min(count, _BATCH // len(coins_low))))

  def decide(tokens, q, p, eta):
    draft = Draft(tree, proposal, tokens, q, p)
    offers = verifier.offers and verifier.offers(draft)
    decide = functools.partial(verifier.decide, draft, offers=offers)
    decision = jax.vmap(decide)(eta)
    stop = verifier.stopping(draft, offers) if offers else None
    return *(getattr(decision, x) for x in Decided._fields[:4]), stop

  compiled = compiling.jit(jax.vmap(decide))

  def run(world: World) -> Case:
    p, q = (rows.astype(dtype) for rows in world.rows(tree.max_depth))
    drafts = drafts_lib.enumerate_drafts(tree, proposal, q.astype(float))
    assert drafts is not None
    count = len(drafts.tokens)
    rng = np.random.default_rng(int(p[0, 0] * 2**30))
    tokens, rows = drafts.tokens.copy(), drafts.context % len(p)
    any_row = rng.integers(len(p), size=rows.shape)
    rows = np.where(tokens == INVALID, any_row, rows)
    tokens[:, ROOT] = rng.integers(V, size=count)
    scales = rng.choice(np.array(_SCALES, dtype), count)

    def on_drafts(tokens, rows, scale, eta):
      q_rows = q[rows]
      q_rows[:, leaves] *= scale[:, None, None]
      draft = tokens, q_rows, p[rows]

      def at(eta):
        return jax.tree.map(np.asarray, compiled(*draft, eta))

      first = at(eta)
      _, _, threshold, *_ = first
      edge = at(_at_the_edge(eta, threshold))
      side = at(_on_its_side(eta, threshold, high))
      return Decided(
        *first,
        same_at_edge=_same(first[:4], edge[:4]),
        same_on_side=_same(first[:4], side[:4]),
      )

    def on_all(low):
      eta = np.where(low, dtype(0), high)
      every = tokens, rows, scales, np.broadcast_to(eta, (count, *eta.shape))
      return compiling.in_pieces(on_drafts, chunk, *every)

    low, decided = coins_low, on_all(coins_low)
    if (decided.threshold[..., ROOT] != NOT_OFFERED).any():
      with_root = low | (np.arange(len(tree)) == ROOT)
      both = decided, on_all(with_root)
      decided = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *both)
      low = np.concatenate([low, with_root])
    given = worlds.of_rows(world.kind, p.astype(float), q.astype(float))
    return _judge(tree, given, drafts, decided, low)

  return run


def _at_the_edge(eta, threshold):
  """Moves the compared coins to the edges of their thresholds.

  A coin of 0 passed and moves to just under its threshold. A coin just under 1
  failed and moves to its threshold. Thresholds of 0 and 1 have a single side.
  """
  under = np.nextafter(threshold, np.zeros_like(threshold))
  edge = np.where(eta == 0, under, threshold)
  movable = (threshold > 0) & (threshold < 1)
  return np.where(movable, edge, np.where(threshold == 0, 0, eta))


def _on_its_side(eta, threshold, high):
  """Moves compared coins at random on their sides, and others anywhere."""
  u = np.random.default_rng(0).random(eta.shape).astype(eta.dtype)
  inside = (threshold >= 0) & (threshold <= 1)
  a = np.where(inside, threshold, 0)
  under = np.minimum(a * u, np.nextafter(a, np.zeros_like(a)))
  over = np.clip(a + (1 - a) * u, a, high)
  moved = np.where((eta == 0) & (a > 0), under, over)
  return np.where(
    threshold == NOT_OFFERED, u * high, np.where(inside, moved, eta)
  )


def _same(first, second):
  """Returns where [O, E] two runs are equal; NaN equals NaN."""
  same = [
    ((x == y) | ((x != x) & (y != y))).reshape(*x.shape[:2], -1).all(axis=-1)
    for x, y in zip(first, second, strict=True)
  ]
  return np.logical_and.reduce(same)


def _weights(threshold: np.ndarray, low: np.ndarray) -> np.ndarray:
  """Returns weights [O, E]: a path's probability over its number of patterns.

  Args:
    threshold: [O, E, N] the thresholds, float64.
    low: [E, N] whether a coin is 0.
  """
  compared = threshold != NOT_OFFERED
  factor = np.where(compared, np.where(low, threshold, 1 - threshold), 1)
  path = np.where(compared, 1 + low, 0)
  count = threshold.shape[-1]
  numbers = np.random.default_rng(0).integers(1 << 60, size=count)
  path = path @ numbers  # a hash of each path; overflow is harmless
  likes = (path[:, :, None] == path[:, None, :]).sum(axis=-1)
  return factor.prod(axis=-1) / likes


def _judge(tree, world, drafts, decided, low) -> Case:
  """Computes the output's distribution and the faults of the decisions."""
  residual, threshold = (
    array.astype(float) for array in (decided.residual, decided.threshold)
  )
  compared = threshold != NOT_OFFERED
  weight = _weights(threshold, low)
  live, sums = weight > 0, weight.sum(axis=1)
  odd = np.isnan(threshold) | (compared & ((threshold < 0) | (threshold > 1)))
  worst = sums[abs(sums - 1).argmax()]
  off = not odd.any() and abs(worst - 1) > tolerance(np.float64)
  every_pattern = len(tree) <= SMALL
  node = np.clip(decided.node, 0, len(tree) - 1)
  at_node = np.take_along_axis(threshold, node[..., None], axis=-1)[..., 0]
  invalid = np.take_along_axis(drafts.tokens, node, axis=1) == INVALID
  is_law = (abs(residual.sum(axis=-1) - 1) < 1e-3) & (residual >= 0).all(
    axis=-1
  )
  nodes = np.zeros(drafts.tokens.shape)
  np.add.at(nodes, (np.arange(len(node))[:, None], node), weight)
  stop = nodes if decided.stop is None else decided.stop
  gap = np.nan_to_num(abs(stop - nodes), nan=1.0).max()
  lies = {
    "a threshold is no probability": odd,
    "node is not a node of the tree": live & (node != decided.node),
    "threshold lies: a coin moved to its edge changes the decision": (
      live & ~decided.same_at_edge
    ),
    "threshold hides something: more than its thresholds decides": (
      live & ~decided.same_on_side
    ),
    f"threshold contradicts itself: a draft's paths have chance {worst:.6g}": (
      off and every_pattern
    ),
  }
  faults = lies | {
    "a node is accepted with threshold 0": (node != ROOT) & (at_node == 0),
    "a node that could not be drawn (INVALID) is accepted": live & invalid,
    "residual is no law": live & ~is_law,
    "fault is raised on sound laws": live & decided.fault,
    f"stopping differs from the decisions by {gap:.1e}": (
      gap > tolerance(decided.threshold.dtype)
    ),
  }
  # Where the thresholds lie, the distribution computed from them does, too.
  complete = every_pattern or not off
  known = complete and not any(map(np.any, lies.values()))
  told = [fault for fault, wrong in faults.items() if np.any(wrong)]
  if not complete:  # the stopping distribution lacks the missing paths, too
    told = [fault for fault in told if not fault.startswith("stopping")]
  residual = np.where(np.isfinite(residual), residual, 0)
  chances = _chances(drafts, node, weight * ~invalid, residual)
  distance, prefix = compare(
    chances,
    lambda path: world.at(path)[0].tolist(),
    tolerance(decided.threshold.dtype),
  )
  of_live = np.where(live[..., None], threshold, NOT_OFFERED)
  details = ()
  if prefix:
    details = _example(tree, drafts, of_live, prefix.tokens, world.vocabulary)
  return Case(
    tree=tree,
    world=world,
    runs=node.size,
    length=float((drafts.chance @ nodes) @ (tree.depth + 1.0)),
    distance=distance,
    wrong=bool(prefix) if known else None,
    prefix=prefix,
    faults=tuple(told),
    details=tuple(details),
    reached=_reached(tree, drafts, of_live > 0, low, world),
  )


def _reached(tree, drafts, offered, low, world) -> np.ndarray:
  """Returns which of `REACHED` happened at which node [4, N].

  Args:
    tree: The tree.
    drafts: The drafts.
    offered: [O, E, N] whether a node was offered with a threshold above 0.
    low: [E, N] whether a coin is 0.
    world: The distributions.
  """
  nodes = np.arange(len(tree))
  siblings = tree.parent[:, None] == tree.parent
  elder = (siblings & (nodes < nodes[:, None])).astype(np.float32)
  # A rule may offer children before their parents.
  entered = offered | (offered | (nodes == ROOT))[..., tree.parent]
  spared = (offered & low).astype(np.float32) @ elder.T == 0
  turn = (entered & spared).any(axis=1) & (nodes != ROOT)
  p, q = world.rows(tree.max_depth)
  rows, tokens = drafts.context[:, tree.parent] % len(p), drafts.tokens
  drawn = tokens != INVALID
  q_at = q[rows, tokens]
  ties = (p[rows, tokens] == q_at) & (q_at > 0)
  sure = (q.max(axis=1) == 1)[rows]
  above = (drawn | (nodes == ROOT))[:, tree.parent]
  every = (
    offered.any(axis=1),
    turn & drawn & ties,
    turn & drawn & sure,
    turn & ~drawn & above,
  )
  return np.any(np.stack(every), axis=1)


def _chances(drafts, node, weight, residual) -> dict[tuple, float]:
  """Returns the probability of each output.

  Args:
    drafts: The drafts.
    node: [O, E] the accepted node.
    weight: [O, E] probability of a path, given the draft.
    residual: [O, E, V] distribution of the bonus token.
  """
  V, contexts = residual.shape[-1], np.unique(drafts.context)
  ended = np.zeros((len(contexts), V))
  context = np.take_along_axis(drafts.context, node, axis=1)
  weight = weight * drafts.chance[:, None]
  place = np.searchsorted(contexts, context)
  np.add.at(ended, place, weight[..., None] * residual)
  paths: dict[int, tuple[int, ...]] = {0: ()}
  for context in contexts.tolist()[1:]:  # parents first
    above, token = divmod(context - 1, V)
    paths[context] = *paths[above], token
  begun, ended = [*paths.values()], ended.tolist()
  return {
    (*path, token): chance
    for path, row in zip(begun, ended, strict=True)
    for token, chance in enumerate(row)
    if chance
  }


def _example(tree, drafts, threshold, prefix, V) -> Iterator[str]:
  """Yields the siblings of the likeliest draft that goes furthest on a prefix.

  Args:
    tree: The tree.
    drafts: The drafts.
    threshold: [O, E, N] the thresholds; NOT_OFFERED where no path compares.
    prefix: The tokens of the prefix.
    V: Number of tokens.
  """
  contexts = [0]
  for token in prefix:
    contexts.append(worlds.below(contexts[-1], token, V))
  along = np.isin(drafts.context, contexts) & (drafts.tokens != INVALID)
  depth = np.where(along, tree.depth, 0).max(axis=1)
  draft = np.lexsort([drafts.chance, depth])[-1]
  for node in tree.inner[along[draft, tree.inner]].tolist():
    below = tree.children[node, : tree.num_children[node]]
    passed = threshold[draft][:, below].max(axis=0)
    passed = ("-" if x == NOT_OFFERED else f"{x:.4g}" for x in passed)
    yield (
      f"  in a draft nodes {' '.join(map(str, below))} are"
      f" {words.siblings(drafts.tokens[draft, below])}; thresholds"
      f" {' '.join(passed)}"
    )


def tolerance(dtype) -> float:
  """Returns how far rounding may move a lossless rule from the target."""
  return 1e-12 if dtype == np.float64 else 2e-6
