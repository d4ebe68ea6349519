"""The check for trees too large to enumerate: sampled drafts, tossed coins.

Axes: S drafts, N nodes, V vocabulary, R contexts, F functions.

Drafts are drawn by the proposal's own `draw`, and the rule's coins are tossed.
The output's first two tokens, averaged over drafts, must have the target's law
within 5 standard errors; and, at every depth, given what was put out before, a
token's law is the target's, so that any function of it, less its mean under the
target, must average to 0. Of the bonus token its law is taken, not a draw. A
rule that has a closed form (`stop_law`) must have the lengths that this says.

Laws are functions of the context: its number, as `cases` has it, modulo R.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.certify import compiling, exact
from tv_jax.certify.cases import Case, below
from tv_jax.certify.exact import Outcome
from tv_jax.proposals import INVALID, Proposal
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import Verifier

SIGMAS = 5.0
ROWS = 257  # R
# Random functions of a token that are averaged at every depth.
_SIGNS = 8


def make_runner(
  verifier: Verifier, proposal: Proposal, tree: Tree, dtype: type, count: int
) -> Callable[[Case, int], Outcome]:
  """Makes a function of a case and a seed that samples it; compiled once."""
  length = tree.depth.astype(dtype) + 1

  def draft(key, p, q, gain):
    """Drafts, decides, and looks at what is put out."""
    draws, coins = jax.random.split(key)
    tokens, rows = _draw(draws, tree, proposal, q)
    laws = tree, proposal, tokens, q[rows], p[rows]
    eta = jax.random.uniform(coins, tokens.shape, dtype)
    decision = verifier.decide(*laws, eta)
    outside = (decision.node < 0) | (decision.node >= len(tree))
    node = jnp.where(outside, ROOT, decision.node)
    stop = jax.nn.one_hot(node, len(tree), dtype=dtype)
    stop = verifier.stop_law(*laws) if verifier.offers else stop
    expected = stop @ length
    law, off = _output(tree, node, decision.residual, tokens, rows, p, gain)
    return {
      "law": law,
      "off": off,
      "residual": decision.residual,
      "length": expected,
      "more": jnp.asarray(length)[node] - expected,
      "variance": jnp.maximum(stop @ length**2 - expected**2, 0),
      "faults": {
        "fault is raised on sound laws": decision.fault,
        "node is not a node of the tree": outside,
        "a node that could not be drawn (INVALID) is accepted": (
          tokens[node] == INVALID
        ),
      },
    }

  drafts = compiling.jit(jax.vmap(draft, (0, None, None, None)))
  batch = min(count, max(1, (1 << 22) // (len(tree) * 64)))

  def run(case: Case, seed: int) -> Outcome:
    p, q = (laws.astype(dtype) for laws in (case.p, case.q))
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(*p.shape, _SIGNS))
    gain = (signs - np.einsum("rv,rvf->rf", p, signs)[:, None]).astype(dtype)
    keys = jax.random.split(jax.random.key(seed), count)
    seen = compiling.in_pieces(
      lambda keys: drafts(keys, p, q, gain), batch, keys
    )
    after = p[below(0, np.arange(p.shape[1]), p.shape[1]) % ROWS].astype(float)
    target = p[0].astype(float)[:, None] * after
    # An event too rare to be seen shows no variance: 5 times this allows for
    # one that 15 draws in `count` would be expected to show.
    laws, off = (seen[name].astype(float) for name in ("law", "off"))
    sigmas = [
      np.abs(values.mean(axis=0) - mean)
      / (values.std(axis=0, ddof=1) / count**0.5 + rare / count)
      for values, mean, rare in ((laws, target, 3), (off, 0.0, 6))
    ]
    more, variance = (seen[x].sum(dtype=float) for x in ("more", "variance"))
    more = abs(more) / (variance**0.5 + 1)
    faults = {text: rows.any() for text, rows in seen["faults"].items()} | {
      "residual is no law": exact.improper(seen["residual"]).any(),
      f"stop_law is {more:.1f} sigma from the decisions": not more <= SIGMAS,
    }
    return Outcome(
      law=laws.mean(axis=0).ravel(),
      target=target.ravel(),
      length=float(seen["length"].mean(dtype=float)),
      faults=tuple(text for text, wrong in faults.items() if wrong),
      sigmas=float(np.max([x.max() for x in sigmas])),
    )

  return run


def _draw(key, tree: Tree, proposal: Proposal, q):
  """Draws a tree: tokens [N], and the context [N] of each node."""
  tokens = jnp.full(len(tree), INVALID, jnp.int32)
  rows, V = jnp.zeros(len(tree), jnp.int32), q.shape[1]
  families = tree.num_children
  for level in map(np.array, tree.levels[:-1]):
    for k in {*families[level].tolist()} - {0}:
      nodes = level[families[level] == k]
      keys = jax.random.split(
        jax.random.fold_in(key, int(nodes[0])), len(nodes)
      )
      drawn = jax.vmap(lambda key, law, k=k: proposal.draw(key, law, k))(
        keys, q[rows[nodes]]
      )
      dead = (tokens[nodes] == INVALID) & (nodes != ROOT)
      drawn = jnp.where(dead[:, None], INVALID, drawn)
      children = tree.children[nodes, :k]
      tokens = tokens.at[children].set(drawn)
      context = below(rows[nodes][:, None], drawn, V) % ROWS
      rows = rows.at[children].set(context)
  return tokens.at[ROOT].set(0), rows


def _output(tree, node, residual, tokens, rows, p, gain):
  """Looks at the tokens that are put out.

  Returns:
    [V, V] the law of the first two, and [D + 1, F] random functions of each
    token less their means: 0 beyond the bonus token, whose own is averaged over
    its law.
  """
  depth, V, laws, surprise = jnp.asarray(tree.depth)[node], p.shape[1], [], []
  path = jnp.asarray(tree.paths)[node]
  for level in range(tree.max_depth + 1):
    token = tokens[path[min(level + 1, tree.max_depth)]]
    passed = jax.nn.one_hot(token, V, dtype=p.dtype)
    law = jnp.where(depth > level, passed, jnp.zeros_like(residual))
    laws.append(jnp.where(depth == level, residual, law))
    surprise.append(laws[-1] @ gain[rows[path[level]]])
  after = p[below(0, np.arange(V), V) % ROWS]
  second = jnp.where(depth == 0, after, laws[1][None])
  return laws[0][:, None] * second, jnp.stack(surprise)
