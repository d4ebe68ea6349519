"""The check for trees too large to enumerate: sampled drafts, tossed coins.

Axes: S drafts, N nodes, V vocabulary.

Drafts are drawn by the proposal's own `draw`, and the rule's coins are tossed.
The output's first two tokens, averaged over drafts, must have the target's law
within 5 standard errors; and, at every depth, given what was put out before, a
token's law is the target's, so that any function of it, less its mean under the
target, must average to 0. Of the bonus token its law is taken, not a draw. A
rule that has a closed form (`stop_law`) must have the lengths that this says.
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
_EMPTY = np.ones(1, np.uint64)  # the code of the empty context


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
  verifier: Verifier, proposal: Proposal, tree: Tree, dtype: type, count: int
) -> Callable[[Case, int], Outcome]:
  """Makes a function of a case and a seed that samples it; compiled once."""

  def decide(tokens, q, p, eta):
    return verifier.decide(tree, proposal, tokens, q, p, eta)

  decide_all = compiling.jit(jax.vmap(decide))
  stop_all = None
  if verifier.offers:
    laws = exact.stop_laws(verifier, proposal, tree)
    stop_all = functools.partial(laws, None)
  batch = min(count, max(1, (1 << 22) // (len(tree) * 64)))
  length = tree.depth + 1.0

  def on_drafts(rng, p, tokens, q_at, rows):
    """What is found of each draft; the last four are faults."""
    given = tokens, q_at, p[rows]
    eta = rng.random(tokens.shape).astype(p.dtype)
    eta = np.minimum(eta, 1 - np.finfo(p.dtype).epsneg)  # float32 rounds to 1
    tossed = jax.tree.map(np.asarray, decide_all(*given, eta))
    outside = (tossed.node < 0) | (tossed.node >= len(tree))
    node = np.where(outside, 0, tossed.node)
    tossed = dataclasses.replace(tossed, node=node)
    stop = np.eye(len(tree))[node]
    stop = np.asarray(stop_all(*given)).astype(float) if stop_all else stop
    expected = stop @ length
    return (
      *_output(tree, tossed, tokens, p.astype(float), rows),
      expected,
      length[node] - expected,
      np.maximum(stop @ length**2 - expected**2, 0),
      tossed.fault,
      outside,
      tokens[np.arange(len(tokens)), node] == INVALID,
      exact.improper(tossed.residual),
    )

  def run(case: Case, seed: int) -> Outcome:
    p, q = (laws.astype(dtype) for laws in (case.p, case.q))
    drafts = draw_drafts(jax.random.key(seed), tree, proposal, q, count)
    rng = np.random.default_rng(seed)

    def piece(tokens, rows):
      return on_drafts(rng, p, tokens, q[rows], rows)

    first_two, surprise, expected, more, variance, *broken = (
      compiling.in_pieces(piece, batch, drafts.tokens, drafts.context)
    )
    root = p[row_of(_EMPTY, len(p))[0]].astype(float)
    after = code_below(_EMPTY, np.arange(p.shape[1]))
    target = root[:, None] * p[row_of(after, len(p))]
    # An event too rare to be seen shows no variance: 5 times this allows for
    # one that 15 draws in `count` would be expected to show.
    sigmas = [
      np.abs(values.mean(axis=0) - mean)
      / (values.std(axis=0, ddof=1) / np.sqrt(count) + rare / count)
      for values, mean, rare in ((first_two, target, 3), (surprise, 0.0, 6))
    ]
    off = abs(float(more.sum())) / (float(np.sqrt(variance.sum())) + 1.0)
    faults = {
      "fault is raised on sound laws": broken[0].any(),
      "node is not a node of the tree": broken[1].any(),
      "a node that could not be drawn (INVALID) is accepted": broken[2].any(),
      "residual is no law": broken[3].any(),
      f"stop_law is {off:.1f} sigma from the decisions": not off <= SIGMAS,
    }
    return Outcome(
      law=first_two.mean(axis=0).ravel(),
      target=target.ravel(),
      expected=float(expected.mean()),
      faults=tuple(text for text, wrong in faults.items() if wrong),
      drafts=drafts,
      sigmas=float(np.max([x.max() for x in sigmas])),
    )

  return run


def _output(tree, tossed, tokens, p, rows):
  """Looks at the tokens that are put out.

  Returns:
    [S, V, V] the law of the first two, and [S, depth + 1, F] random functions
    of each token less their means: 0 beyond the bonus token, whose own is
    averaged over its law.
  """
  sign = np.random.default_rng(0).choice([-1.0, 1.0], size=(_SIGNS, *p.shape))
  sign = np.moveaxis(sign, 0, -1)  # [rows, V, F]
  gain = sign - np.einsum("rv,rvf->rf", p, sign)[:, None]
  S, V = len(tokens), p.shape[1]
  draft, depth = np.arange(S), tree.depth[tossed.node]
  residual = tossed.residual.astype(float)
  surprise = np.zeros((S, tree.max_depth + 1, _SIGNS))
  put_out = np.zeros((S, tree.max_depth + 1, V))  # the law of each
  for level in range(tree.max_depth + 1):
    own = rows[draft, tree.paths[tossed.node, level]]
    deeper = min(level + 1, tree.max_depth)
    token = tokens[draft, tree.paths[tossed.node, deeper]]
    here, passed = (depth == level)[:, None], (depth > level)[:, None]
    law = np.where(here, residual, np.where(passed, np.eye(V)[token], 0))
    surprise[:, level] = np.einsum("sv,svf->sf", law, gain[own])
    put_out[:, level] = law
  first, second = put_out[:, 0], put_out[:, 1]
  after = p[row_of(code_below(_EMPTY, np.arange(V)), len(p))]
  ended = (depth == 0)[:, None, None]
  second = np.where(ended, after, second[:, None])
  return first[:, :, None] * second, surprise
