"""The kernels of `traversal_kernel.py`.

Those that pass over rows have a program for every row and block of the
vocabulary. What is to be summed over a row is left as a sum for each block, and
who needs the whole adds them up, so that no program waits for another.

Axes: n families at work, T rejections of all families, N nodes, M families, K
children of a node, V vocabulary, B blocks of it, W = K rounded up to a power of
two. q has the rows of families [M, V], p of nodes [N, V].
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT
from tv_jax.verifiers import blocks, residual
from tv_jax.verifiers.decision import NOT_OFFERED, finite, relative
from tv_jax.verifiers.residual import Law, Residual, Siblings

# No place, family or child.
NONE = -1
# The root's family.
_FIRST = 0
# The columns of a rejection in what `reject` leaves: g before it, and from here
# on g at the tokens; then what is left off them, block by block.
_AT = 4


class Rejection(enum.IntEnum):
  """The columns of the families that lose a child in one step."""

  NODE = 0  # the family's parent
  FAMILY = 1
  LOST = 2  # the child
  # The rejection before: in this family, or in the one whose child was entered
  # after it; `NONE` if the root was.
  PLACE = 3
  ABOVE = 4  # in which family that was
  GONE = 5  # which child that was
  RANK = 6  # the child that was entered; `NONE` if this family only goes on
  # From here on the families whose first children were entered after it, down
  # to `NODE`.
  PATH = 7


class Node(enum.IntEnum):
  """The columns of the nodes."""

  ORDER = 0  # its place in post-order
  ABOVE = 1  # the family that it is a child of
  RANK = 2  # which child of it
  # The rejection in this family that comes next; `NONE` for the root, and for
  # its last child, which is not rejected.
  TRIED = 3
  FAMILY = 4  # of its own children
  LAST = 5  # the last rejection there
  LOST = 6  # which child that is


class _Child(enum.IntEnum):
  """The columns of a child in `pack`; from LAW on, its law at the tokens."""

  SCALE = 0
  EXISTS = 1
  FRESH = 2
  P_AT = 3
  LAW = 4


class Offered(NamedTuple):
  """What comes of all passes.

  Attributes:
    mass: [N] the chance of a node to be accepted once it is offered; 0 if it
      cannot be, and of the root.
    accept: [N] as in `Decision`.
    node: [2] the accepted node; whether there was a fault.
    tokens: [W] of the node's children.
    ratio: [1] what q is multiplied by in the node's residual.
    values: [W] this at the tokens.
  """

  mass: jax.Array
  accept: jax.Array
  node: jax.Array
  tokens: jax.Array
  ratio: jax.Array
  values: jax.Array


def pack(children: Siblings) -> jax.Array:
  """[M, W, 4 + W] all that kernels read of families, but their tokens."""
  laws, dtype = children.laws, children.p_at.dtype
  columns = [
    laws.scale,
    laws.exists.astype(dtype),
    children.fresh.astype(dtype),
    children.p_at,
  ]
  K = children.tokens.shape[1]
  more = (0, blocks.width(K) - K)
  packed = jnp.concatenate([jnp.stack(columns, axis=-1), laws.at], axis=-1)
  return jnp.pad(packed, [(0, 0), more, more])


def sums_off(tokens, offspring, families, q) -> jax.Array:
  """[n] the masses of rows of q off the tokens of their children.

  Args:
    tokens: [N] of the nodes.
    offspring: [M, W] the children of families, or `NONE`.
    families: [n] which rows.
    q: [M, V] draft laws.
  """
  n, V = len(families), q.shape[1]

  def sum_off(tokens, offspring, families, q, out):
    i, block = pl.program_id(0), pl.program_id(1)
    row = blocks.load(q, families[i], block, V)
    terms = 1 * row - 0 * row  # as everywhere: an infinity is a NaN
    out[i, block] = _off(tokens, offspring, families[i], terms, block, V)

  out = jax.ShapeDtypeStruct((n, blocks.count(V)), q.dtype)
  arguments = tokens, offspring, families, q
  sums = blocks.run(sum_off, (n, blocks.count(V)), out, *arguments)
  return residual.total(jnp.moveaxis(sums, 1, 0))


def reject(step, first, passed, tokens, offspring, laws, q, p) -> jax.Array:
  """One pass over a row of p and of q for each family at work.

  Args:
    step: [n, ..] by `Rejection`.
    first: The place of its first rejection.
    passed: [T, ..] what the steps before have left; or T, if there were none.
    tokens: [N] of the nodes.
    offspring: [M, W] the children of families, or `NONE`.
    laws: Of `pack`.
    q: [M, V] draft laws.
    p: [N, V] target laws.

  Returns:
    The same with rows of this step.
  """
  V, W, B = p.shape[1], laws.shape[1], blocks.count(p.shape[1])
  begins = isinstance(passed, int)
  T = passed if begins else len(passed)

  def reject_one(step, tokens, offspring, laws, q, p, *passed):
    i, block = pl.program_id(0), pl.program_id(1)
    out, mine = passed[-1], step[i, Rejection.FAMILY]
    if begins:
      chance = _down(step, laws, i, jnp.ones((), laws.dtype))
      g = residual.begin(laws[mine, :, _Child.P_AT], chance)
    else:
      g = _entered(step, laws, passed[0], B, i)

    @pl.when(block == 0)
    def _():
      for column, value in enumerate(g[:_AT]):
        out[first + i, column] = value
      out[first + i, pl.ds(_AT, W)] = g.at

    left = residual.shift(g, _law(laws, mine, step[i, Rejection.LOST]))
    terms = left.alpha * blocks.load(p, step[i, Rejection.NODE], block, V)
    terms -= left.beta * blocks.load(q, mine, block, V)
    off = _off(tokens, offspring, mine, terms, block, V)
    out[first + i, _AT + W + block] = off

  out = jax.ShapeDtypeStruct((T, _AT + W + blocks.width(B)), p.dtype)
  before = () if begins else (passed,)
  arguments = step, tokens, offspring, laws, q, p, *before
  same = {} if begins else {len(arguments) - 1: 0}
  return blocks.run(reject_one, (len(step), B), out, *arguments, same=same)


def offer(nodes, passed, tokens, offspring, laws, eta, V) -> Offered:
  """Offers all nodes in post-order.

  Args:
    nodes: [N, ..] by `Node`.
    passed: What the steps have left; None if there were none.
    tokens: [N] of the nodes.
    offspring: [M, W] the children of families, or `NONE`.
    laws: Of `pack`.
    eta: [N] coins.
    V: The size of the vocabulary.
  """
  N, W, B = len(nodes), laws.shape[1], blocks.count(V)
  spared = int((offspring[_FIRST] != NONE).sum()) - 1  # the root's last child
  width = blocks.width(N)
  nodes = np.pad(nodes, [(0, width - N), (0, 0)], constant_values=NONE)
  root_last, root_lost = nodes[ROOT, [Node.LAST, Node.LOST]].tolist()

  def offer_all(nodes, tokens, offspring, laws, eta, *refs):
    *passed, masses, accept, node_out, tokens_out, ratio_out, values_out = refs
    lane = jnp.arange(width, dtype=jnp.int32)
    there = lane < N
    if root_last == NONE:  # an only child, which is not rejected
      one = jnp.ones((), laws.dtype)
      end = residual.begin(laws[_FIRST, :, _Child.P_AT], one)
    else:
      end = _after(laws, *passed, B, root_last, _FIRST, root_lost)

    above, rank, tried, last = (
      jnp.maximum(nodes[:, column], 0)
      for column in (Node.ABOVE, Node.RANK, Node.TRIED, Node.LAST)
    )
    # The root's last child is tried on what comes after all others.
    value = jnp.full((width,), blocks.pick(end.at, spared))
    if passed:
      others = passed[0][tried, _AT + rank]
      value = jnp.where(nodes[:, Node.TRIED] == NONE, value, others)
    column = jnp.full((width,), int(_Child.EXISTS), jnp.int32)
    exists = laws[above, rank, column] != 0
    entry = residual.enter(value, laws[above, rank, _Child.LAW + rank], exists)
    entry = jnp.where(lane == ROOT, 1, entry)
    mass = entry
    if passed:
      inner = _masses_after(nodes, laws, *passed, B, last)
      mass = jnp.where(nodes[:, Node.LAST] == NONE, entry, inner)

    nan = there & (jnp.isnan(entry) | jnp.isnan(mass))
    fault = jnp.max(jnp.where(nan, 1, 0)) > 0
    offered = there & (entry > 0) & (lane != ROOT)
    hit = offered & (blocks.vector(eta, N) < mass)
    hit |= lane == ROOT
    order = nodes[:, Node.ORDER]
    place = jnp.min(jnp.where(hit, order, N))
    node = jnp.sum(jnp.where(hit & (order == place), lane, 0))
    accepted = jnp.where(offered & (order <= place), mass, NOT_OFFERED)
    blocks.put(masses, jnp.where(offered & ~fault, mass, 0), N)
    blocks.put(accept, accepted, N)

    node = jnp.where(fault, ROOT, node).astype(jnp.int32)
    leaf = nodes[node, Node.FAMILY] == NONE
    own, row, lost = (
      jnp.maximum(nodes[node, column], 0)
      for column in (Node.FAMILY, Node.LAST, Node.LOST)
    )
    g = _after(laws, *passed, B, row, own, lost) if passed else end
    g = jax.tree.map(lambda x, y: jnp.where(node == ROOT, x, y), end, g)
    law = _law(laws, _FIRST, spared)
    g = residual.shift(g, law._replace(exists=law.exists & (node == ROOT)))
    plain = Residual(alpha=1, beta=0, mass=1, deficit=0, at=0)
    g = jax.tree.map(lambda x, y: jnp.where(leaf, x, y), plain, g)
    ratio, values = relative(g, fault)
    children = offspring[own, :]
    drawn = tokens[jnp.maximum(children, 0)]
    none = leaf | fault | (children == NONE)
    tokens_out[:] = jnp.where(none, INVALID, drawn)
    values_out[:] = values
    ratio_out[0] = ratio
    node_out[0] = node
    node_out[1] = jnp.where(fault, 1, 0)

  dtype = laws.dtype
  out = Offered(
    mass=jax.ShapeDtypeStruct((N,), dtype),
    accept=jax.ShapeDtypeStruct((N,), dtype),
    node=jax.ShapeDtypeStruct((2,), jnp.int32),
    tokens=jax.ShapeDtypeStruct((W,), jnp.int32),
    ratio=jax.ShapeDtypeStruct((1,), dtype),
    values=jax.ShapeDtypeStruct((W,), dtype),
  )
  more = () if passed is None else (passed,)
  arguments = nodes, tokens, offspring, laws, eta, *more
  return Offered(*blocks.run(offer_all, (), tuple(out), *arguments))


def conclude(offered: Offered, families, q, p) -> tuple[jax.Array, jax.Array]:
  """The law [V] of the bonus token, and what it was divided by.

  A sum that is not finite is a fault that only shows now; see
  `decision.settle`.

  Args:
    offered: What was decided.
    families: [N] the family of each node's children, or `NONE`.
    q: [M, V] draft laws.
    p: [N, V] target laws.
  """
  V, W = p.shape[1], len(offered.tokens)
  B = blocks.count(V)
  read = offered.node, offered.ratio, offered.tokens, offered.values

  def weights(node, ratio, tokens, values, families, q, p, block):
    """A block of the weights, of what is finite at the root, of p."""
    index, inside = blocks.tokens(block, V)
    row = blocks.load(p, node[0], block, V)
    own = jnp.maximum(families[node[0]], 0)
    less = ratio[0] * blocks.load(q, own, block, V)
    own = residual.select_positive(row - jnp.where(ratio[0] > 0, less, 0))

    def at(child, own):
      return jnp.where(index == tokens[child], values[child], own)

    own = blocks.each(W, at, own)
    own = jnp.where(node[1] != 0, finite(own), own)
    root = finite(blocks.load(p, ROOT, block, V))
    return jnp.where(inside, own, 0), root, row

  def weigh(*refs):
    *refs, sums = refs
    block = pl.program_id(0)
    own, root, _ = weights(*refs, block)
    sums[0, block] = jnp.sum(own)
    sums[1, block] = jnp.sum(root)

  def divide(sums, node, *refs):
    *refs, law, size = refs
    block = pl.program_id(0)
    own, root, row = weights(node, *refs, block)
    total, least = blocks.whole(sums, 0, 0, B), blocks.whole(sums, 1, 0, B)
    spare = jnp.where(node[1] != 0, 1 / V, row)
    own = jnp.where(total > 0, own / jnp.where(total > 0, total, 1), spare)
    root = jnp.where(least > 0, root / jnp.where(least > 0, least, 1), 1 / V)
    own = jnp.where(total < jnp.inf, own, root)  # a NaN is not
    blocks.store(law, block, V, own)

    @pl.when(block == 0)
    def _():
      size[0] = total

  sums = jax.ShapeDtypeStruct((2, blocks.width(B)), p.dtype)
  sums = blocks.run(weigh, (B,), sums, *read, families, q, p)
  out = jax.ShapeDtypeStruct((V,), p.dtype), jax.ShapeDtypeStruct((1,), p.dtype)
  law, size = blocks.run(divide, (B,), out, sums, *read, families, q, p)
  return law, size[0]


def _off(tokens, offspring, which, terms, block, V):
  """The sum of a block of [terms]_+ off the tokens of a family."""
  index, inside = blocks.tokens(block, V)
  terms = jnp.where(inside, residual.select_positive(terms), 0)

  def without(child, terms):
    node = offspring[which, child]
    token = jnp.where(node == NONE, INVALID, tokens[jnp.maximum(node, 0)])
    return jnp.where(index == token, 0, terms)

  return jnp.sum(blocks.each(offspring.shape[1], without, terms))


def _entered(step, laws, passed, B, i) -> Residual:
  """Family i of a step before its rejection."""
  place, above, gone, rank = (
    step[i, column]
    for column in (
      Rejection.PLACE,
      Rejection.ABOVE,
      Rejection.GONE,
      Rejection.RANK,
    )
  )
  g = _after(laws, passed, B, jnp.maximum(place, 0), above, gone)
  child = jnp.maximum(rank, 0)
  chance = _enter(laws, above, child, blocks.pick(g.at, child))
  chance = _down(step, laws, i, jnp.where(place == NONE, 1, chance))
  p_at = laws[step[i, Rejection.FAMILY], :, _Child.P_AT]
  new = residual.begin(p_at, chance)
  goes_on = (rank == NONE) & (place != NONE)
  return jax.tree.map(lambda x, y: jnp.where(goes_on, x, y), g, new)


def _down(step, laws, i, chance):
  """The chance to enter one first child after the other."""

  def further(column, chance):
    above = step[i, Rejection.PATH + column]
    own = jnp.maximum(above, 0)
    p_at = laws[own, 0, _Child.P_AT]
    return jnp.where(above == NONE, chance, _enter(laws, own, 0, chance * p_at))

  return blocks.each(step.shape[1] - Rejection.PATH, further, chance)


def _after(laws, passed, B, place, which, lost) -> Residual:
  """A family after a rejection."""
  W = laws.shape[1]
  numbers = (passed[place, column] for column in range(_AT))
  g = Residual(*numbers, passed[place, pl.ds(_AT, W)])
  law = _law(laws, which, lost)
  left = residual.shift(g, law)
  fresh = laws[which, :, _Child.FRESH] != 0
  kept = jnp.sum(jnp.where(fresh, left.at, 0))
  kept += blocks.whole(passed, place, _AT + W, B)
  return residual.rescale(g, left, law, kept)


def _masses_after(nodes, laws, passed, B, place):
  """`_after(..).mass` of the nodes' families, after the rejection `place`."""
  n, W = nodes.shape[0], laws.shape[1]
  which = jnp.maximum(nodes[:, Node.FAMILY], 0)
  lost = jnp.maximum(nodes[:, Node.LOST], 0)

  def column(number):
    return jnp.full((n,), number, jnp.int32)

  numbers = [passed[place, column(i)] for i in range(_AT)]
  scale = laws[which, lost, column(int(_Child.SCALE))]
  exists = laws[which, lost, column(int(_Child.EXISTS))] != 0

  def at(child):
    """g, the law and what is left of g at one token of each family."""
    g = Residual(*numbers, passed[place, column(_AT + child)])
    law = laws[which, lost, column(_Child.LAW + child)]
    law = Law(scale=scale, at=law, exists=exists)
    return g, law, residual.shift(g, law)

  def add(child, kept):
    fresh = laws[which, column(child), column(int(_Child.FRESH))] != 0
    return kept + jnp.where(fresh, at(child)[-1].at, 0)

  def off(block, kept):
    return kept + passed[place, column(_AT + W + block)]

  kept = blocks.each(W, add, jnp.zeros((n,), laws.dtype))
  kept = blocks.each(B, off, kept)
  g, law, left = at(0)
  return residual.rescale(g, left, law, kept).mass


def _law(laws, which, child) -> Law:
  """The law that a child of a family was drawn from."""
  W = laws.shape[1]
  return Law(
    scale=laws[which, child, _Child.SCALE],
    at=laws[which, child, pl.ds(int(_Child.LAW), W)],
    exists=laws[which, child, _Child.EXISTS] != 0,
  )


def _enter(laws, which, child, g_at):
  """The chance to enter a child, of g at its token."""
  exists = laws[which, child, _Child.EXISTS] != 0
  return residual.enter(g_at, laws[which, child, _Child.LAW + child], exists)
