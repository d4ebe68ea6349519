"""Every draft that a proposal can make in a small world, and its probability.

Axes: O outcomes of drafting, N nodes, V vocabulary.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tv_jax.certify.worlds import World, below, of_rows, tied
from tv_jax.io.errors import UserError
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Tree

_WAYS = 100_000  # maximum number of ways to draw siblings


class Drafts(NamedTuple):
  """Drafted trees and how likely each is."""

  tokens: np.ndarray  # [O, N] int32
  context: np.ndarray  # [O, N] context of each node; the root's where INVALID
  chance: np.ndarray  # [O]


def siblings(
  following: Callable[[np.ndarray, tuple[int, ...], int], np.ndarray],
  q: np.ndarray,
  k: int,
  most: float = math.inf,
) -> tuple[np.ndarray, np.ndarray] | None:
  """Returns all ways to draw k siblings; None if there are more than `most`.

  Args:
    following: `Proposal.following`: the law of the next sibling.
    q: [V] the draft's distribution.
    k: Number of siblings.
    most: Maximum number of ways.

  Returns:
    The siblings [n, k] of each way, and its probability [n].
  """
  ways = [((), 1.0)]
  for _ in range(k):
    grown = []
    for tokens, chance in ways:
      law = following(q, tokens, k)
      support = np.flatnonzero(law).tolist()
      if not support:
        grown.append(((*tokens, INVALID), chance))
      grown += [((*tokens, t), chance * float(law[t])) for t in support]
    ways = grown
    if len(ways) > most:
      return None
  tokens, chance = zip(*ways, strict=True)
  return np.array(tokens, np.int32), np.array(chance)


def count_outcomes(tree: Tree, proposal: Proposal, V: int) -> float:
  """Returns an upper bound on the number of drafts; infinity if too many."""
  uniform = np.full(V, 1 / V)

  @functools.cache
  def ways(k):
    found = siblings(proposal.following, uniform, k, _WAYS)
    return len(found[1]) if found else math.inf

  return math.prod(map(ways, tree.num_children[tree.inner].tolist()))


def enumerate_drafts(
  tree: Tree,
  proposal: Proposal,
  q: np.ndarray,
  most: float = math.inf,
) -> Drafts | None:
  """Returns all outcomes of drafting; None if there are more than `most`.

  Args:
    tree: The tree.
    proposal: How siblings are drawn.
    q: [R, V] the draft's distribution after each context; see `worlds`.
    most: Maximum number of outcomes.
  """
  ways = functools.cache(
    lambda row, k: siblings(proposal.following, q[row], k, most)
  )
  drafts = Drafts(
    tokens=np.full((1, len(tree)), INVALID, np.int32),
    context=np.zeros((1, len(tree)), int),
    chance=np.ones(1),
  )
  drafts.tokens[:, ROOT] = 0
  for node in tree.inner.tolist():
    drafts = _with_children(drafts, node, tree, ways, q)
    if drafts is None or len(drafts.chance) > most:
      return None
  return drafts


def draw(
  rng, tree: Tree, proposal: Proposal, q_at: Callable
) -> tuple[list, list[tuple[int, ...]]]:
  """Draws one draft; `enumerate_drafts` returns all.

  Args:
    rng: A generator that draws by `choice`.
    tree: The tree.
    proposal: How siblings are drawn.
    q_at: Returns the draft's distribution [V] after a path.

  Returns:
    Each node's token, None for the root; and each node's path.
  """
  tokens: list = [None] * len(tree)
  paths: list[tuple[int, ...]] = [()] * len(tree)
  for node in tree.inner.tolist():
    k, law, drawn = tree.num_children[node], q_at(paths[node]), ()
    law = law / law.sum()
    for child in tree.children[node, :k].tolist():
      step = proposal.following(law, drawn, int(k))
      if not step.any():
        raise UserError(f"{proposal.name} draws no {k} siblings from {law}")
      drawn += (int(rng.choice(len(law), p=step / step.sum())),)
      tokens[child], paths[child] = drawn[-1], (*paths[node], drawn[-1])
  return tokens, paths


def thin(
  seed: int,
  tree: Tree,
  proposal: Proposal,
  world: World,
  target: int,
  most: int,
) -> World:
  """Restricts q to few tokens, so that drafts can be enumerated.

  After most contexts q keeps a single token. After a random share of contexts
  q keeps more; the share is reduced until there are at most `most` drafts.

  If `target` is not the root, the world is made to reach the family of
  `target`. q keeps the tokens needed to draw one path to it. On that path p is
  large and q small. Elsewhere p is large on the tokens that q keeps.
  """
  whole_p, whole_q = world.rows(tree.max_depth)
  rng, (R, V) = np.random.default_rng(seed), whole_q.shape
  order = np.where(whole_q > 0, rng.random((R, V)), 2).argsort(axis=1)
  widest = tree.max_children + 1
  ranks = tree.rank.tolist()
  siblings_at = tree.num_children[tree.parent].tolist()
  extra, chosen = rng.integers(2, widest + 1, R), rng.random(R)
  share, cut = 0.6, widest
  while True:
    size, context, path = np.where(chosen < share, extra, 1), ROOT, []
    for node in tree.paths[target][1 : tree.depth[target] + 1]:
      row = context % R
      size[row] = min(cut, _fewest(proposal, V, siblings_at[node], ranks[node]))
      path.append((row, order[row, size[row] - 1]))
      context = below(context, path[-1][1], V)
    size[context % R] = min(cut, tree.num_children[target] + 1)
    place = order.argsort(axis=1)
    kept = place < size[:, None]
    q, p = np.where(kept, whole_q, 0), whole_p
    if target != ROOT:
      p = 0.2 * p + 0.8 * _normal(np.where(kept, rng.random((R, V)), 0))
      # Where q falls and p rises, each child is reached in some draft.
      last = context % R
      for row in [*(row for row, _ in path), last]:
        q[row] = np.maximum(size[row] - place[row], 0)
      p[last] = np.where(kept[last], 1 + place[last], 0.1)
      for row, token in path:
        p[row, token] = 20 * p[row].sum()
    p, q = _normal(p), _normal(q)
    if target == ROOT:  # ties of p and q are kept
      p = np.where((whole_p == whole_q).all(axis=1)[:, None], q, p)
      if world.kind == "grid":
        rows = rng.random(R) < 0.5
        p[rows] = [tied(rng, row) for row in q[rows]]
    if enumerate_drafts(tree, proposal, q, most) is not None:
      return of_rows(world.kind, p, q)
    share *= 0.6
    cut = max(1, cut - (share < 0.01))


@functools.cache
def _fewest(proposal: Proposal, V: int, k: int, rank: int) -> int:
  """Returns how many tokens q needs: child `rank` alone is the least likely."""
  for size in range(1, V):
    q = _normal(np.maximum(size - np.arange(V), 0)[None])[0]
    ways = siblings(proposal.following, q, k, _WAYS)
    if ways is None:
      break
    last = ways[0] == size - 1
    if (last.argmax(axis=1) == rank)[last.any(axis=1)].any():
      return size
  return V


def _normal(rows):
  return rows / rows.sum(axis=1, keepdims=True)


def _with_children(
  drafts: Drafts, node: int, tree: Tree, ways, q
) -> Drafts | None:
  """Extends all drafts by each way to draw a node's children, if few do."""
  V, k = q.shape[1], int(tree.num_children[node])
  children = tree.children[node][:k]
  dead = (drafts.tokens[:, node] == INVALID) & (node != ROOT)
  contexts = np.where(dead, -1, drafts.context[:, node])
  parts = [Drafts(*(array[dead] for array in drafts))]
  for context in np.unique(contexts[~dead]).tolist():
    chosen = np.flatnonzero(contexts == context)
    found = ways(context % len(q), k)
    if found is None:
      return None
    drawn, chances = found
    part = Drafts(*(np.repeat(x[chosen], len(drawn), axis=0) for x in drafts))
    drawn = np.tile(drawn, (len(chosen), 1))
    part.tokens[:, children] = drawn
    part.context[:, children] = np.where(
      drawn == INVALID, 0, below(context, drawn, V)
    )
    part.chance[:] *= np.tile(chances, len(chosen))
    parts.append(part)
  return Drafts(*map(np.concatenate, zip(*parts, strict=True)))
