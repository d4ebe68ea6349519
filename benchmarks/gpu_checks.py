"""The parts of `benchmarks.gpu` that check: a check that fails raises.

A part is a function of a scale that gives its cases, each a name, a function
that returns a row of results, and its arguments.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, gpu_shapes
from benchmarks.gpu_times import Scale, graphs, on_gpu
from tv_jax import probs, proposals
from tv_jax.verifiers import VERIFIERS


def random_tokens(tree, proposal, key, q):
  """Draws [N] tokens, each family from its parent's row of `q` [N, V]."""
  tokens = jnp.zeros(len(tree), jnp.int32)
  keys = jax.random.split(key, len(tree.inner))
  for node, own in zip(tree.inner, keys, strict=True):
    k = int(tree.num_children[node])
    drawn = proposal.draw(own, q[int(node)], k)
    tokens = tokens.at[tree.children[node, :k]].set(drawn)
  return tokens


def random_drafts(tree, proposal, vocabulary, count, seed):
  """Makes [count, ..] tokens, q, p, coins: laws with a few likely tokens."""

  def one(key):
    draws, noise, target, coins = jax.random.split(key, 4)
    N = len(tree)
    p = 4 * jax.random.normal(target, (N, vocabulary))
    q = probs.law(p + jax.random.normal(noise, (N, vocabulary)))
    tokens = random_tokens(tree, proposal, draws, q)
    return tokens, q, probs.law(p), jax.random.uniform(coins, (N,))

  return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), count))


def forms(scale: Scale) -> Iterator[tuple]:
  """Compares the level-parallel forms with the loops, coin for coin."""
  tree = scale.trees[0]
  for proposal in scale.proposals:
    for rule in scale.rules:
      name = f"{rule}, {proposal}, {tree}: level = loop"
      yield name, _compare, scale, tree, proposal, (rule, f"{rule}_loop")
  rules = "traversal", "traversal_loop", "block"
  name = f"{' = '.join(rules)}, chain:5"
  yield name, _compare, scale, "chain:5", "without_replacement", rules


def _compare(scale, tree, proposal, names):
  tree, proposal = common.tree(tree), proposals.PROPOSALS[proposal]
  drafts = random_drafts(
    tree, proposal, scale.drafts_vocabulary, scale.drafts, seed=len(tree)
  )

  @jax.jit
  def decide(drafts):
    return [
      jax.lax.map(
        lambda row, name=name: VERIFIERS[name].decide(tree, proposal, *row),
        drafts,
      )
      for name in names
    ]

  first, *others = (jax.device_get(own) for own in decide(drafts))
  # `accept` may differ: one form offers entries that another knows to be 0.
  differ = sum(np.sum(own.node != first.node) for own in others)
  apart = max(
    np.abs(own.residual - first.residual)[own.node == first.node].max()
    for own in others
  )
  faults = any(own.fault.any() for own in (first, *others))
  if differ or not apart <= 1e-4 or faults:
    raise AssertionError(
      f"{differ} of {scale.drafts} decisions differ, residuals by {apart}"
    )
  return {"drafts": scale.drafts, "residuals differ by": float(apart)}


def engine(scale: Scale) -> Iterator[tuple]:
  """Checks whole generations of a small pair in float32."""
  tree = scale.trees[0]
  yield "the same twice, with CUDA graphs and without", _repeated, tree
  for rule in scale.rules:
    yield f"temperature 0 is plain greedy, {rule}", _greedy, tree, rule


def _repeated(tree):
  run = _small_run(tree, "traversal")
  first, second = run(graphs())
  row = {"cycles": int(first.cycles.sum())}
  _same(first, second, "a second run of the same program")
  if not on_gpu():
    return row | {"note": "no CUDA, no graphs"}
  _same(first, run(None)[0], "a program without CUDA graphs")
  return row


def _same(one, other, what):
  if not jax.tree.all(jax.tree.map(np.array_equal, one, other)):
    raise AssertionError(f"{what} gave other records")


def _greedy(tree, rule):
  plain, own = (
    _small_run(shape, rule, greedy=True)(graphs())[0] for shape in (None, tree)
  )
  if not np.array_equal(plain.tokens[:, :24], own.tokens[:, :24]):
    raise AssertionError("not the tokens of plain greedy decoding")
  return {"tokens": int(own.kept.sum()), "cycles": int(own.cycles.sum())}


@functools.cache
def _small_pair():
  """Makes a small target and a draft, with laws far from uniform."""
  own = gpu_shapes.config("toy", "float32")
  target, other = (gpu_shapes.random_model(own, seed, 0.2) for seed in range(2))
  # Near enough to the target that some of what it drafts is accepted.
  mixed = jax.tree.map(
    lambda one, two: one + 0.3 * two, target.params, other.params
  )
  return target, dataclasses.replace(other, params=mixed)


def _small_run(tree, rule, *, greedy=False):
  """Returns a function of compiler options to the records of two runs."""
  rows, limit = 4, 24
  target, draft = _small_pair()
  draft = draft if tree else None
  plan = gpu_shapes.plan(target, draft, tree, rule, greedy=greedy)
  slots = -(-plan.slots(6, limit) // 128) * 128

  def run(options=None):
    params, request, caches = gpu_shapes.arguments(
      target, draft, rows, 5, limit, slots
    )
    if greedy:
      request = request._replace(draft_temperature=jnp.float32(0.5))
    with jax.default_matmul_precision("highest"):  # float32 is to be float32
      program = gpu_shapes.compiled(
        plan, (params, request, caches), limit, options
      )
    first, caches = program(params, request, caches)
    second, _ = program(params, request, caches)
    return jax.device_get(first), jax.device_get(second)

  return run
