"""Traversal verification with each step's row passes as one kernel (Pallas).

What `traversal.py` does in a step, XLA makes four kernels of: a sum over long
rows ends in a kernel of its own, and so does what happens to a few numbers
before it and after it. Here a step is one. A program for each family at work
and each block of the vocabulary takes its family through all that happens
between two passes, from the sums that the steps before have left, and leaves
the sum over its own block. A family's programs all repeat that arithmetic, some
hundreds of operations; none waits for another. One more kernel offers the
nodes, and two write the law of the bonus token. Decisions are the same, up to
the order of sums.

Axes: N nodes, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import proposals
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers import family, traversal
from tv_jax.verifiers.decision import NOT_OFFERED, Decision


def _kernels():
  """Here, as whoever needs none of it is not to wait for the import."""
  from tv_jax.verifiers import kernels

  return kernels


@functools.lru_cache(maxsize=256)
def _tables(tree: Tree) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
  """The columns of each step's families, and those of all nodes."""
  NONE = _kernels().NONE
  steps, place = [], {}  # of each family's rejections
  for own in traversal.schedule(tree):
    rows = []
    for which, lost in zip(own.active, own.lost, strict=True):
      origin, path = _origin(tree, which, lost, place)
      rows.append([tree.inner[which], which, lost, *origin, *path])
    for key in zip(own.active, own.lost, strict=True):
      place[key] = len(place)
    if rows:
      longest = max(map(len, rows))
      rows = [row + [NONE] * (longest - len(row)) for row in rows]
      steps.append(np.array(rows, np.int32))
  rejected = tree.num_children[tree.inner] - 1  # the last child of a family
  rejected[0] -= 1  # the root is accepted, whatever its mass
  nodes = []
  for node, order in enumerate(np.argsort(tree.postorder)):
    above = tree.family[tree.parent[node]] if node else NONE
    rank = tree.rank[node] if node else NONE
    own, last, lost = NONE, NONE, NONE
    if tree.num_children[node]:
      own = tree.family[node]
      lost = rejected[own]
      last = place.get((own, lost), NONE)
    tried = place.get((above, rank), NONE)
    nodes.append([order, above, rank, tried, own, last, lost])
  return tuple(steps), np.array(nodes, np.int32)


def _origin(tree, which, lost, place):
  """Where a family at work comes from: `Rejection`'s PLACE to RANK; PATH."""
  NONE = _kernels().NONE
  if lost:
    return (place[which, lost - 1], which, lost - 1, NONE), []
  node, path = tree.inner[which], []
  while node != ROOT and tree.rank[node] == 0:
    node = tree.parent[node]
    path.insert(0, tree.family[node])
  if node == ROOT:
    return (NONE, 0, 0, NONE), path
  above, rank = tree.family[tree.parent[node]], tree.rank[node]
  return (place[above, rank - 1], above, rank - 1, rank), path


def _offered(tree, proposal, tokens, q, p, eta):
  """What is decided, and q's rows of inner nodes."""
  kernels = _kernels()
  steps, nodes = _tables(tree)
  offspring = _offspring(tree)
  # Of a law of every node the engine would write leaves' as well.
  own_q = family.rows(q, tree.inner)

  def sums_off(_, parents, __):
    which = tree.family[parents].astype(np.int32)
    return kernels.sums_off(tokens, offspring, which, own_q)

  children = family.gather(tree, proposal, tokens, q, p, sums_off)
  laws = kernels.pack(children)
  passed, first = sum(map(len, steps)), 0
  for step in steps:
    passed = kernels.reject(
      step, first, passed, tokens, offspring, laws, own_q, p
    )
    first += len(step)
  passed = passed if steps else None
  V = p.shape[1]
  offered = kernels.offer(nodes, passed, tokens, offspring, laws, eta, V)
  return offered, own_q


def _offspring(tree):
  """[M, W] the children of each family; `kernels.NONE` for none."""
  children = tree.children[tree.inner].astype(np.int32)
  more = _kernels().blocks.width(children.shape[1]) - children.shape[1]
  return np.pad(children, [(0, 0), (0, more)], constant_values=NO_CHILD)


def decide(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  eta: jax.Array,
) -> Decision:
  """See `decision.Verifier`."""
  offered, own_q = _offered(tree, proposal, tokens, q, p, eta)
  families = _tables(tree)[1][:, _kernels().Node.FAMILY]
  law, size = _kernels().conclude(offered, families, own_q, p)
  fault = (offered.node[1] != 0) | ~jnp.isfinite(size)
  return Decision(
    node=jnp.where(fault, ROOT, offered.node[0]),
    residual=law,
    accept=jnp.where(fault, NOT_OFFERED, offered.accept),
    fault=fault,
  )


def stop_law(
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
) -> jax.Array:
  """[N] the chance of each node to be the first in post-order that is hit."""
  eta = jnp.zeros(len(tree), p.dtype)
  offered, _ = _offered(tree, proposal, tokens, q, p, eta)
  postorder = jnp.asarray(tree.postorder)
  return traversal.first_hit_law(postorder, offered.mass)
