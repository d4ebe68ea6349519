"""Merged laws: what is kept exactly, and how little rules are moved."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from tv_jax import probs
from tv_jax import tree as tree_lib
from tv_jax.drafting import spread
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import merging
from tv_jax.verifiers import VERIFIERS

V = 4096
TREE = tree_lib.from_parents([-1, 0, 0, 1])
TOKENS = jnp.array([9, 5, INVALID, 7], jnp.int32)
NOTHING = jnp.full(4, INVALID, jnp.int32)
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


@pytest.mark.parametrize("vocabulary", [16, merging.KEPT])
def test_a_small_vocabulary_stays_as_it_is(vocabulary):
  q, p = random_laws(2, vocabulary=vocabulary)
  tokens, *laws = merge(TREE, TOKENS, q, p)
  assert tokens.tolist() == [INVALID, 5, INVALID, 7]
  np.testing.assert_array_equal(laws[0], q)
  np.testing.assert_array_equal(laws[1], p)


def test_tokens_keep_their_laws_and_sums_are_kept():
  q, p = random_laws(2)
  tokens, *merged = merge(TREE, TOKENS, q, p)
  assert tokens[jnp.array([0, 2])].tolist() == [INVALID, INVALID]
  for laws, small in zip((q, p), merged, strict=True):
    assert small.shape == (2, merging.size(TREE, V)) == (2, 128)
    np.testing.assert_allclose(small.sum(axis=1), 1, rtol=1e-5)
    assert small[0, tokens[1]] == laws[0, 5]
    assert small[1, tokens[3]] == laws[1, 7]


def test_the_likeliest_tokens_are_kept_in_order():
  q, p = random_laws(2)
  likeliest = np.sort(np.argsort(-np.maximum(q, p)[0])[:70])
  _, small_q, small_p = merge(TREE, NOTHING, q, p, kept=70)
  np.testing.assert_array_equal(small_q[0, :70], q[0, likeliest])
  np.testing.assert_array_equal(small_p[0, :70], p[0, likeliest])


def test_twins_are_one_token_and_others_are_not():
  tree = tree_lib.branching([4])
  q, p = random_laws(1)
  tokens = jnp.array([0, 11, 3, 11, 4000], jnp.int32)
  renamed = merge(tree, tokens, q, p)[0].tolist()
  assert renamed[1] == renamed[3]
  assert len(set(renamed[1:])) == 3
  assert renamed[2] < renamed[1] < renamed[4]


def test_what_follows_an_undrawn_node_is_of_no_account():
  tokens = jnp.array([0, INVALID, 4, INVALID], jnp.int32)
  q, p = random_laws(2)
  broken = q.at[1].set(jnp.nan), p.at[1].set(jnp.nan)
  _, *merged = merge(TREE, tokens, *broken)
  for law in merged:
    assert np.isfinite(law).all()
    np.testing.assert_allclose(law.sum(axis=1), 1, rtol=1e-5)


def test_sums_are_exact_at_an_edge_and_nearly_so_between():
  q, p = random_laws(2)
  _, small_q, small_p = merge(TREE, TOKENS, q, p)

  def sums(q, p, ratio):
    left = np.asarray(p, np.float64) - ratio * np.asarray(q, np.float64)
    return np.maximum(left, 0).sum(axis=1)

  for edge in merging.EDGES[12:40:5]:
    np.testing.assert_allclose(
      sums(small_q, small_p, edge), sums(q, p, edge), rtol=1e-4
    )
  between = float(np.sqrt(merging.EDGES[20] * merging.EDGES[21]))
  off = sums(small_q, small_p, between) - sums(q, p, between)
  assert (off < 1e-6).all()  # by convexity
  assert (off > -WANTED).all()


def test_truncated_laws_have_bins_of_their_own():
  q, p = random_laws(2)
  q = q.at[:, ::2].set(0) * 2
  p = p.at[:, ::3].set(0) * 1.5
  _, small_q, small_p = merge(TREE, TOKENS, q, p)
  only_p = np.where(q == 0, p, 0).sum(axis=1)
  merged = np.where(small_q == 0, small_p, 0).sum(axis=1)
  np.testing.assert_allclose(merged, only_p, rtol=1e-4)


@pytest.mark.parametrize("proposal", quick.shorter([*PROPOSALS]))
def test_rules_judge_alike_on_trees(proposal):
  rules = ("token_level", "traversal")
  assert shifts(TREE, rules, proposal).max() < WANTED


def test_rules_judge_alike_on_chains_if_bins_are_of_a_ratio(monkeypatch):
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


def branches_of(*, twins, vocabulary=V):
  """Laws that follow the text, and rows in which two branches are the same."""
  q, p = (np.array(x) for x in random_laws(len(BRANCHES.inner), 3))
  tokens = np.array([0, 9, 9 if twins else 8, 700, 4000, 5, 6], np.int32)
  if twins:  # the same text has the same laws, but for rounding
    q[2], p[2] = q[1] * (1 + 1e-6), p[1] * (1 - 1e-6)
  return (jnp.asarray(x) for x in (tokens, q, p))


def test_twins_share_an_alphabet():
  """A rule that compares what was drawn below twins is judged as on whole."""
  tokens, q, p = branches_of(twins=True)
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


def test_without_twins_nothing_is_shared():
  tokens, q, p = branches_of(twins=False)
  shared = merge(BRANCHES, tokens, q, p)
  alone = merge(BRANCHES, tokens, q, p, distinct=True)
  for ours, theirs in zip(shared, alone, strict=True):
    np.testing.assert_array_equal(ours, theirs)
