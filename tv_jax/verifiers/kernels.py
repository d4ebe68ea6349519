"""The kernels of `traversal_kernel.py` (Pallas, by way of Triton).

Those that pass over rows have a program for every row and block of the
vocabulary. What is to be summed over a row is left as a sum for each block, and
who needs the whole adds them up, so that no program waits for another. On CPUs
kernels are interpreted, which is slow: they are tested there.

Axes: n families at work, T rejections of all families, L first children one
below the other, N nodes, M families, K children of a node, V vocabulary, B
blocks of it, W = K rounded up to a power of two: kernels hold no other vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT
from tv_jax.verifiers import residual
from tv_jax.verifiers.decision import NOT_OFFERED, finite, relative
from tv_jax.verifiers.residual import Law, Residual, Siblings

# Tokens of a row that one program takes.
_BLOCK = 8192
_WARPS = 8
# No place, family or child.
NONE = -1
# The columns of a family's child in `pack`; its law at the tokens follows.
_SCALE, _EXISTS, _FRESH, _P_AT, _LAW = range(5)
# The columns of a rejection in what `reject` leaves: g before it, and from here
# on g at the tokens; then what is left off them, block by block.
_AT = 4


class Step(NamedTuple):
  """The columns of n families that lose a child each.

  Attributes:
    node: The family's parent.
    family: Which family it is.
    lost: The child that it loses.
    place: Of the rejection before: in this family, or in the one whose child
      was entered after it; `NONE` if the root was.
    above: In which family that was.
    gone: Which child that was.
    rank: The child that was entered; `NONE` if this family only goes on.
    path: Where the further columns begin: the families whose first children
      were entered after it, down to `node`.
  """

  node: int = 0
  family: int = 1
  lost: int = 2
  place: int = 3
  above: int = 4
  gone: int = 5
  rank: int = 6
  path: int = 7


class Node(NamedTuple):
  """The columns of the N nodes.

  Attributes:
    order: Its place in post-order.
    above: The family that it is a child of.
    rank: Which child of it.
    tried: The rejection in this family that comes next; `NONE` for the root,
      and for its last child, whose rejection is none.
    family: The family of its own children.
    last: The last rejection there.
    lost: Which child that is.
  """

  order: int = 0
  above: int = 1
  rank: int = 2
  tried: int = 3
  family: int = 4
  last: int = 5
  lost: int = 6


STEP, NODE = Step(), Node()


class Offered(NamedTuple):
  """What comes of all passes.

  Attributes:
    mass: [N] the chance of a node to be accepted once it is offered; 0 if it
      cannot be, and of the root.
    accept: [N] as in `Decision`.
    chosen: [2 + K] integers: the accepted node, whether there was a fault, the
      tokens of the node's children.
    g: [1 + K] its residual: what q is multiplied by, the values at the tokens.
  """

  mass: jax.Array
  accept: jax.Array
  chosen: jax.Array
  g: jax.Array


def pack(children: Siblings) -> jax.Array:
  """[M, W, 5 - 1 + W] all that kernels read of families, but their tokens."""
  laws, dtype = children.laws, children.p_at.dtype
  columns = [
    laws.scale,
    laws.exists.astype(dtype),
    children.fresh.astype(dtype),
    children.p_at,
  ]
  K = len(children.tokens[0])
  more = [(0, 0), (0, _width(K) - K)]
  packed = jnp.concatenate([jnp.stack(columns, axis=-1), laws.at], axis=-1)
  return jnp.pad(packed, [*more, more[1]])


def sums_off(tokens, offspring, nodes, q) -> jax.Array:
  """[n] the masses of rows of q off the tokens of the nodes' children.

  Args:
    tokens: [N] of the nodes.
    offspring: [n, K] the children of each, or `NONE`.
    nodes: [n] the rows.
    q: [N, V] draft laws.
  """
  (n, K), V = offspring.shape, q.shape[1]

  def kernel(tokens, offspring, nodes, q, out):
    i, block = pl.program_id(0), pl.program_id(1)
    index, inside = _tokens(block, V)
    for child in range(K):
      inside &= index != _token(tokens, offspring, i, child)
    row = _load(q, nodes[i], block, V)
    out[i, block] = jnp.sum(jnp.where(inside, row, 0))

  B = _blocks(V)
  out = jax.ShapeDtypeStruct((n, B), q.dtype)
  sums = _run(kernel, (n, B), out, tokens, offspring, nodes, q)
  return residual.total(jnp.moveaxis(sums, 1, 0))


def reject(step, first, passed, tokens, offspring, laws, q, p) -> jax.Array:
  """One pass over a row of p and of q for each family at work.

  Args:
    step: [n, ..] `Step`.
    first: The place of its first rejection.
    passed: [T, ..] what the steps before have left; or T, if there
      were none.
    tokens: [N] of the nodes.
    offspring: [M, K] the children of families, or `NONE`.
    laws: Of `pack`.
    q: [N, V] draft laws.
    p: [N, V] target laws.

  Returns:
    The same with rows of this step.
  """
  V, K, W = p.shape[1], offspring.shape[1], laws.shape[1]
  B = _blocks(V)
  begins = isinstance(passed, int)
  T = passed if begins else len(passed)

  def kernel(step, tokens, offspring, laws, q, p, *passed):
    i, block = pl.program_id(0), pl.program_id(1)
    out = passed[-1]
    if begins:
      one = jnp.ones((), laws.dtype)
      chance = _down(step, laws, i, one)
      g = residual.begin(laws[step[i, STEP.family], :, _P_AT], chance)
    else:
      g = _entered(step, laws, passed[0], B, i)

    @pl.when(block == 0)
    def _():
      for column, value in enumerate(g[:_AT]):
        out[first + i, column] = value
      out[first + i, pl.ds(_AT, W)] = g.at

    mine = step[i, STEP.family]
    left = residual.shift(g, _law(laws, mine, step[i, STEP.lost]))
    index, inside = _tokens(block, V)
    for child in range(K):
      inside &= index != _token(tokens, offspring, mine, child)
    row = step[i, STEP.node]
    terms = left.alpha * _load(p, row, block, V)
    terms -= left.beta * _load(q, row, block, V)
    out[first + i, _AT + W + block] = jnp.sum(
      jnp.where(inside, _positive(terms), 0)
    )

  out = jax.ShapeDtypeStruct((T, _AT + W + _width(B)), p.dtype)
  before = () if begins else (passed,)
  arguments = step, tokens, offspring, laws, q, p, *before
  same = {} if begins else {len(arguments) - 1: 0}
  return _run(kernel, (len(step), B), out, *arguments, same=same)


def offer(nodes, passed, tokens, offspring, laws, eta, V) -> Offered:
  """Offers all nodes in post-order.

  Args:
    nodes: [N, ..] `Node`.
    passed: What the steps have left; None if there were none.
    tokens: [N] of the nodes.
    offspring: [M, K] the children of families, or `NONE`.
    laws: Of `pack`.
    eta: [N] coins.
    V: The size of the vocabulary.
  """
  N, K, B = len(nodes), offspring.shape[1], _blocks(V)
  spared = int((offspring[0] != NONE).sum()) - 1  # the root's last child
  width = _width(N)
  nodes = np.pad(nodes, [(0, width - N), (0, 0)], constant_values=NONE)
  root_last, root_lost = nodes[ROOT, [NODE.last, NODE.lost]].tolist()

  def kernel(nodes, tokens, offspring, laws, eta, *refs):
    *passed, masses, accept, chosen, g_out = refs
    lane = jnp.arange(width, dtype=jnp.int32)
    there = lane < N
    columns = Node(*(nodes[:, i] for i in range(len(NODE))))
    least = Node(*(jnp.maximum(column, 0) for column in columns))

    if root_last == NONE:
      end = _untried(laws, ROOT)
    else:
      end = _after(laws, *passed, B, root_last, 0, root_lost)
    # What each child is tried on: the root's last one, on what comes after.
    value = jnp.broadcast_to(_pick(end.at, spared), (width,))
    if passed:
      tried = passed[0][least.tried, _AT + least.rank]
      value = jnp.where(columns.tried == NONE, value, tried)
    column = jnp.full((width,), _EXISTS, jnp.int32)
    exists = laws[least.above, least.rank, column] != 0
    law_at = laws[least.above, least.rank, _LAW + least.rank]
    entry = residual.enter(value, law_at, exists)
    entry = jnp.where(lane == ROOT, 1, entry)
    mass = entry
    if passed:
      after = _all_after(laws, *passed, B, least.last, least.family, least.lost)
      mass = jnp.where(columns.last == NONE, entry, after.mass)

    nan = there & (jnp.isnan(entry) | jnp.isnan(mass))
    fault = jnp.max(jnp.where(nan, 1, 0)) > 0
    offered = there & (entry > 0) & (lane != ROOT)
    whole = pl.ds(0, width)
    coin = triton.load(eta.at[whole], mask=there, other=0)
    hit = there & ((lane == ROOT) | (offered & (coin < mass)))
    place = jnp.min(jnp.where(hit, columns.order, N))
    node = jnp.sum(jnp.where(hit & (columns.order == place), lane, 0))
    accepted = jnp.where(offered & (columns.order <= place), mass, NOT_OFFERED)
    mass = jnp.where(offered & ~fault, mass, 0)
    triton.store(masses.at[whole], mass, mask=there)
    triton.store(accept.at[whole], accepted, mask=there)

    node = jnp.where(fault, ROOT, node).astype(jnp.int32)
    leaf = nodes[node, NODE.family] == NONE
    own, row, lost = (
      jnp.maximum(nodes[node, column], 0)
      for column in (NODE.family, NODE.last, NODE.lost)
    )
    g = _after(laws, *passed, B, row, own, lost) if passed else end
    g = jax.tree.map(lambda x, y: jnp.where(node == ROOT, x, y), end, g)
    law = _law(laws, ROOT, spared)
    g = residual.shift(g, law._replace(exists=law.exists & (node == ROOT)))
    plain = Residual(alpha=1, beta=0, mass=1, deficit=0, at=0)
    g = jax.tree.map(lambda x, y: jnp.where(leaf, x, y), plain, g)
    ratio, values = relative(g, fault)
    g_out[0] = ratio
    chosen[0] = node
    chosen[1] = jnp.where(fault, 1, 0)
    for child in range(K):
      token = _token(tokens, offspring, own, child)
      chosen[2 + child] = jnp.where(leaf | fault, INVALID, token)
      g_out[1 + child] = _pick(values, child)

  dtype = laws.dtype
  out = Offered(
    mass=jax.ShapeDtypeStruct((N,), dtype),
    accept=jax.ShapeDtypeStruct((N,), dtype),
    chosen=jax.ShapeDtypeStruct((2 + K,), jnp.int32),
    g=jax.ShapeDtypeStruct((1 + K,), dtype),
  )
  more = () if passed is None else (passed,)
  return Offered(
    *_run(kernel, (), tuple(out), nodes, tokens, offspring, laws, eta, *more)
  )


def conclude(offered: Offered, q, p) -> tuple[jax.Array, jax.Array]:
  """The law [V] of the bonus token, and what it was divided by.

  A sum that is not finite is a fault that only shows now; see
  `decision.settle`.
  """
  V, K = p.shape[1], len(offered.chosen) - 2
  B = _blocks(V)

  def weights(chosen, g, q, p, block):
    """A block of the weights, of what is finite at the root, of p."""
    node, fault, ratio = chosen[0], chosen[1] != 0, g[0]
    index, inside = _tokens(block, V)
    row = _load(p, node, block, V)
    less = jnp.where(ratio > 0, ratio * _load(q, node, block, V), 0)
    own = _positive(row - less)
    for child in range(K):
      own = jnp.where(index == chosen[2 + child], g[1 + child], own)
    own = jnp.where(fault, finite(own), own)
    root = finite(_load(p, ROOT, block, V))
    return jnp.where(inside, own, 0), root, row

  def weigh(chosen, g, q, p, sums):
    block = pl.program_id(0)
    own, root, _ = weights(chosen, g, q, p, block)
    sums[0, block] = jnp.sum(own)
    sums[1, block] = jnp.sum(root)

  def divide(chosen, g, q, p, sums, law, size):
    block = pl.program_id(0)
    own, root, row = weights(chosen, g, q, p, block)
    total, least = _sum(sums, 0, 0, B), _sum(sums, 1, 0, B)
    spare = jnp.where(chosen[1] != 0, 1 / V, row)
    own = jnp.where(total > 0, own / jnp.where(total > 0, total, 1), spare)
    root = jnp.where(least > 0, root / jnp.where(least > 0, least, 1), 1 / V)
    own = jnp.where(total < jnp.inf, own, root)  # a NaN is not
    place, inside = _slice(block, V)
    triton.store(law.at[place], own, mask=inside)

    @pl.when(block == 0)
    def _():
      size[0] = total

  sums = jax.ShapeDtypeStruct((2, _width(B)), p.dtype)
  sums = _run(weigh, (B,), sums, offered.chosen, offered.g, q, p)
  out = jax.ShapeDtypeStruct((V,), p.dtype), jax.ShapeDtypeStruct((1,), p.dtype)
  law, size = _run(divide, (B,), out, offered.chosen, offered.g, q, p, sums)
  return law, size[0]


def _entered(step, laws, passed, B, i) -> Residual:
  """Family i of a step before its rejection."""
  place, above = step[i, STEP.place], step[i, STEP.above]
  rank = step[i, STEP.rank]
  g = _after(laws, passed, B, jnp.maximum(place, 0), above, step[i, STEP.gone])
  child = jnp.maximum(rank, 0)
  chance = _enter(laws, above, child, _pick(g.at, child))
  chance = _down(step, laws, i, jnp.where(place == NONE, 1, chance))
  new = residual.begin(laws[step[i, STEP.family], :, _P_AT], chance)
  goes_on = (rank == NONE) & (place != NONE)
  return jax.tree.map(lambda x, y: jnp.where(goes_on, x, y), g, new)


def _down(step, laws, i, chance):
  """The chance to enter one first child after the other."""
  for column in range(STEP.path, step.shape[1]):
    above = step[i, column]
    own = jnp.maximum(above, 0)
    further = _enter(laws, own, 0, chance * laws[own, 0, _P_AT])
    chance = jnp.where(above == NONE, chance, further)
  return chance


def _untried(laws, which) -> Residual:
  """A family that is entered for sure."""
  return residual.begin(laws[which, :, _P_AT], jnp.ones((), laws.dtype))


def _after(laws, passed, B, place, which, lost) -> Residual:
  """A family after a rejection."""
  W = laws.shape[1]
  numbers = (passed[place, column] for column in range(_AT))
  g = Residual(*numbers, passed[place, pl.ds(_AT, W)])
  law = _law(laws, which, lost)
  left = residual.shift(g, law)
  fresh = laws[which, :, _FRESH] != 0
  kept = jnp.sum(jnp.where(fresh, left.at, 0))
  kept += _sum(passed, place, _AT + W, B)
  return residual.rescale(g, left, law, kept)


def _all_after(laws, passed, B, place, which, lost) -> Residual:
  """`_after` of many: vectors of places, families and children."""
  n, W = len(place), laws.shape[1]
  column = jnp.broadcast_to(jnp.arange(W, dtype=jnp.int32), (n, W))

  def tile(x):
    return jnp.broadcast_to(x[:, None], (n, W))

  def vector(value):
    return jnp.full((n,), value, jnp.int32)

  numbers = (passed[place, vector(i)] for i in range(_AT))
  g = Residual(*numbers, passed[tile(place), _AT + column])
  law = Law(
    scale=laws[which, lost, vector(_SCALE)],
    at=laws[tile(which), tile(lost), _LAW + column],
    exists=laws[which, lost, vector(_EXISTS)] != 0,
  )
  left = jax.vmap(residual.shift)(g, law)
  fresh = laws[tile(which), column, jnp.full((n, W), _FRESH, jnp.int32)] != 0
  kept = jnp.sum(jnp.where(fresh, left.at, 0), axis=1)
  for block in range(B):
    kept += passed[place, vector(_AT + W + block)]
  return jax.vmap(residual.rescale)(g, left, law, kept)


def _law(laws, which, child) -> Law:
  """The law that a child of a family was drawn from."""
  W = laws.shape[1]
  return Law(
    scale=laws[which, child, _SCALE],
    at=laws[which, child, pl.ds(_LAW, W)],
    exists=laws[which, child, _EXISTS] != 0,
  )


def _enter(laws, which, child, g_at):
  """The chance to enter a child, of g at its token."""
  exists = laws[which, child, _EXISTS] != 0
  return residual.enter(g_at, laws[which, child, _LAW + child], exists)


def _token(tokens, offspring, which, child):
  """A child's token; `INVALID` if there is none."""
  node = offspring[which, child]
  return jnp.where(node == NONE, INVALID, tokens[jnp.maximum(node, 0)])


def _run(kernel, grid, out, *arguments, same=None):
  """Runs a kernel on an accelerator, and interprets it on a CPU.

  Args:
    kernel: Takes references to the arguments, then to what comes out.
    grid: How many programs there are, along each axis.
    out: Shapes of what comes out.
    *arguments: Arrays.
    same: By its place, the argument that an output overwrites.
  """

  def call(interpret):
    return pl.pallas_call(
      kernel,
      grid=grid,
      out_shape=out,
      input_output_aliases=same or {},
      interpret=interpret,
      compiler_params=triton.CompilerParams(num_warps=_WARPS),
    )

  return jax.lax.platform_dependent(
    *map(jnp.asarray, arguments), cpu=call(True), default=call(False)
  )


def _width(count: int) -> int:
  """The next power of two."""
  return 1 << max(count - 1, 0).bit_length()


def _size(V: int) -> int:
  """How many tokens a block has."""
  return min(_BLOCK, _width(V))


def _blocks(V: int) -> int:
  """How many blocks a row is."""
  return -(-V // _size(V))


def _slice(block, V):
  """Where a block is in a row; which places of it there are."""
  index, inside = _tokens(block, V)
  del index
  return pl.ds(block * _size(V), _size(V)), inside


def _tokens(block, V):
  """The tokens of a block; which of them there are."""
  index = block * _size(V) + jnp.arange(_size(V), dtype=jnp.int32)
  return index, index < V


def _load(rows, row, block, V):
  """A block of a row, and zeros where it has no more."""
  place, inside = _slice(block, V)
  return triton.load(rows.at[jnp.int32(row), place], mask=inside, other=0)


def _sum(rows, row, first, B):
  """The sum of B columns of a row."""
  inside = jnp.arange(_width(B), dtype=jnp.int32) < B
  place = rows.at[jnp.int32(row), pl.ds(first, _width(B))]
  return jnp.sum(triton.load(place, mask=inside, other=0))


def _pick(values, place):
  """values[place], which kernels do not have."""
  here = jnp.arange(len(values), dtype=jnp.int32) == place
  return jnp.sum(jnp.where(here, values, 0))


def _positive(x):
  return jnp.where(x <= 0, 0, x)  # a NaN stays one
