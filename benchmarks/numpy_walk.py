"""The traversal as one would write it in NumPy.

One node after the other with early exit, work on one family's rows at a time,
every V-sized operation in place.
"""

import numpy as np

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Tree

BLOCK = 256  # tokens


class Walk:
  """A tree and the buffers of a walk; results live until the next one.

  Siblings are taken to be drawn without replacement.
  """

  def __init__(self, tree: Tree, vocabulary: int, dtype=np.float32):
    """Prepares all that does not depend on the draft."""
    self.children = [
      [child for child in row if child != NO_CHILD]
      for row in tree.children.tolist()
    ]
    # A maximum with an array of zeros takes a quarter of the time of one with
    # the number 0, and a product with ones a third of that of a sum.
    self.zeros = np.zeros(vocabulary, dtype)
    self.ones = np.ones(vocabulary, dtype)
    self.block = np.ones(BLOCK, dtype)
    # Each node down to the one at hand holds one, a rejection one more.
    self.buffers = [np.empty_like(self.ones) for _ in range(tree.max_depth + 2)]

  def traversal(self, tokens, q, p, eta) -> tuple[int, np.ndarray]:
    """Returns the accepted node and the law of the bonus token."""
    self.tokens, self.eta = tokens.tolist(), eta.tolist()
    self.q, self.p, self.free = q, p, [*self.buffers]
    found = self._visit(ROOT, 1.0)
    assert found  # the root is always accepted
    return found

  def draw(self, law: np.ndarray, point: float) -> int:
    """Draws a token by inversion: first its block, then its place."""
    blocks = law[: len(law) // BLOCK * BLOCK].reshape(-1, BLOCK)
    masses = blocks.dot(self.block)
    if rest := len(law) % BLOCK:
      masses = np.append(masses, law[-rest:].sum())
    ends = np.cumsum(masses)
    point *= ends[-1]
    block = min(int(np.searchsorted(ends, point, "right")), len(ends) - 1)
    inside = np.cumsum(law[block * BLOCK : (block + 1) * BLOCK])
    point -= ends[block - 1] if block else 0
    place = int(np.searchsorted(inside, point, "right"))
    return block * BLOCK + min(place, len(inside) - 1)

  def _visit(self, node, chance) -> tuple[int, np.ndarray] | None:
    """Finds the first accepted node in post-order at or below this one."""
    family = _Family(self, node, chance)
    for j, child in enumerate(family.children):
      entry = family.entry(j)
      if entry > 0 and (found := self._visit(child, entry)):
        return found
      family.reject(j)
    if node == ROOT or self.eta[node] < family.mass:
      return node, family.law()
    family.leave()
    return None


class _Family:
  """A node's g, which is `scale` times `row`."""

  def __init__(self, walk: Walk, node: int, chance: float):
    self.walk, self.q, self.p = walk, walk.q[node], walk.p[node]
    self.row = self.p
    tokens = walk.tokens
    self.children = [c for c in walk.children[node] if tokens[c] != INVALID]
    self.tokens = [tokens[child] for child in self.children]
    self.q_at = [self.q.item(token) for token in self.tokens]
    self.scale = self.mass = chance
    self.deficit = 1 - chance
    self.total = 0.0
    self.held = self.rest = None  # until they are needed

  def entry(self, j: int) -> float:
    g = self.scale * self.row.item(self.tokens[j])
    return min(1.0, g / (self._multiple(j) * self.q_at[j]))

  def reject(self, j: int):
    """Takes child j out of g: the pass over the vocabulary."""
    walk, row = self.walk, self.walk.free.pop()
    np.multiply(self.q, self._multiple(j) / self.scale, out=row)
    np.subtract(self.row, row, out=row)
    np.maximum(row, walk.zeros, out=row)
    for token in self.tokens[:j]:  # which q_j does not hold
      row[token] = self.row[token]
    total = float(row.dot(walk.ones))
    kept = self.scale * total
    size = kept + self.deficit
    if size <= 0:  # g = q_j: a rejection that had no chance
      walk.free.append(row)
      return
    self.leave()
    self.row = self.held = row
    self.total, self.scale = total, self.scale / size
    self.mass, self.deficit = kept / size, self.deficit / size

  def leave(self):
    """Gives its buffer back."""
    if self.held is not None:
      self.walk.free.append(self.held)

  def law(self) -> np.ndarray:
    if self.held is None or self.total <= 0:
      return self.p
    return np.multiply(self.row, 1 / self.total, out=self.row)

  def _multiple(self, j):
    """Returns q_j over q, off the tokens of siblings before."""
    if j == 0:
      return 1.0
    if self.rest is None:
      self.rest = self._rest()
    return 1 / (self.rest + sum(self.q_at[j:]))

  def _rest(self):
    """Sums between the tokens: 1 minus theirs would lose what is left."""
    row, ones = self.q, self.walk.ones
    rest, start = 0.0, 0
    for stop in [*sorted(self.tokens), len(row)]:
      rest += float(row[start:stop].dot(ones[start:stop]))
      start = stop + 1
    return rest
