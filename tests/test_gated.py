"""The gated proposal: the likeliest token first where the draft is sure."""

import dataclasses
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import quick
from tv_jax import certify, proposals, replay
from tv_jax import tree as tree_lib
from tv_jax.certify import cases, exact
from tv_jax.edge import reading
from tv_jax.proposals import INVALID, WITHOUT_REPLACEMENT, gated
from tv_jax.verifiers import VERIFIERS

FEW = certify.Settings(cases=9)
SURE, UNSURE = np.array([0.1, 0.2, 0.7, 0.0]), np.array([0.3, 0.2, 0.4, 0.1])


def draws(proposal, q, k, n=64):
  keys = jax.random.split(jax.random.key(0), n)
  own = functools.partial(proposal.draw, q=jnp.asarray(q, jnp.float32), k=k)
  return np.asarray(jax.jit(jax.vmap(own))(keys))


def test_the_likeliest_comes_first_where_the_gate_is_open():
  drawn = draws(gated(0.7), SURE, 3)
  assert (drawn[:, 0] == 2).all()
  assert {*drawn[:, 1]} == {0, 1}
  assert (np.sort(drawn[:, 1:]) == [0, 1]).all()
  assert (draws(gated(0.7), SURE, 4)[:, 3] == INVALID).all()
  assert {*draws(gated(0.7), UNSURE, 2)[:, 0]} > {0, 2}


def test_where_it_is_shut_siblings_are_those_without_replacement():
  own = draws(gated(0.7), UNSURE, 3)
  np.testing.assert_array_equal(own, draws(WITHOUT_REPLACEMENT, UNSURE, 3))


def test_following_is_the_definition():
  own = gated(0.7)
  np.testing.assert_array_equal(own.following(SURE, (), 3), [0, 0, 1, 0])
  np.testing.assert_array_equal(own.following(UNSURE, (), 3), UNSURE)
  after = own.following(SURE, (2,), 3)
  np.testing.assert_allclose(after, [1 / 3, 2 / 3, 0, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_law_on_the_edge_is_on_one_side_for_all_three(dtype, x64):
  own, q = gated(0.7), SURE.astype(dtype)
  scale, at = own.laws(jnp.asarray(q[[2, 1]]), dtype(0.1), np.ones(2, bool))
  assert (scale[0], at[0, 0], at[0, 1]) == (0, 1, 0)
  # The certificate's float64 of what a run has in float32.
  assert own.following(q.astype(float), (), 2)[2] == 1
  assert (draws(own, q, 1) == 2).all()


def test_it_is_named_with_its_number():
  own = proposals.resolve("gated:0.7")
  assert own is gated(0.7)
  assert own.name == "gated:0.7"
  assert own.draw.__self__.tau == 0.7
  assert proposals.resolve("gated:0.70") is own
  assert proposals.resolve(own) == own
  assert len({own, proposals.resolve(own), gated(0.6)}) == 2
  assert pickle.loads(pickle.dumps(own)).name == own.name
  # Files hold the name alone.
  for tau in (0.1234567, 0.12345671, 1e-5, 1 / 3, 1, np.nextafter(0.7, 1)):
    assert proposals.resolve(gated(tau).name) == gated(tau)
  assert len({gated(tau).name for tau in (0.1234567, 0.12345671)}) == 2
  assert proposals.resolve("gated:1e-3") is gated(0.001)
  absurd = ("nan", "inf", "-1", "x", "", "0.5.5")
  for text in ("gated:0", "gated:1.5", *(f"gated:{one}" for one in absurd)):
    with pytest.raises(ValueError, match=f"{text}: give a chance above 0"):
      proposals.resolve(text)
  for tau in (None, np.nan, 10**400):
    with pytest.raises(ValueError, match="give a chance above 0"):
      gated(tau)
  with pytest.raises(ValueError, match=r"not one of .*, gated:0.7, nor module"):
    proposals.resolve("gated")


@pytest.mark.parametrize("tau", quick.shorter([0.5, 0.3, 0.9]))
def test_it_is_sound(tau, x64):
  found = certify.check_proposal(gated(tau), FEW, (2, 4))
  assert found.faults == ()
  assert found.error <= found.bound == 1e-12


@pytest.mark.long
def test_it_is_sound_in_float32():
  own = FEW._replace(dtype=np.float32)
  assert certify.check_proposal(gated(0.5), own, (2, 4)).faults == ()


CERTIFIED = [
  ("traversal", "kary:2x2"),
  ("token_level", "kary:2x2"),
  ("block", "chain:2"),
  ("layer_walk", "kary:2x2"),
  ("traversal_loop", "branching:3,1"),
]


@pytest.mark.parametrize(("rule", "text"), quick.shorter(CERTIFIED))
def test_rules_are_lossless_with_it(rule, text, x64):
  found = certify.check(rule, "gated:0.5", text, FEW)
  assert found.lossless, certify.spell_out(found.failure)
  assert found.method == "exact"
  assert found.distance < 1e-12


@pytest.mark.long
@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_rules_are_lossless_with_it_in_float32(rule):
  own = certify.Settings(cases=27, dtype=np.float32)
  found = certify.check(rule, "gated:0.5", "kary:2x2", own)
  assert found.lossless
  assert found.distance < 2e-6


def by_the_drawn_token(tau):
  """The planted fault: a gate that opens when what was drawn is likely.

  The token is drawn from q, and then taken for one that had to come.
  """
  return dataclasses.replace(
    gated(tau),
    draw=WITHOUT_REPLACEMENT.draw,
    following=WITHOUT_REPLACEMENT.following,
    name="planted",
  )


def test_a_gate_that_looks_at_the_drawn_token_is_caught(x64):
  found = certify.check_proposal(by_the_drawn_token(0.5), FEW)
  assert any("by laws" in text for text in found.faults), found.faults


def test_under_such_a_gate_a_rule_draws_from_another_law(x64):
  """What the certificate of proposals keeps from being run."""
  rule, tree = VERIFIERS["traversal"], tree_lib.kary(2, 1)
  worlds = cases.generate(0, 9, 3, cases.num_contexts(3, 1))
  lost = {}
  for proposal in (gated(0.5), by_the_drawn_token(0.5)):
    run = exact.make_runner(rule, proposal, tree, np.float64, 3)
    lost[proposal.name] = max(run(case).distance for case in worlds)
  assert lost["gated:0.5"] < 1e-12
  assert lost["planted"] > 1e-2


@pytest.mark.long
def test_a_run_is_recorded_and_replayed(tmp_path):
  pair = tv_jax.load(reading.BUNDLED / "draft", reading.BUNDLED / "target")
  result = tv_jax.record(
    pair,
    ["What does a fox eat?", "Which city is the capital of Spain?"],
    tmp_path / "run.npz",
    template="chat",
    tree="kary:2x2",
    proposal="gated:0.6",
    max_new_tokens=24,
  )
  assert abs(result.check.mean) < 4 * result.check.error
  cycles = replay.load(tmp_path / "run.npz")
  assert cycles.proposal is gated(0.6)
  ran = np.concatenate(result.expected["traversal"])
  again = replay.expected_lengths("traversal", cycles)
  np.testing.assert_allclose(sorted(again), sorted(ran), rtol=1e-3)
