import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tv_jax.proposals import INVALID, NEVER, PROPOSALS, Proposal

# Small laws in float64 with every awkward feature: no zeros, zeros, ties among
# the likeliest and among the least, one token left, near-deterministic.
LAWS = {
  "plain": [0.4, 0.3, 0.2, 0.1],
  "unsorted": [0.1, 0.25, 0.15, 0.5],
  "a zero": [0.5, 0.0, 0.3, 0.2],
  "two zeros": [0.0, 0.75, 0.0, 0.25],
  "one-hot": [0.0, 0.0, 1.0, 0.0],
  "flat": [0.25, 0.25, 0.25, 0.25],
  "tie on top": [0.2, 0.4, 0.4, 0.0],
  "sharp": [1 - 2e-6, 1e-6, 1e-6, 0.0],
}

every_law = pytest.mark.parametrize("q", LAWS.values(), ids=LAWS)
every_proposal = pytest.mark.parametrize("name", PROPOSALS)


def sibling_tuples(proposal, q, k):
  """{tuple: chance} of all that `following` can draw; INVALID where nothing."""
  law = {(): 1.0}
  for _ in range(k):
    longer = {}
    for drawn, chance in law.items():
      step = proposal.following(q, drawn, k)
      for token in np.flatnonzero(step):
        longer[*drawn, int(token)] = chance * step[token]
      if not step.any():
        longer[*drawn, INVALID] = chance
    law = longer
  return law


@every_proposal
@every_law
@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_following_is_a_law_or_nothing(name, q, k):
  q = np.asarray(q)
  tuples = sibling_tuples(PROPOSALS[name], q, k)
  assert sum(tuples.values()) == pytest.approx(1, abs=1e-12)
  for drawn in tuples:
    for j in range(k):
      step = PROPOSALS[name].following(q, drawn[:j], k)
      assert step.shape == q.shape
      assert (step >= 0).all()
      assert not step[q == 0].any()
      assert step.sum() == pytest.approx(float(drawn[j] != INVALID), abs=1e-12)


def test_following_is_the_table_of_the_design():
  q = np.array([0.1, 0.4, 0.2, 0.3])

  def following(name, drawn, k=3):
    return PROPOSALS[name].following(q, drawn, k)

  without = [0.1 / 0.6, 0, 0.2 / 0.6, 0.3 / 0.6]
  np.testing.assert_allclose(following("without_replacement", (1,)), without)
  np.testing.assert_array_equal(following("with_replacement", (1, 1)), q)
  for place, best in enumerate([1, 3, 2]):
    np.testing.assert_array_equal(
      following("top_k", (9,) * place), np.eye(4)[best]
    )
  # Three siblings: the first off the two likeliest, then these.
  np.testing.assert_allclose(
    following("sample_then_top", ()), [0.1 / 0.3, 0, 0.2 / 0.3, 0]
  )
  np.testing.assert_array_equal(
    following("sample_then_top", (0,)), [0, 1, 0, 0]
  )
  np.testing.assert_array_equal(
    following("sample_then_top", (0, 1)), [0, 0, 0, 1]
  )
  np.testing.assert_array_equal(following("sample_then_top", (), k=1), q)


@functools.lru_cache
def jitted_laws(proposal):
  return jax.jit(jax.vmap(proposal.laws))


def padded(array, length=512):
  return np.pad(array, [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)])


def laws_in_full(proposal, q, tuples, rest):
  """[tuples, K, V]: what `laws` says, written out over the vocabulary."""
  exists = tuples != INVALID
  q_at = np.where(exists, q[np.maximum(tuples, 0)], 0)
  cases = len(tuples)
  # One shape for all, so that a proposal compiles once for each k.
  scale, at = jax.tree.map(
    lambda array: array[:cases],
    jitted_laws(proposal)(padded(q_at), padded(rest), padded(exists)),
  )
  full = np.asarray(scale)[:, :, None] * q[None, None, :]
  for case, drawn in enumerate(tuples):
    for i, token in enumerate(drawn):
      if token != INVALID:
        full[case, :, token] = np.asarray(at)[case, :, i]
  return full, np.asarray(at)


def mass_off(q, tuples):
  return np.array(
    [q[[x for x in range(len(q)) if x not in drawn]].sum() for drawn in tuples]
  )


@every_proposal
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_laws_say_in_short_what_following_says_in_full(x64, name, k):
  proposal = PROPOSALS[name]
  for law in LAWS.values():
    q = np.asarray(law)
    tuples = np.array(list(sibling_tuples(proposal, q, k)))
    full, at = laws_in_full(proposal, q, tuples, mass_off(q, tuples))
    for case, drawn in enumerate(tuples.tolist()):
      for j, token in enumerate(drawn):
        if token == INVALID:
          assert at[case, j, j] == 0
        else:
          expected = proposal.following(q, tuple(drawn[:j]), k)
          np.testing.assert_allclose(
            full[case, j], expected, rtol=1e-12, atol=1e-15
          )


@every_proposal
def test_laws_do_not_look_below_rest_from(x64, name):
  proposal = PROPOSALS[name]
  q = np.asarray(LAWS["plain"])
  for k in (1, 2, 3):
    tuples = np.array(list(sibling_tuples(proposal, q, k)))
    right, _ = laws_in_full(proposal, q, tuples, mass_off(q, tuples))
    wrong, _ = laws_in_full(proposal, q, tuples, np.full(len(tuples), 0.123))
    unread = min(proposal.rest_from, k)
    np.testing.assert_array_equal(right[:, :unread], wrong[:, :unread])
  assert proposal.rest_from == NEVER or proposal.rest_from in (0, 1)


@every_proposal
def test_laws_of_absent_siblings_leave_the_others_alone(x64, name):
  """A node with fewer children than K is padded at the end."""
  proposal = PROPOSALS[name]
  q = np.asarray(LAWS["unsorted"])
  for k in (1, 2, 3):
    tuples = np.array(list(sibling_tuples(proposal, q, k)))
    rest = mass_off(q, tuples)
    plain, _ = laws_in_full(proposal, q, tuples, rest)
    padding = np.full((len(tuples), 2), INVALID)
    longer, at = laws_in_full(
      proposal, q, np.concatenate([tuples, padding], axis=1), rest
    )
    np.testing.assert_allclose(longer[:, :k], plain, rtol=1e-14, atol=0)
    assert not at[:, [k, k + 1], [k, k + 1]].any()


@pytest.mark.parametrize("name", ["without_replacement", "sample_then_top"])
def test_laws_keep_small_numbers_when_one_token_has_most_of_the_mass(name):
  # In float32 1 - q(t) would be 0 here; the law after t is still exact.
  q = np.float32([1.0, 3e-9, 1e-9])
  drawn = np.array([0, 1]) if name == "without_replacement" else [1, 0]
  scale, at = PROPOSALS[name].laws(
    jnp.asarray(q[drawn]), jnp.float32(1e-9), jnp.array([True, True])
  )
  tail = 0 if name == "sample_then_top" else 1
  np.testing.assert_allclose(scale[tail] * q[2], 0.25, rtol=1e-6, atol=0)
  np.testing.assert_allclose(at[tail, tail], 0.75, rtol=1e-6, atol=0)


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def jitted_draws(name, key, q, k, n):
  keys = jax.random.split(key, n)
  return jax.vmap(PROPOSALS[name].draw, (0, None, None))(keys, q, k)


def many_draws(name, q, k, n=500, seed=0):
  key = jax.random.key(seed)
  return np.asarray(jitted_draws(name, key, jnp.asarray(q, jnp.float32), k, n))


@every_proposal
@pytest.mark.parametrize("law", ["unsorted", "a zero", "two zeros", "sharp"])
def test_draw_follows_the_product_of_following(name, law):
  n, k, q = 40_000, 3, np.asarray(LAWS[law])
  drawn = many_draws(name, q, k, n)
  assert drawn.dtype == np.int32
  tuples = sibling_tuples(PROPOSALS[name], q, k)
  seen, counts = np.unique(drawn, axis=0, return_counts=True)
  counts = dict(zip(map(tuple, seen.tolist()), counts.tolist(), strict=True))
  assert set(counts) <= set(tuples)
  for drawn, chance in tuples.items():
    sigma = np.sqrt(n * chance * (1 - chance))
    # A rare tuple's count is not normal: five more are never five sigma.
    assert abs(counts.get(drawn, 0) - n * chance) <= 5 * max(sigma, 1), drawn


@every_proposal
@every_law
@pytest.mark.parametrize("k", [1, 3, 4, 6])
def test_draw_stays_in_the_support(name, q, k):
  tuples = sibling_tuples(PROPOSALS[name], np.asarray(q), k)
  drawn = many_draws(name, q, k, seed=1)
  assert drawn.shape == (500, k)
  assert set(map(tuple, drawn.tolist())) <= set(tuples)


@pytest.mark.parametrize("name", ["without_replacement", "top_k"])
def test_invalid_where_the_support_is_exhausted(name):
  for k in (2, 4, 7):  # beyond the vocabulary too
    drawn = many_draws(name, [0, 0.75, 0, 0.25], k)
    assert (np.sort(drawn[:, :2]) == [1, 3]).all()
    assert (drawn[:, 2:] == INVALID).all()


def test_with_replacement_is_never_exhausted():
  drawn = many_draws("with_replacement", [0, 0, 1, 0], 6)
  assert (drawn == 2).all()


def test_sample_then_top_may_miss_the_sample_and_have_the_tops():
  drawn = many_draws("sample_then_top", [0, 0.75, 0, 0.25], 3)
  assert (drawn == [INVALID, 1, 3]).all()
  drawn = many_draws("sample_then_top", [0, 0.75, 0, 0.25], 5)
  assert (drawn == [INVALID, 1, 3, INVALID, INVALID]).all()
  # The last top token is absent, and must leave the last token of the
  # vocabulary (index -1) alone.
  drawn = many_draws("sample_then_top", [0.2, 0, 0, 0.8], 4)
  assert (drawn == [INVALID, 3, 0, INVALID]).all()


@pytest.mark.parametrize(
  ("name", "expected"),
  [("top_k", [1, 2, 0]), ("sample_then_top", [0, 1, 2])],
)
def test_ties_go_to_the_lowest_id(name, expected):
  drawn = many_draws(name, [0.2, 0.4, 0.4, 0.0], 3)
  assert (drawn == expected).all()
  flat = many_draws("top_k", [0.25] * 4, 4)
  assert (flat == [0, 1, 2, 3]).all()


def test_deterministic_proposals_ignore_the_key():
  one, other = (many_draws("top_k", LAWS["plain"], 3, seed=s) for s in (0, 1))
  np.testing.assert_array_equal(one, other)


def test_a_proposal_is_frozen_and_hashable():
  assert len({*PROPOSALS.values()}) == len(PROPOSALS) == 4
  for proposal in PROPOSALS.values():
    assert isinstance(proposal, Proposal)
    with pytest.raises(AttributeError, match="cannot assign"):
      proposal.rest_from = 3


def test_all_orders_of_the_support_are_drawn_without_replacement():
  drawn = many_draws("without_replacement", [0.25] * 4, 4, 500)
  assert set(map(tuple, drawn.tolist())) == set(
    itertools.permutations(range(4))
  )
