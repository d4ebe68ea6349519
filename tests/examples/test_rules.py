"""The rule and the gate in examples/: certified, and a fault is caught."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import gated
from examples.rules import k_seq
from tests.lib.battery import CHAIN, IID
from tv_jax import certify
from tv_jax.proposals import PROPOSALS, WITHOUT_REPLACEMENT
from tv_jax.verifiers import unsupported_reason


def check(rule, proposal, shape, **changes):
  settings = certify.Settings(**{"cases": 9, **changes})
  return certify.check(rule, proposal, shape, settings)


@pytest.mark.parametrize(
  ("rule", "proposal"),
  [
    ("examples.rules.k_seq:rule", IID),
    ("traversal", "examples.gated:half"),
  ],
)
def test_it_is_lossless(rule, proposal, x64):
  verdict = check(rule, proposal, "kary:2x2")
  assert verdict.lossless, repr(verdict)


def test_k_seq_is_for_one_proposal():
  for name, proposal in PROPOSALS.items():
    reason = unsupported_reason(k_seq.rule, CHAIN, proposal)
    assert (reason is None) == (name == IID)
    assert reason is None or f"is defined for {IID} only" in reason


# The gate.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_law_on_the_edge_is_on_one_side_for_all_three(dtype, x64):
  gate, q = gated.gated(0.7), np.array([0.1, 0.2, 0.7, 0.0], dtype)
  scale, at = gate.laws(jnp.asarray(q[[2, 1]]), dtype(0.1), np.ones(2, bool))
  assert (scale[0], at[0, 0], at[0, 1]) == (0, 1, 0)
  # The certificate computes in float64, a run in float32.
  assert gate.following(q.astype(float), (), 2)[2] == 1
  for key in jax.random.split(jax.random.key(0), 20):
    assert gate.draw(key, jnp.asarray(q, jnp.float32), 1) == 2


@pytest.mark.long
def test_a_gate_is_sound_in_float32():
  settings = certify.Settings(cases=9, dtype=np.float32)
  assert certify.check_proposal(gated.half, settings, (2, 4)).faults == ()


def test_a_gate_that_looks_at_the_drawn_token_is_caught(x64):
  """The token is drawn from q, and then taken for one that had to come."""
  fault = dataclasses.replace(
    gated.half,
    draw=WITHOUT_REPLACEMENT.draw,
    following=WITHOUT_REPLACEMENT.following,
    name="planted",
  )
  verdict = certify.check_proposal(fault, certify.Settings(cases=9))
  assert any("by laws" in text for text in verdict.faults), verdict.faults
