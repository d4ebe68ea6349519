"""How siblings are drawn: the definitions, and awkward laws.

The certificate tests that `draw`, `laws` and `following` agree, and that each
proposal's fields are true.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import faulty_proposals, quick
from tv_jax import certify, proposals, tree
from tv_jax.proposals import INVALID, PROPOSALS

FEW = certify.Settings(cases=9)


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def jitted_draws(proposal, key, q, k, n):
  keys = jax.random.split(key, n)
  return jax.vmap(proposal.draw, (0, None, None))(keys, q, k)


def draws(name, q, k, n=500):
  key, law = jax.random.key(0), jnp.asarray(q, jnp.float32)
  return np.asarray(jitted_draws(proposals.resolve(name), key, law, k, n))


@pytest.mark.parametrize(
  ("name", "drawn", "law"),
  [
    ("without_replacement", (1,), [0.1 / 0.6, 0, 0.2 / 0.6, 0.3 / 0.6]),
    ("with_replacement", (1, 1), [0.1, 0.4, 0.2, 0.3]),
    ("top_k", (1, 3), [0, 0, 1, 0]),
    # Three siblings: the first off the two likeliest, then these.
    ("sample_then_top", (), [0.1 / 0.3, 0, 0.2 / 0.3, 0]),
    ("sample_then_top", (0, 1), [0, 0, 0, 1]),
  ],
)
def test_following_is_the_table_of_the_design(name, drawn, law):
  q = np.array([0.1, 0.4, 0.2, 0.3])
  found = proposals.resolve(name).following(q, drawn, 3)
  np.testing.assert_allclose(found, law)


@pytest.mark.parametrize(
  ("name", "q", "drawn"),
  [
    # More siblings than tokens, and than the vocabulary has.
    ("top_k", [0, 0.75, 0, 0.25], [1, 3, *[INVALID] * 5]),
    ("without_replacement", [0, 0, 1, 0], [2, *[INVALID] * 5]),
    ("sample_then_top", [0, 0.75, 0, 0.25], [INVALID, 1, 3, INVALID, INVALID]),
    # The last top token is absent, and must leave the last token of the
    # vocabulary (index -1) alone.
    ("sample_then_top", [0.2, 0, 0, 0.8], [INVALID, 3, 0, INVALID]),
    # Ties go to the lowest id.
    ("top_k", [0.2, 0.4, 0.4, 0.0], [1, 2, 0]),
  ],
)
def test_draws_that_leave_nothing_to_chance(name, q, drawn):
  np.testing.assert_array_equal(draws(name, q, len(drawn), 9), [drawn] * 9)


@pytest.mark.parametrize("name", PROPOSALS)
class TestEveryProposal:
  """Each entry of PROPOSALS, by being listed."""

  def test_is_sound_in_float64(self, name, x64):
    # A family of 1000 has more tuples than can be enumerated.
    found = certify.check_proposal(PROPOSALS[name], FEW, (2, 4, 1000))
    assert found.faults == ()
    assert found.sound
    assert found.sizes == (1, 2, 3, 4)
    assert found.error <= 1e-12

  @pytest.mark.long
  def test_is_sound_in_float32(self, name):
    own = FEW._replace(dtype=np.float32)
    assert certify.check_proposal(PROPOSALS[name], own).faults == ()


@pytest.mark.parametrize(
  "fault", quick.shorter([*faulty_proposals.PLANTED], keep=2)
)
def test_planted_fault_is_caught(fault, x64):
  proposal, sign = faulty_proposals.PLANTED[fault]
  found = certify.check_proposal(proposal, FEW)
  assert not found.sound
  assert any(sign in text for text in found.faults), found.faults
  assert not any("\n" in text for text in found.faults)


@pytest.mark.long
def test_what_float32_loses_is_seen_in_float32():
  laws = faulty_proposals.laws_by_subtraction
  proposal = faulty_proposals.change(
    PROPOSALS["without_replacement"], laws=laws, rest_from=4
  )
  found = certify.check_proposal(proposal, FEW._replace(dtype=np.float32))
  assert any("by laws" in text for text in found.faults)


@pytest.mark.long
def test_a_proposal_that_draws_wrongly_passes_no_exact_case(x64):
  wrong = faulty_proposals.sorted_by_id
  check = certify.check("traversal", wrong, tree.kary(2, 1), FEW)
  assert not check.lossless
  assert check.verdict == "NOT RUN (wrong proposal)"
  assert "draw(key, q, 2)" in repr(check)
  sound = faulty_proposals.sound
  assert certify.check("traversal", sound, tree.kary(2, 1), FEW).lossless
