"""Random drafts, and how long every verifier takes to decide on them."""

import bisect
import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common
from benchmarks.numpy_walks import Walk
from tv_jax import drafting, probs, proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import Tree
from tv_jax.verifiers import DEFAULT, VERIFIERS, misfit

SCALE, NOISE = 5.0, 0.6
REPEATS = 4
PROPOSAL = proposals.WITHOUT_REPLACEMENT
TRAVERSAL = ("traversal", "traversal_loop")
NUMPY = "numpy traversal"


class Drafts(NamedTuple):
  """The rows of one tree, and many draws of its tokens."""

  draft: np.ndarray  # [M, V] logits of the nodes that have children
  target: np.ndarray  # [N, V] logits
  tokens: np.ndarray  # [decisions, N]
  distance: float  # mean TV(p, q) over the nodes that have children


def make_drafts(tree: Tree, vocabulary: int, decisions: int, seed) -> Drafts:
  """Random drafts, made row by row: nothing else is as large as the logits."""
  rng = np.random.default_rng(seed)
  target = np.empty((len(tree), vocabulary), np.float32)
  for row in target:
    rng.standard_normal(out=row, dtype=np.float32)
    row *= SCALE
  inner = tree.inner
  draft = np.empty((len(inner), vocabulary), np.float32)
  tokens = np.full((decisions, len(tree)), INVALID, np.int32)
  distance = []
  for node, row in zip(inner, draft, strict=True):
    rng.standard_normal(out=row, dtype=np.float32)
    row *= NOISE
    row += target[node]
    q = _softmax(row)
    distance.append(np.abs(_softmax(target[node]) - q).sum() / 2)
    cumulative = np.cumsum(q, dtype=np.float64)
    children = tree.children[node, : tree.num_children[node]]
    for drawn in tokens:
      drawn[children] = _draw_siblings(rng, cumulative, len(children))
  return Drafts(draft, target, tokens, float(np.mean(distance)))


def _softmax(logits):
  weights = np.exp(logits - logits.max())
  return weights / weights.sum()


def _draw_siblings(rng, cumulative, k) -> list[int]:
  """Draws k tokens by inversion; those drawn are cut out of the interval."""
  cuts, tokens = [], []
  for _ in range(k):
    left = cumulative[-1] - sum(stop - start for start, stop in cuts)
    point = rng.random() * left
    for start, stop in cuts:  # ascending
      if point >= start:
        point += stop - start
    last = len(cumulative) - 1
    token = min(int(np.searchsorted(cumulative, point, side="right")), last)
    start = cumulative[token - 1] if token else 0.0
    bisect.insort(cuts, (start, cumulative[token]))
    tokens.append(token)
  return tokens


def to_laws(tree: Tree, draft: jax.Array, target: jax.Array):
  """The laws q, p [N, V] from logits; a leaf's row of q is never read."""
  return drafting.spread(tree, probs.law(draft)), probs.law(target)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
  """What was measured on one tree at one vocabulary."""

  tree: Tree
  distance: float  # mean TV(p, q)
  called: dict[str, np.ndarray]  # [decisions] ms by method, a call for each
  nodes: dict[str, np.ndarray]  # [decisions] the accepted node by method
  inside: dict[str, float]  # ms by method: one of many, its token drawn too


def measure(
  tree: Tree,
  vocabulary: int,
  decisions: int,
  seed,
  also: Sequence[str] = (),
) -> Measured:
  """Times all methods on one tree, and `also` these rules."""
  drafts = make_drafts(tree, vocabulary, decisions, seed)
  rng = np.random.default_rng([seed, 1])
  rules = [
    name
    for name in (*DEFAULT, *also)
    if not misfit(VERIFIERS[name], tree, proposal_of(name))
  ]
  most = max(VERIFIERS[name].num_coins(tree) for name in rules)
  eta = rng.random((decisions, most), dtype=np.float32)
  coins = list(zip(drafts.tokens, eta, strict=True))
  logits = jnp.asarray(drafts.draft), jnp.asarray(drafts.target)
  distance = drafts.distance
  del drafts  # each copy of a large tree's rows is most of a gigabyte
  laws = jax.jit(functools.partial(to_laws, tree))(*logits)
  del logits
  methods = {}
  for name in rules:
    program = jax.jit(on_laws(name, tree)).lower(*coins[0], *laws).compile()
    methods[name] = _bound(program, laws)
  # Views on a CPU; for another device the walk's rows are on the host.
  q, p = map(np.asarray, laws)
  walk = Walk(tree, vocabulary)
  methods[NUMPY] = lambda own, eta: lambda: walk.traversal(own, q, p, eta)[0]
  called, nodes = _race(methods, coins, rng)
  return Measured(
    tree=tree,
    distance=distance,
    called=called,
    nodes=nodes,
    inside=_race_inside(tree, laws, coins, rng),
  )


def proposal_of(name: str) -> proposals.Proposal:
  """What a rule takes the siblings to be drawn by: `PROPOSAL`, if it can."""
  known = VERIFIERS[name].proposals
  if not known or PROPOSAL.name in known:
    return PROPOSAL
  return proposals.resolve(known[0])


def on_laws(name: str, tree: Tree) -> Callable:
  """A verifier as a function of tokens, coins, q and p."""
  rule = VERIFIERS[name]
  decide = functools.partial(rule.decide, tree, proposal_of(name))
  coins = rule.num_coins(tree)
  return lambda tokens, eta, q, p: decide(tokens, q, p, eta[:coins])


def _bound(program, rows) -> Callable:
  """A method: `prepare(tokens, eta)`, untimed, gives what is timed."""

  def prepare(tokens, eta):
    tokens, eta = jax.device_put((tokens, eta))
    return lambda: jax.block_until_ready(program(tokens, eta, *rows)).node

  return prepare


def inside(name: str, tree: Tree) -> Callable:
  """Verifications one after the other, as a generation has them.

  Args:
    name: Of a rule.
    tree: The tree.

  Returns:
    A function of tokens, coins and keys of many, and one q and p, to the
    accepted nodes and what came after them.
  """
  decide = on_laws(name, tree)

  def run(tokens, eta, keys, q, p):
    def one(given):
      tokens, eta, key = given
      made = decide(tokens, eta, q, p)
      return made.node, probs.draw(key, made.residual)

    return jax.lax.map(one, (tokens, eta, keys))

  return run


def _race_inside(tree, laws, coins, rng) -> dict[str, float]:
  """Milliseconds of one of many verifications inside a program, by method."""
  tokens, eta = map(np.stack, zip(*coins, strict=True))
  keys = jax.random.split(jax.random.key(0), len(coins))
  given = *jax.device_put((tokens, eta, keys)), *laws
  q, p = map(np.asarray, laws)
  walk, points = Walk(tree, q.shape[1]), rng.random(len(coins))

  def numpys():
    for own, point in zip(coins, points, strict=True):
      _, law = walk.traversal(own[0], q, p, own[1])
      walk.draw(law, point)

  def ours(name):
    program = jax.jit(inside(name, tree)).lower(*given).compile()
    return lambda: jax.block_until_ready(program(*given))

  methods = {NUMPY: numpys} | {n: ours(n) for n in TRAVERSAL}

  def timed(run):
    run()  # warm

    def one(turn):
      del turn
      start = time.perf_counter()
      run()
      return 1e3 * (time.perf_counter() - start) / len(coins)

    return one

  methods = {name: timed(run) for name, run in methods.items()}
  found = common.race(methods, REPEATS, rng, say=lambda text: None)
  return {name: min(turns) for name, turns in found.items()}


def _race(methods, coins, rng):
  """Milliseconds and accepted nodes by method, [decisions], same coins."""

  def timed(prepare, turn):
    run = prepare(*coins[turn % len(coins)])
    start = time.perf_counter()
    node = run()
    return 1e3 * (time.perf_counter() - start), int(node)

  methods = {k: functools.partial(timed, own) for k, own in methods.items()}
  for run in methods.values():
    run(0)  # warm
  # In new orders: none always has a warm cache.
  found = common.race(methods, REPEATS * len(coins), rng, say=lambda text: None)
  times, nodes = {}, {}
  for name, turns in found.items():
    ms, node = np.array(turns).T.reshape(2, REPEATS, len(coins))
    times[name], nodes[name] = ms.min(axis=0), node[0].astype(int)
  return times, nodes
