"""The test on sampled drafts, for trees with too many drafts to enumerate.

Only the drafts are random; the proposal's `draw` draws them. Given a draft, the
distribution of the accepted node and the bonus token is known exactly. Two
averages over drafts must equal the target's within 5 standard errors: the
distribution of the first two tokens, and at every depth the means of some
functions of the next token. A rule with paths that `exact.coins_of` does not
reach gets the same number of random coins instead.

Axes: S drafts, E coins, N nodes, V vocabulary, F functions.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tv_jax.certify import drafts as drafts_lib
from tv_jax.certify import exact
from tv_jax.certify.cases import World, below
from tv_jax.certify.exact import Decided
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Tree

SIGMAS, WORLDS = 5.0, 2
_SIGNS = 4  # random functions
_RISK = 0.05  # probability that a bound is wrong, over all worlds


class Sample(NamedTuple):
  """A rule's output in one world, over sampled drafts."""

  sigmas: float  # the largest deviation in standard errors
  bound: float  # 95 % bound on the total variation of the first two tokens
  length: float  # expected tokens of a cycle
  faults: tuple[str, ...]
  law: np.ndarray  # [V, V] distribution of the first two tokens
  target: np.ndarray  # [V, V] the same under the target


def estimate(
  decide: Callable[..., Decided],
  tree: Tree,
  proposal: Proposal,
  world: World,
  dtype: type,
  count: int,
  seed: int,
) -> Sample:
  """Tests a rule in one world.

  Args:
    decide: What `exact.make_decider` returned for the rule.
    tree: The tree.
    proposal: How siblings are drawn.
    world: The world.
    dtype: The rule's dtype.
    count: Number of drafts.
    seed: Seed of the drafts.
  """
  p, q = (rows.astype(dtype).astype(float) for rows in (world.p, world.q))
  drafts = drafts_lib.draw_drafts(tree, proposal, q.astype(dtype), count, seed)

  ends, faults = _ends(decide, tree, drafts, world, dtype)
  law, target = _first_two(tree, drafts, ends, p)
  off = _surprise(tree, drafts, ends, p, q)
  error = law.std(axis=0, ddof=1).sum() / count**0.5
  distance = abs(law.mean(axis=0) - target).sum()
  # An event that was never drawn shows no variance. `rare / count` is added, so
  # that an unseen event of probability 15 / count passes at 5 standard errors.
  sigmas = [
    np.abs(values.mean(axis=0) - mean)
    / (values.std(axis=0, ddof=1) / count**0.5 + rare / count)
    for values, mean, rare in ((law, target, 3), (off, 0.0, 6))
  ]
  return Sample(
    sigmas=float(np.max([x.max() for x in sigmas])),
    bound=(distance + error) / 2
    + (np.log(WORLDS / _RISK) / (2 * count)) ** 0.5,
    length=float((ends.sum(axis=2) @ (tree.depth + 1.0)).mean()),
    faults=faults,
    law=law.mean(axis=0),
    target=target,
  )


def _ends(decide, tree, drafts, world, dtype):
  """Returns the probability [S, N, V] of each end of a cycle, and all faults.

  An end is the accepted node and the bonus token.
  """
  count = len(drafts.tokens)
  coins = exact.coins_of(tree, dtype)
  low = coins == 0
  coins = np.broadcast_to(coins, (count, *coins.shape))
  made = decide(world, drafts, coins)
  weight = exact.weights_of(made.accept.astype(float), low)
  tossed = (abs(weight.sum(axis=1) - 1) > exact.tolerance(np.float64)).any()
  if tossed:
    coins = np.random.default_rng(0).random(coins.shape).astype(dtype)
    made = decide(world, drafts, coins)
    weight = np.full(made.node.shape, 1 / made.node.shape[1])
  node = np.clip(made.node, 0, len(tree) - 1)
  ends = np.zeros((*drafts.tokens.shape, made.residual.shape[-1]))
  draft = np.arange(count)[:, None]
  np.add.at(ends, (draft, node), weight[..., None] * made.residual)
  live = weight > 0
  gap = 0.0
  if made.stop is not None and not tossed:
    gap = abs(made.stop - ends.sum(axis=2)).max()
  tokens = np.take_along_axis(drafts.tokens, node, axis=1)
  faults = {
    "node is not a node of the tree": node != made.node,
    "a node that could not be drawn (INVALID) is accepted": tokens == INVALID,
    "residual is no law": exact.improper(made.residual.astype(float)),
    "fault is raised on sound laws": made.fault,
    f"stop_law differs from the decisions by {gap:.1e}": (
      not gap <= 10 * exact.tolerance(dtype)
    ),
  }
  return ends, tuple(x for x, wrong in faults.items() if np.any(live & wrong))


def _first_two(tree, drafts, ends, p):
  """Returns the distributions [S, V, V] of two tokens, and p's [V, V]."""
  V, draft = p.shape[1], np.arange(len(ends))
  after = p[below(0, np.arange(V), V) % len(p)]
  law = ends[:, ROOT, :, None] * after
  reached = ends.sum(axis=2) @ tree.ancestors
  for node in np.flatnonzero(tree.depth == 1):
    law[draft, drafts.tokens[:, node]] += ends[:, node]
  for node in np.flatnonzero(tree.depth == 2):
    above = drafts.tokens[:, tree.parent[node]]
    law[draft, above, drafts.tokens[:, node]] += reached[:, node]
  return law, p[0][:, None] * after


def _surprise(tree, drafts, ends, p, q):
  """Returns functions [S, D + 1, F] of the next token at each depth.

  The functions are the sign of q - p, which detects a wrong acceptance
  probability, the ratio q / (p + q), and random signs. The mean under the
  target is subtracted from each.
  """
  rng = np.random.default_rng(0)
  signs = rng.choice([-1.0, 1.0], size=(*p.shape, _SIGNS))
  part = q / np.where(p + q > 0, p + q, 1)
  own = np.stack([np.sign(q - p), part], axis=-1)
  gain = np.concatenate([own, signs], axis=-1)
  gain -= np.einsum("rv,rvf->rf", p, gain)[:, None]
  rows = drafts.context % len(p)
  reached = ends.sum(axis=2) @ tree.ancestors
  off = np.zeros((len(ends), tree.max_depth + 1, gain.shape[-1]))
  for node in range(len(tree)):
    depth = tree.depth[node]
    at_end = np.einsum("sv,svf->sf", ends[:, node], gain[rows[:, node]])
    off[:, depth] += at_end
    if node != ROOT:
      passed = gain[rows[:, tree.parent[node]], drafts.tokens[:, node]]
      off[:, depth - 1] += reached[:, [node]] * passed
  return off
