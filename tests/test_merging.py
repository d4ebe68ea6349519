"""Merged laws: what is kept exactly, and how little rules are moved."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax import tree as tree_lib
from tv_jax.drafting import spread
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import merging
from tv_jax.verifiers import VERIFIERS

V = 4096
TREE = tree_lib.from_parents([-1, 0, 0, 1])
TOKENS = jnp.array([9, 5, INVALID, 7], jnp.int32)
WANTED = 1e-3  # what merging may move an expected length by


# A new function for each use: a planted fault must be traced anew.
def merge(*arguments, **options):
  run = functools.partial(merging.merge, arguments[0], **options)
  return jax.jit(lambda *arrays: run(*arrays))(*arguments[1:])


def random_laws(rows, seed=0, vocabulary=V, scale=1.0, noise=0.5):
  rng = np.random.default_rng(seed)
  target = scale * rng.normal(size=(rows, vocabulary))
  draft = target + noise * rng.normal(size=target.shape)
  return (probs.law(jnp.asarray(x, jnp.float32)) for x in (draft, target))


def drafted(tree, proposal, q, seed):
  tokens = np.full(len(tree), INVALID, np.int32)
  for place, node in enumerate(tree.inner):
    key = jax.random.fold_in(jax.random.key(seed), place)
    k = int(tree.num_children[node])
    drawn = jax.jit(proposal.draw, static_argnums=2)(key, q[place], k)
    tokens[tree.children[node, :k]] = drawn
  return jnp.asarray(tokens)


def shifts(tree, rules, proposal, seeds=(0, 1, 2)):
  """The shift of each rule's expected length in each draft, as shares."""
  proposal = PROPOSALS[proposal]

  @jax.jit
  def lengths(tokens, q, p):
    gained = jnp.asarray(tree.depth + 1, q.dtype)
    q, p = spread(tree, q), spread(tree, p)
    return jnp.stack(
      [
        VERIFIERS[rule].stop_law(tree, proposal, tokens, q, p) @ gained
        for rule in rules
      ]
    )

  one = functools.partial(merging.merge, tree, distinct=proposal.distinct)
  found, run = [], jax.jit(one)
  for seed in seeds:
    q, p = random_laws(len(tree.inner), seed)
    tokens = drafted(tree, proposal, q, seed)
    merged = run(tokens, q, p)
    found.append(lengths(*merged) / lengths(tokens, q, p) - 1)
  return np.abs(np.array(found))


def test_tokens_keep_their_laws_and_sums_are_kept():
  q, p = random_laws(2)
  tokens, *merged = merge(TREE, TOKENS, q, p)
  assert tokens[jnp.array([0, 2])].tolist() == [INVALID, INVALID]
  for laws, small in zip((q, p), merged, strict=True):
    assert small.shape == (2, merging.size(TREE, V)) == (2, 128)
    np.testing.assert_allclose(small.sum(axis=1), 1, rtol=1e-5)
    assert small[0, tokens[1]] == laws[0, 5]
    assert small[1, tokens[3]] == laws[1, 7]


def test_rules_judge_alike_if_bins_are_of_a_ratio(monkeypatch):
  rules = ("token_level", "traversal")
  assert shifts(TREE, rules, "with_replacement").max() < WANTED
  chain = tree_lib.chain(3), ("block",), "without_replacement"
  assert 0 < shifts(*chain).max() < WANTED

  def at_random(q, p, bins):
    del p
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.integers(0, len(bins) + 1, q.shape), jnp.int32)

  monkeypatch.setattr(merging, "_bins_of", at_random)
  assert shifts(*chain).max() > 10 * WANTED


# Two children of the root, one child below each, and one below these.
BRANCHES = tree_lib.branching([2, 1, 1])


def test_twins_share_an_alphabet():
  """A rule that compares what was drawn below twins is judged as on whole."""
  q, p = (np.array(x) for x in random_laws(len(BRANCHES.inner), 3))
  # The same text has the same laws, but for rounding.
  q[2], p[2] = q[1] * (1 + 1e-6), p[1] * (1 - 1e-6)
  tokens = jnp.array([0, 9, 9, 700, 4000, 5, 6], jnp.int32)
  renamed, small_q, small_p = merge(BRANCHES, tokens, q, p)
  assert renamed[1] == renamed[2]
  assert renamed[3] != renamed[4]
  for node, row, place in ((1, 700, renamed[3]), (1, 4000, renamed[4])):
    for twin in (node, 2):
      # Either's child has a place of its own in the laws of both.
      np.testing.assert_array_equal(small_q[twin, place], q[twin, row])
      np.testing.assert_array_equal(small_p[twin, place], p[twin, row])
  again = merge(BRANCHES, tokens.at[4].set(700), q, p)[0]
  assert again[3] == again[4]
  # Without twins nothing is shared.
  tokens = tokens.at[2].set(8)
  shared = merge(BRANCHES, tokens, q, p)
  alone = merge(BRANCHES, tokens, q, p, distinct=True)
  jax.tree.map(np.testing.assert_array_equal, shared, alone)
