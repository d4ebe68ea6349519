"""The check for trees too large to enumerate: sampled drafts, exact decisions.

Axes: S drafts, N nodes, V vocabulary.

Drafts are drawn by the proposal's own `draw`. On each, the law of the accepted
node is the rule's closed form (`stop_law`), so only the drafting is left to
chance; the law of the output's first two tokens, averaged over drafts, must be
the target's within 5 standard errors. A rule without a closed form tosses its
coins, and so does one with noise of its own, whose bonus law depends on it as
well. Either way its coins are tossed once more, and what
comes out is held against the closed form, by its length, and against the target
at every depth: given what was put out before, a token's law is the target's, so
that any function of it, less its mean under the target, must average to 0.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np

from tv_jax.certify import compiling, exact
from tv_jax.certify.cases import Case
from tv_jax.certify.drafts import Drafts
from tv_jax.certify.exact import Outcome
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import Verifier

SIGMAS = 5.0
# Siblings drawn by one compiled call, whatever the level's size.
_FAMILIES = 4096
# Random functions of a token that are averaged at every depth.
_SIGNS = 8
# A rule's chance to end at a node, from which on forced coins must lead there.
_SOME = 1e-6

_FAULTS = (
  "fault is raised on sound laws",
  "node is not a node of the tree",
  "a node that could not be drawn (INVALID) is accepted",
  "residual is no law",
)


def row_of(path: np.ndarray, rows: int) -> np.ndarray:
  """Returns which row of a table has the law after contexts of these codes."""
  mixed = (path ^ (path >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
  return ((mixed >> np.uint64(33)) % np.uint64(rows)).astype(int)


def code_below(path: np.ndarray, token: np.ndarray) -> np.ndarray:
  """Returns the code of the context that a token leads to."""
  step = (token + 2).astype(np.uint64)
  return (path * np.uint64(0x100000001B3)) ^ (step * np.uint64(0x9E3779B1))


def draw_drafts(
  key: jax.Array, tree: Tree, proposal: Proposal, q: np.ndarray, count: int
) -> Drafts:
  """Draws `count` drafts; their contexts are rows of q."""
  tokens = np.full((count, len(tree)), INVALID, np.int32)
  code = np.ones((count, len(tree)), np.uint64)
  for number, nodes in enumerate(tree.levels[:-1]):
    nodes = np.array(nodes)[tree.num_children[list(nodes)] > 0]
    for k in np.unique(tree.num_children[nodes]):
      own = nodes[tree.num_children[nodes] == k]
      children = tree.children[own, :k]  # [n, k]
      laws = q[row_of(code[:, own], len(q))]  # [S, n, V]
      level_key = jax.random.fold_in(jax.random.fold_in(key, number), int(k))
      draw = _draw_many(proposal, int(k))
      drawn = draw(level_key, laws.reshape(-1, q.shape[1]))
      drawn = drawn.reshape(count, len(own), k)
      dead = (tokens[:, own] == INVALID) & (own != ROOT)
      tokens[:, children] = np.where(dead[..., None], INVALID, drawn)
      code[:, children] = code_below(code[:, own, None], tokens[:, children])
  tokens[:, ROOT] = 0
  return Drafts(tokens, row_of(code, len(q)), np.full(count, 1 / count))


@functools.lru_cache(maxsize=64)
def _draw_many(proposal, k):
  """(key, laws [n, V]) -> [n, k], compiled for one size."""
  compiled = compiling.jit(jax.vmap(lambda key, q: proposal.draw(key, q, k)))

  def draw(key, laws):
    def piece(places, laws):
      own = jax.random.fold_in(key, int(places[0]))
      return compiled(jax.random.split(own, _FAMILIES), laws)

    return compiling.in_pieces(piece, _FAMILIES, np.arange(len(laws)), laws)

  return draw


def make_runner(
  verifier: Verifier,
  proposal: Proposal,
  tree: Tree,
  dtype: type,
  count: int,
  tossed: bool = False,
) -> Callable[[Case, int], Outcome]:
  """Makes a function of a case and a seed that samples it; compiled once.

  Args:
    verifier: The rule.
    proposal: The proposal.
    tree: The tree.
    dtype: Of the laws.
    count: S.
    tossed: Whether nothing but tossed coins is to say what comes out.
  """

  def decide(tokens, q, p, eta):
    return verifier.decide(tree, proposal, tokens, q, p, eta)

  decide_all = compiling.jit(jax.vmap(decide))
  stop_all = None
  if verifier.offers:
    laws = exact.stop_laws(verifier, proposal, tree)
    stop_all = functools.partial(laws, None)
  batch = min(count, max(1, (1 << 22) // (len(tree) * 64)))
  tossed = tossed or not verifier.offers
  on_drafts = functools.partial(
    _on_drafts, verifier, tree, decide_all, stop_all, tossed
  )

  def run(case: Case, seed: int) -> Outcome:
    p, q = (laws.astype(dtype) for laws in (case.p, case.q))
    drafts = draw_drafts(jax.random.key(seed), tree, proposal, q, count)
    rng = np.random.default_rng(seed)

    def piece(tokens, rows):
      return on_drafts((tokens, q[rows], p[rows]), rng, p, rows)

    first_two, expected, realised, variance, surprise, *broken = (
      compiling.in_pieces(piece, batch, drafts.tokens, drafts.context)
    )
    root = p[row_of(np.ones(1, np.uint64), len(p))[0]].astype(float)
    after = code_below(np.ones(1, np.uint64), np.arange(p.shape[1]))
    target = root[:, None] * p[row_of(after, len(p))]
    mean = first_two.mean(axis=0)
    error = first_two.std(axis=0, ddof=1) / np.sqrt(count)
    # An event too rare to be seen shows no variance: 5 times this allows for
    # one that 15 draws in `count` would be expected to show.
    sigmas = np.abs(mean - target) / (error + 3 / count)
    error = surprise.std(axis=0, ddof=1) / np.sqrt(count)
    deeper = np.abs(surprise.mean(axis=0)) / (error + 6 / count)
    faults = [
      text for text, own in zip(_FAULTS, broken, strict=True) if own.any()
    ]
    spread = float(np.sqrt(variance.sum())) + 1.0
    off = abs(float((realised - expected).sum())) / spread
    if off > SIGMAS:
      faults.append(f"stop_law is {off:.1f} sigma from the decisions")
    return Outcome(
      law=mean.ravel(),
      target=target.ravel(),
      expected=float(expected.mean()),
      faults=tuple(faults),
      drafts=drafts,
      sigmas=float(max(sigmas.max(), deeper.max())),
    )

  return run


def _on_drafts(
  verifier, tree, decide_all, stop_all, all_tossed, given, rng, p, rows
):
  """Finds, by draft, the law of the first two tokens, and the length's moments.

  The last four are what `_FAULTS` names.
  """
  tokens = given[0]
  S, V = len(tokens), p.shape[1]
  length = tree.depth + 1.0
  eta = rng.random((S, len(tree))).astype(p.dtype)
  eta = np.minimum(eta, 1 - np.finfo(p.dtype).epsneg)  # float32 rounds up to 1
  tossed = jax.tree.map(np.asarray, decide_all(*given, eta))
  outside = (tossed.node < 0) | (tossed.node >= len(tree))
  tossed = dataclasses.replace(tossed, node=np.where(outside, 0, tossed.node))
  ended = stop = np.eye(len(tree))[tossed.node]
  residuals = None
  if stop_all:
    stop = np.asarray(stop_all(*given)).astype(float)
    if not all_tossed:
      residuals = _residuals(tree, decide_all, given, stop, eta.dtype)
  if residuals:
    ended = stop
  else:
    residuals = [tossed.residual] * (1 + tree.num_children[ROOT])
  first_two = np.zeros((S, V, V))
  draft = np.arange(S)
  for node in range(len(tree)):
    chance = ended[:, node]
    if node == ROOT:
      after = row_of(code_below(np.ones(1, np.uint64), np.arange(V)), len(p))
      bonus = residuals[node].astype(float)
      first_two += chance[:, None, None] * bonus[..., None] * p[after]
    elif tree.depth[node] == 1:
      bonus = residuals[node].astype(float)
      first_two[draft, tokens[:, node]] += chance[:, None] * bonus
    else:
      a, b = tokens[:, tree.paths[node, 1:3]].T
      first_two[draft, a, b] += chance
  surprise = _surprise(tree, tossed, tokens, p, rows)
  expected = stop @ length
  variance = stop @ length**2 - expected**2
  return (
    first_two,
    expected,
    length[tossed.node],
    np.maximum(variance, 0),
    surprise,
    tossed.fault,
    outside,
    tokens[draft, tossed.node] == INVALID,
    exact.improper(tossed.residual),
  )


def _surprise(tree, tossed, tokens, p, rows):
  """[S, depth + 1, F] random functions of each token put out, less their means.

  0 beyond the bonus token; the bonus token's own is averaged over its law.
  """
  sign = np.random.default_rng(0).choice([-1.0, 1.0], size=(_SIGNS, *p.shape))
  sign = np.moveaxis(sign, 0, -1)  # [rows, V, F]
  mean = np.einsum("rv,rvf->rf", p.astype(float), sign)
  gain = sign - mean[:, None]
  draft, depth = np.arange(len(tokens)), tree.depth[tossed.node]
  surprise = np.zeros((len(tokens), tree.max_depth + 1, _SIGNS))
  for level in range(tree.max_depth + 1):
    own = rows[draft, tree.paths[tossed.node, level]]
    if level < tree.max_depth:
      token = tokens[draft, tree.paths[tossed.node, level + 1]]
      drawn = gain[own, token]
      surprise[:, level] = np.where((depth > level)[:, None], drawn, 0)
    bonus = np.einsum("sv,svf->sf", tossed.residual.astype(float), gain[own])
    surprise[depth == level, level] = bonus[depth == level]
  return surprise


def _residuals(tree, decide_all, given, stop, dtype):
  """The bonus law at the root and at each node below it, by forced coins.

  None where such coins do not lead there: the rule walks in a way of its own.
  """
  high = np.nextafter(dtype.type(1), dtype.type(0))
  residuals = []
  for node in range(1 + tree.num_children[ROOT]):
    eta = np.full((len(given[0]), len(tree)), high, dtype)
    if node != ROOT:
      eta[:, node] = 0
    decided = decide_all(*given, eta)
    if ((stop[:, node] > _SOME) & (np.asarray(decided.node) != node)).any():
      return None
    residuals.append(np.asarray(decided.residual))
  return residuals
