"""The certificate of proposals passes what agrees and catches what does not."""

import numpy as np
import pytest

from tests import faulty_proposals, quick
from tv_jax import certify, tree
from tv_jax.proposals import PROPOSALS

FEW = certify.Settings(cases=9)


@pytest.mark.parametrize("name", PROPOSALS)
class TestEveryProposal:
  """Each entry of PROPOSALS, by being listed."""

  def test_is_sound_in_float64(self, name, x64):
    # A family of 1000 has more tuples than can be enumerated.
    found = certify.check_proposal(PROPOSALS[name], FEW, (2, 4, 1000))
    assert found.faults == ()
    assert found.sound
    assert found.sizes == (1, 2, 3, 4)
    assert found.error <= found.bound == 1e-12
    assert found.draws > 50_000

  @pytest.mark.long
  def test_is_sound_in_float32(self, name):
    own = FEW._replace(dtype=np.float32)
    assert certify.check_proposal(PROPOSALS[name], own).faults == ()


@pytest.mark.parametrize(
  "fault", quick.shorter([*faulty_proposals.PLANTED], keep=8)
)
def test_planted_fault_is_caught(fault, x64):
  proposal, sign = faulty_proposals.PLANTED[fault]
  found = certify.check_proposal(proposal, FEW)
  assert not found.sound
  assert any(sign in text for text in found.faults), found.faults
  assert not any("\n" in text for text in found.faults)


def test_what_float32_loses_is_seen_in_float32():
  laws = faulty_proposals.laws_by_subtraction
  proposal = faulty_proposals.change(
    PROPOSALS["without_replacement"], laws=laws, rest_from=4
  )
  found = certify.check_proposal(proposal, FEW._replace(dtype=np.float32))
  assert any("by laws" in text for text in found.faults)


def test_a_proposal_that_draws_wrongly_passes_no_exact_case(x64):
  wrong = faulty_proposals.sorted_by_id
  check = certify.check("traversal", wrong, tree.kary(2, 1), FEW)
  assert not check.lossless
  assert check.failure.proposal_wrong
  assert not check.failure.contract_broken  # of the rule
  assert check.failure.law_broken is None
  assert check.verdict == "NOT RUN (wrong proposal)"
  assert "draw(key, q, 2)" in certify.spell_out(check.failure)
  sound = faulty_proposals.sound
  assert certify.check("traversal", sound, tree.kary(2, 1), FEW).lossless
