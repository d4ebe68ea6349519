"""A verifier written plainly, and the mistakes that public code has made.

Everything V-sized is written out, node by node. Without a fault it is the
traversal (or the token-level walk) and must be certified; with one of the
faults it must be caught.
"""

import functools

import jax.numpy as jnp

from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT
from tv_jax.verifiers import NOT_OFFERED, VERIFIERS, Decision


def _law(name, q, tokens, j, k):
  """The law of the j-th of k siblings with these tokens, over all of V."""
  V = len(q)
  mine = jnp.arange(V, dtype=jnp.int32) == tokens[j]
  if name == "with_replacement":
    return q
  if name == "top_k" or (name == "sample_then_top" and j > 0):
    return mine.astype(q.dtype)
  drawn = tokens[1:k] if name == "sample_then_top" else tokens[:j]
  gone = jnp.zeros(V, bool)
  for token in drawn:
    gone |= jnp.arange(V, dtype=jnp.int32) == token
  left = jnp.where(gone, 0, q)
  total = left.sum()
  return left / jnp.where(total > 0, total, 1)


def plain(draft, eta, *, fault=None):
  tree, proposal, tokens, q, p = draft
  name = proposal.name
  if fault == "zeroed with replacement" and name == "with_replacement":
    name = "without_replacement"
  if fault == "not zeroed without" and name == "without_replacement":
    name = "with_replacement"
  if fault == "soft q for one-hot drafts" and name == "top_k":
    name = "without_replacement"
  residual, mass = {}, {}

  def visit(node, chance):
    g = chance * p[node]
    before = g
    children = [int(c) for c in tree.children[node] if c != NO_CHILD]
    held = jnp.array([tokens[c] for c in children])
    for j in range(len(children)):
      token = held[j]
      law = _law(name, q[node], held, j, len(children))
      exists = (token != INVALID) & (law[token] > 0)
      if fault == "zeroed with replacement":
        exists = token != INVALID  # a token drawn twice now has q = 0
      source = before if fault == "descendants not refreshed" else g
      chance_in = jnp.minimum(
        1, source[token] / jnp.where(law[token] > 0, law[token], 1)
      )
      chance_in = jnp.where(exists, chance_in, 0)
      visit(children[j], chance_in)
      short = jnp.maximum(law - g, 0).sum()
      if fault == "divided by its own sum":
        short = jnp.maximum(g - law, 0).sum()
      new = jnp.maximum(g - law, 0) / jnp.where(short > 0, short, 1)
      g = jnp.where(exists & (short > 0), new, g)
    total = g.sum()
    mass[node] = jnp.minimum(total, 1)
    law = jnp.where(total > 0, g / jnp.where(total > 0, total, 1), p[node])
    if fault == "bonus from p inside" and children:
      law = p[node]
    if fault == "bonus after a full path" and not children:
      law = p[tree.parent[node]]
    residual[node] = law

  visit(ROOT, 1.0)
  N = len(tree)
  passes = (lambda a, b: a <= b) if fault == "<=" else (lambda a, b: a < b)
  threshold = [jnp.asarray(NOT_OFFERED, p.dtype)] * N
  node, done = jnp.asarray(ROOT), jnp.asarray(False)
  for v in tree.postorder[:-1]:
    v = int(v)
    live = ~done & (tokens[v] != INVALID)
    threshold[v] = jnp.where(live, mass[v], NOT_OFFERED)
    hit = live & passes(eta[v], mass[v])
    node = jnp.where(hit, v, node)
    done |= hit
  return Decision(
    node=node.astype(jnp.int32),
    residual=jnp.stack([residual[v] for v in range(N)])[node],
    threshold=jnp.stack(threshold),
    fault=jnp.asarray(False),
  )


def block_that_stops(draft, eta):
  """Block verification read as: stop at the first rejection."""
  honest = VERIFIERS["block"].decide(draft, jnp.ones_like(eta))
  h = honest.threshold
  node, live = jnp.asarray(ROOT), jnp.asarray(True)
  threshold = jnp.full_like(h, NOT_OFFERED)
  for v in range(1, len(draft.tree)):
    live &= h[v] != NOT_OFFERED
    threshold = threshold.at[v].set(jnp.where(live, h[v], NOT_OFFERED))
    live &= eta[v] < h[v]
    node = jnp.where(live, v, node)
  # The residual of that node, from the honest rule by forced coins.
  forced = jnp.where(jnp.arange(len(eta)) <= node, 0.0, 1.0).astype(eta.dtype)
  return Decision(
    node=node.astype(jnp.int32),
    residual=VERIFIERS["block"].decide(draft, forced).residual,
    threshold=threshold,
    fault=jnp.asarray(False),
  )


def siblings_sorted_by_q(draft, eta):
  """An honest rule on the root's children in order of probability."""
  assert draft.tree.max_depth == 1
  tokens, p = draft.tokens, draft.p
  score = jnp.where(tokens == INVALID, -1, draft.q[ROOT][tokens])
  order = jnp.argsort(-score.at[ROOT].set(2)).astype(jnp.int32)
  sorted_draft = draft._replace(tokens=tokens[order], p=p[order])
  honest = VERIFIERS["traversal"].decide(sorted_draft, eta[order])
  return Decision(
    node=order[honest.node],
    residual=honest.residual,
    threshold=honest.threshold[jnp.argsort(order)],
    fault=honest.fault,
  )


def threshold_that_lies(draft, eta):
  """The decisions of another rule, with the traversal's thresholds."""
  return VERIFIERS["traversal"].decide(draft, eta**2)


FAULTS = {
  "zeroed with replacement": "with_replacement",
  "not zeroed without": "without_replacement",
  "divided by its own sum": "without_replacement",
  "descendants not refreshed": "without_replacement",
  "bonus from p inside": "without_replacement",
  "bonus after a full path": "without_replacement",
  "soft q for one-hot drafts": "top_k",
  "<=": "without_replacement",
}

# By name, for the command line.
bonus_from_p = functools.partial(plain, fault="bonus from p inside")
