"""Trees through the model: masks, caches, compaction."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import checkpoints, quick
from tv_jax import tree
from tv_jax.models import cache as caches
from tv_jax.models import causal_pass, compact, decoder, mask

CONFIG = checkpoints.tiny()
SLOTS = 64
MODULE = decoder.Decoder(CONFIG)
APPLY = jax.jit(MODULE.apply)
CAUSAL = jax.jit(functools.partial(causal_pass, MODULE))
B, N = 3, 9


@pytest.fixture(scope="module")
def params():
  return checkpoints.ours(CONFIG).params


def random_tree(rng):
  """Parents in level order, and the ancestor matrix."""
  while True:
    parents = [-1]
    for _ in range(N - 1):
      parents.append(int(rng.integers(max(parents[-1], 0), len(parents))))
    shape = tree.from_parents(parents)
    if shape.max_depth > 1:
      return shape.ancestors, np.asarray(shape.depth)


def path_to(ancestors, node):
  return np.flatnonzero(ancestors[node])


def alone(params, sequence):
  """Logits and features of a sequence that is run alone."""
  padded = np.zeros([1, 32], np.int32)  # one program for all lengths
  padded[0, : len(sequence)] = sequence
  cache = caches.empty(CONFIG, 1, SLOTS)
  logits, features, _ = CAUSAL(params, (padded,), cache)
  return (np.asarray(x[0, : len(sequence)]) for x in (logits, features))


@pytest.fixture(scope="module")
def prefixes(params):
  """Rows of different lengths: tokens, and their cache after one padded pass.

  What the padding left behind its row's length is there to be ignored.
  """
  rng = np.random.default_rng(1)
  lengths = np.array([5, 13, 1], np.int32)
  tokens = checkpoints.tokens(B, 16, CONFIG.vocab_size)
  _, _, cache = CAUSAL(params, (tokens,), caches.empty(CONFIG, B, SLOTS))
  assert (cache.length == 16).all()
  rows = [tokens[i, :n] for i, n in enumerate(lengths)]
  drafts = rng.integers(0, CONFIG.vocab_size, (B, N)).astype(np.int32)
  return rows, drafts, dataclasses.replace(cache, length=jnp.asarray(lengths))


def tree_pass(params, cache, ancestors, depths, drafts):
  seen = mask.tree(cache.length, jnp.asarray(ancestors), SLOTS)
  positions = cache.length[:, None] + jnp.asarray(depths, jnp.int32)[None]
  return APPLY({"params": params}, jnp.asarray(drafts), positions, seen, cache)


@pytest.mark.parametrize("seed", quick.shorter([*range(4)]))
def test_a_tree_pass_is_each_path_run_alone(params, prefixes, seed):
  rows, drafts, cache = prefixes
  ancestors, depths = random_tree(np.random.default_rng(seed))
  logits, features, after = tree_pass(params, cache, ancestors, depths, drafts)
  np.testing.assert_array_equal(after.length, cache.length + N)
  root = cache.length
  for depth in range(depths.max() + 1):  # level by level it is the same
    level = np.flatnonzero(depths == depth)
    own, _, cache = APPLY(
      {"params": params},
      jnp.asarray(drafts[:, level]),
      jnp.broadcast_to(root[:, None] + depth, (B, len(level))),
      mask.tree(root, jnp.asarray(ancestors[level]), SLOTS),
      cache,
    )
    expected = np.asarray(logits)[:, level]
    assert checkpoints.error(own, expected) <= 1e-5
  leaves = [n for n in range(N) if ancestors[:, n].sum() == 1]
  for row in range(B):
    for leaf in leaves:
      path = path_to(ancestors, leaf)
      sequence = np.concatenate([rows[row], drafts[row, path]])
      expected = alone(params, sequence)
      for ours, theirs in zip((logits, features), expected, strict=True):
        ours = np.asarray(ours)[row, path]
        assert checkpoints.error(ours, theirs[-len(path) :]) <= 1e-5


def test_after_compaction_the_tree_was_never_there(params, prefixes):
  rows, drafts, cache = prefixes
  ancestors, depths = random_tree(np.random.default_rng(2))
  D = depths.max()
  _, _, cache = tree_pass(params, cache, ancestors, depths, drafts)
  # A leaf, an inner node, and the root alone.
  deepest = N - 1
  ends = [deepest, path_to(ancestors, deepest)[1], 0]
  nodes = np.zeros((B, D + 1), np.int32)
  count = np.zeros(B, np.int32)
  for row, end in enumerate(ends):
    path = path_to(ancestors, end)
    nodes[row, : len(path)] = path
    count[row] = len(path)
  start = np.array([len(row) for row in rows], np.int32)
  cache = jax.jit(compact, donate_argnums=0)(cache, start, nodes, count)
  np.testing.assert_array_equal(cache.length, start + count)

  rest = checkpoints.tokens(B, 4, CONFIG.vocab_size, seed=3)
  logits, _, _ = CAUSAL(params, (rest,), cache)
  for row in range(B):
    kept = drafts[row, nodes[row, : count[row]]]
    expected, _ = alone(params, np.concatenate([rows[row], kept, rest[row]]))
    assert checkpoints.error(logits[row], expected[-4:]) <= 1e-5


def test_rows_do_not_depend_on_each_other(params, prefixes):
  _, drafts, cache = prefixes
  ancestors, depths = random_tree(np.random.default_rng(0))
  before, _, _ = tree_pass(params, cache, ancestors, depths, drafts)
  drafts = drafts.copy()
  drafts[1] = (drafts[1] + 1) % CONFIG.vocab_size
  poisoned = jax.tree.map(
    lambda x: x.at[1].set(jnp.nan) if x.ndim > 1 else x, cache
  )
  after, _, _ = tree_pass(params, poisoned, ancestors, depths, drafts)
  np.testing.assert_array_equal(before[0], after[0])
  np.testing.assert_array_equal(before[2], after[2])
  # The INVALID token gives finite logits.
  drafts = np.where(np.arange(N) == 4, -1, drafts)
  logits, _, _ = tree_pass(params, cache, ancestors, depths, drafts)
  assert np.isfinite(logits).all()
