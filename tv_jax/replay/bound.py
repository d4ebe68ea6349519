"""An upper bound of what any lossless rule can gain, from drafts seen once.

Axes: C cycles, N nodes, M nodes that have children, F families, k siblings,
W alphabet.

**The bound.** With T the set of contexts drafted, F(c) the chance that a rule
accepts c or what is below it, and prices L(c) >= 0 of `certify.bound`,

    length <= 1 + N(root) + E[ max over v in T of sum of w(u) over u to v ]
    N(c) = sum over y of L(c y) p(y | c),   w(c) = 1 - L(c) + N(c)

holds for ALL prices: multiply F(c y) <= F(c) p(y | c) by L(c y), add up, and
note that a rule's chances are a flow of one unit down the tree T. The best
prices of c y depend on what is below c y, drafted or not, and no recording has
that. So there are two prices here. The first is 1 or 0, by laws up to c alone:
L(c y) = 1 for y in a set H(c). The second, r(c) >= 0, may look at the law after
c as well; it is for a weaker constraint, F(c) <= U(c), where U(root) = 1 and

    U(c y) = U(c) p(y | c) for y in H(c), else P(c y in T)

which follows from the first one by induction. In w(c) it is -r(c), and it costs
the sum of r(c) U(c) over all c. That is the mean of the sum of r(c) A(v) over
the nodes v of T, c being v's path, if the A(v) of all nodes that hold c have
together the mean U(c). They have, with A(root) = 1 and, for v's i-th child,

    A(child) = A(v) p(t_i) o_i for t_i in H(c); else 1, or 0 for a younger twin

and o_i of `Siblings.share`. So the mean over drafts of

    1 + N(root) + sum of r(c) A(v) + max over v of sum of w(u)               (*)
    w(c) = 1 - L(c) - r(c) + N(c),   r(c) = L(c) N(c)

is a bound WHATEVER the sets H(c), if only they follow from p and q in the
contexts up to c: never from what was drafted, nor from a node's place.

**The choice.** A family's optimum is the least of g p(H) + P(a child is not in
H), H being the first tokens by p / q, if c is accepted with chance g. A guess
of g comes from above. On chains (*) has then the mean length of block
verification, which is optimal. On trees a draft's families compete, so that the
second term counts for less, or for more, by `_SCALES`.

**Leaves above the last level.** What follows them is not recorded, so that
N(c) <= 1 stands in there. For prices at depth d, A has to be 0 on nodes from
which no inner node of depth d is reached: o_i is of the first m children, those
from which one is. For y outside H(c) the 1 would miss the others: below there,
r = 0. All this is valid, and looser.

A merged alphabet depends a little on what was drafted, for drafted tokens are
never merged. Up to that (*) is a bound; in files of whole laws it is one.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.replay.data import Cycles
from tv_jax.tree import NO_CHILD, ROOT, Tree

# What P(a child is not in H) counts for at the root, and by what factor more
# in each level below. The first ones are a chain's.
_SCALES = tuple(itertools.product((1.0, 1.2, 1.5), (1.0, 0.85, 0.7)))
# An alphabet that is larger takes too long: merged ones are far smaller.
_LARGEST = 1 << 11
# Cycles of which a family's laws are looked at together.
_CHUNK = 1 << 11
# At which the race of siblings drawn without replacement is looked at.
_TIMES = np.geomspace(0.03, 1e6, 64)


def upper_bounds(cycles: Cycles) -> np.ndarray:
  """Returns [C] whose mean no lossless rule's mean length exceeds.

  One cycle's says nothing of that cycle: it is the mean that is a bound. The
  scales are chosen on one half of the items for the other one, so that no
  choice looks at the drafts that it is used on.

  Raises:
    ValueError: No bound is known for the tree or the proposal.
  """
  if reason := unknown(cycles):
    raise ValueError(reason)
  families = Families(cycles)
  items, which = np.unique(cycles.item, return_inverse=True)
  if cycles.tree.is_chain or len(items) < 2:
    return families.bounds(*_SCALES[0])
  found = np.stack([families.bounds(*scale) for scale in _SCALES])
  even = which % 2 == 0
  of_even, of_odd = (
    found[found[:, others].mean(axis=1).argmin()] for others in (~even, even)
  )
  return np.where(even, of_even, of_odd)


def unknown(cycles: Cycles) -> str | None:
  """Says why no bound is known; None: one is."""
  if not isinstance(cycles.tree, Tree):
    return (
      "a bound is known for trees that are known beforehand, and the tree is"
      f" {cycles.tree!r}: leave out --bound"
    )
  if cycles.proposal.name == "top_k":
    return (
      "top_k draws without chance, so that the bound is what token_level gains:"
      " leave out --bound"
    )
  if cycles.proposal.name not in SIBLINGS:
    return (
      f"a bound is known for {' and '.join(SIBLINGS)}, and siblings were drawn"
      f" by {cycles.proposal.name}: leave out --bound"
    )
  if (W := cycles.p.shape[2]) > _LARGEST:
    return (
      f"its laws are of {W} tokens, and a bound takes {_LARGEST} at most: merge"
      " them first (tv_jax.replay.merge), or leave out --bound"
    )
  return None


class Families:
  """All that does not depend on the scales, in float64, by node or family."""

  def __init__(self, cycles: Cycles):
    """Looks at all laws once."""
    assert isinstance(cycles.tree, Tree)
    tree = self.tree = cycles.tree
    self.how = SIBLINGS[cycles.proposal.name]
    self.drawn = cycles.tokens != INVALID
    self.drawn[:, ROOT] = True
    tokens = np.where(self.drawn, cycles.tokens, 0)
    self.eldest = _eldest(tree, tokens, self.drawn)
    (C, N), (_, M, W) = tokens.shape, cycles.p.shape
    # Of nodes: p(t), 1 / q(t), the chance to be drafted, the place by p / q.
    self.p_at, self.inverse, self.drafted = np.zeros((3, C, N))
    self.place = np.zeros((C, N), int)
    # Of families: p(H) and P(all children in H), by how many tokens H has.
    self.mass, self.inside = np.zeros((2, C, M, W + 1))
    for family, node in enumerate(tree.inner):
      below = _children(tree, node)
      # Of the level: never of the node, whose place must not matter.
      k = int(tree.num_children[tree.depth == tree.depth[node]].max())
      for start in range(0, C, _CHUNK):
        rows = slice(start, start + _CHUNK)
        p, q = (x[rows, family].astype(float) for x in (cycles.p, cycles.q))
        own, exists = tokens[rows, below], self.drawn[rows, below]
        q_at = np.where(exists, np.take_along_axis(q, own, axis=1), 0)
        order = np.argsort(_ratio(p, q), axis=1, kind="stable")
        p_first, q_first = (
          np.take_along_axis(x, order, axis=1) for x in (p, q)
        )
        self.mass[rows, family, 1:] = p_first.cumsum(axis=1)
        self.inside[rows, family] = self.how.inside(q_first, k)
        rank = np.argsort(order, axis=1)
        self.place[rows, below] = np.take_along_axis(rank, own, axis=1)
        self.p_at[rows, below] = np.take_along_axis(p, own, axis=1)
        self.inverse[rows, below] = self.how.inverse(q, q_at, own, exists)
        self.drafted[rows, below] = self.how.drafted(q, q_at, k)

  def bounds(self, scale: float, factor: float) -> np.ndarray:
    """Returns (*) of each cycle."""
    tree = self.tree
    held, after = self._choose(scale, factor)
    total, worth = 1 + after[:, ROOT], np.zeros(held.shape)
    for depth, level in enumerate(tree.levels[1:], start=1):
      weight, sound = self._weights(depth, held)
      for node in level:
        price = (held & sound)[:, node] * after[:, node]
        gain = 1.0 - held[:, node] - price + after[:, node]
        worth[:, node] = worth[:, tree.parent[node]] + gain
        total += np.where(self.drawn[:, node], price * weight[:, node], 0)
    return total + np.where(self.drawn, worth, 0).max(axis=1)

  def _choose(self, scale, factor):
    """[C, N] whether a node's token is in its parent's H, and N."""
    tree = self.tree
    held = np.zeros(self.drawn.shape, bool)
    guess = np.ones(held.shape)
    after = np.where(tree.depth < tree.max_depth, guess, 0)
    for family, node in enumerate(tree.inner):
      counts = scale * factor ** int(tree.depth[node])
      missed = counts * (1 - self.inside[:, family])
      cost = guess[:, node, None] * self.mass[:, family] + missed
      size = cost.argmin(axis=1)[:, None]
      after[:, [node]] = np.take_along_axis(self.mass[:, family], size, axis=1)
      below = _children(tree, node)
      held[:, below] = self.place[:, below] < size
      chance = np.where(held[:, below], self.drafted[:, below], 0)
      grown = guess[:, [node]] * self.p_at[:, below]
      less = chance > grown
      guess[:, below] = np.where(less, grown / np.where(less, chance, 1), 1)
    return held, after

  def _weights(self, depth, held):
    """[C, N] A for prices at a depth, and whether its means are U."""
    tree = self.tree
    weight, sound = np.zeros(held.shape), np.ones_like(held)
    weight[:, ROOT] = 1
    if depth == tree.max_depth:
      return weight, sound  # N is 0 there: all prices are
    ends = tree.inner[tree.depth[tree.inner] == depth]
    reaches = np.logical_or.reduce(tree.ancestors[ends])
    for node in tree.inner[tree.depth[tree.inner] < depth]:
      below = _children(tree, node)
      every = reaches[tree.depth == tree.depth[node] + 1].all()
      sound[:, below] = sound[:, [node]] & (held[:, below] | every)
      own = below[reaches[below]]
      if not len(own):
        continue
      if self.how.elders and (own != below[: len(own)]).any():
        return weight, np.zeros_like(sound)
      share = self.how.share(self.inverse[:, own], self.drawn[:, own])
      passed = weight[:, [node]] * self.p_at[:, own] * share
      weight[:, own] = np.where(held[:, own], passed, self.eldest[:, own])
    return weight, sound


def _children(tree, node):
  return tree.children[node][tree.children[node] != NO_CHILD]


def _ratio(p, q):
  """P / q; of what can't be drafted infinite."""
  some = q > 0
  return np.where(some, p / np.where(some, q, 1), np.inf)


def _eldest(tree, tokens, drawn):
  """[C, N] whether no elder node holds the same path."""
  first = np.zeros(tokens.shape, int)
  for level in tree.levels[1:]:
    for node in level:
      first[:, node] = node
      for other in reversed(range(level[0], node)):
        above = first[:, tree.parent[node]] == first[:, tree.parent[other]]
        same = above & (tokens[:, node] == tokens[:, other])
        same &= drawn[:, node] & drawn[:, other]
        first[:, node] = np.where(same, first[:, other], first[:, node])
  return first == np.arange(len(tree))


class Siblings(NamedTuple):
  """One way to draw.

  Attributes:
    inverse: `(q [F, W], q_at [F, k], tokens [F, k], exists [F, k]) -> [F, k]`:
      1 / q_i(t_i), and 0 where nothing was drawn.
    elders: Whether an elder counts once more for each later draw, see `share`.
    inside: `(q [F, W], k) -> [F, W + 1]`: the chance that all k children are
      among the first tokens, by the number of these.
    drafted: `(q [F, W], q_at [F, n], k) -> [F, n]`: the chance of a token to be
      among k children.
  """

  inverse: Callable
  elders: bool
  inside: Callable
  drafted: Callable

  def share(self, inverse: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """Returns o [F, m] of the first m children: E[sum o_i x(t_i)] = sum of x.

    With replacement each draw alone would do (Hansen and Hurwitz, 1943).
    Without, draw i and what was drawn before (Des Raj, 1956):

        x(t_1) + .. + x(t_(i-1)) + x(t_i) / q_i(t_i)

    has that mean, given what was drawn before. This is the mean of all m.
    """
    m = inverse.shape[1]
    later = (m - 1 - np.arange(m)) * self.elders
    return np.where(exists, inverse + later, 0) / m


def _inverse_with(q, q_at, tokens, exists):
  del q, tokens
  return np.where(exists, 1 / np.where(exists, q_at, 1), 0)


def _inverse_without(q, q_at, tokens, exists):
  """Sums what is left of q; never takes 1 minus something."""
  rest = q.copy()
  row, place = np.nonzero(exists)
  rest[row, tokens[row, place]] = 0
  left = rest.sum(axis=1)[:, None] + q_at[:, ::-1].cumsum(axis=1)[:, ::-1]
  left[:, 0] = 1  # the first one's law is q itself
  return np.where(exists, left / np.where(exists, q_at, 1), 0)


def _inside_with(q, k):
  total = np.minimum(q.cumsum(axis=1), 1)
  return np.concatenate([np.zeros((len(q), 1)), total], axis=1) ** k


def _inside_without(q, k):
  """A race, in which x arrives at rate q(x): k of them before any other one."""
  if k == 1:
    return _inside_with(q, k)
  arrived = np.zeros((len(q), k, len(_TIMES)))  # P(i of them have), by time
  arrived[:, 0] = 1
  edges = np.append(0, np.sqrt(_TIMES[1:] * _TIMES[:-1]))[:, None]
  left = q[:, ::-1].cumsum(axis=1)[:, ::-1]  # exactly 0 where nothing is left
  left = np.append(left, np.zeros((len(q), 1)), axis=1)[:, 1:]
  found = [np.zeros(len(q))]
  for rate, others in zip(q.T, left.T, strict=True):
    has = -np.expm1(-rate[:, None] * _TIMES)[:, None]
    before = np.concatenate([np.zeros_like(has), arrived[:, :-1]], axis=1)
    arrived = arrived * (1 - has) + before * has
    alone = np.exp(-others * edges)  # no other one has, by time
    ended = alone - np.append(alone[1:], np.zeros((1, len(q))), axis=0)
    inside = (ended.T * (1 - arrived.sum(axis=1))).sum(axis=1)
    found.append(np.where(others > 0, inside, 1))
  return np.stack(found, axis=1)


def _drafted_with(q, q_at, k):
  del q
  return 1 - (1 - q_at) ** k


def _drafted_without(q, q_at, k):
  """About: to have arrived when k are expected to have (Rosen, 1997)."""
  if k == 1:
    return q_at
  low, high = np.zeros(len(q)), np.full(len(q), _TIMES[-1])
  for _ in range(40):
    middle = (low + high) / 2
    few = -np.expm1(-q * middle[:, None]).sum(axis=1) < k
    low, high = np.where(few, middle, low), np.where(few, high, middle)
  return -np.expm1(-q_at * high[:, None])


SIBLINGS = {
  "without_replacement": Siblings(
    inverse=_inverse_without,
    elders=True,
    inside=_inside_without,
    drafted=_drafted_without,
  ),
  "with_replacement": Siblings(
    inverse=_inverse_with,
    elders=False,
    inside=_inside_with,
    drafted=_drafted_with,
  ),
}
