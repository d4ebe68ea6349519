"""Rules that are wrong at one place of EAGLE's tree are not lossless.

All faults run in one compiled program, which asks for the places of a fault.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from tv_jax import certify, tree
from tv_jax.certify import certificate, outcome
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.verifiers import UP, VERIFIERS, Verifier

EAGLE, N = tree.EAGLE_SPARSE, len(tree.EAGLE_SPARSE)
NODE, DEPTH, RANK = np.arange(N), EAGLE.depth, EAGLE.rank
INNER, PARENT = EAGLE.num_children > 0, EAGLE.parent
TRAVERSAL = VERIFIERS["traversal"]
WITHOUT = "without_replacement"
SETTINGS = certify.Settings(vocabulary=6, cases=1)

LATE = (RANK > 0) & (DEPTH > 0)
# Nodes whose chance is halved.
HALVED = {
  "fourth at the root": (DEPTH == 1) & (RANK == 3),
  "third of the second level": (DEPTH == 2) & (RANK == 2),
  "late siblings with children": LATE & INNER,
  "below late siblings": LATE[PARENT],
  "late at depth 5": (DEPTH == 5) & LATE,
  "depth 4 and more": DEPTH >= 4,
  "the last level": DEPTH == 5,
} | {f"node {node}": node == NODE for node in range(1, N)}
# Nodes whose bonus token comes from p.
FROM_P = {
  "depth 4 and more": DEPTH >= 4,
  "the root": NODE == 0,
  "two children": EAGLE.num_children == 2,
  "below late siblings": LATE[PARENT],
} | {f"node {node}": node == NODE for node in np.flatnonzero(INNER)}

_now = {"halved": NODE < 0, "from p": NODE < 0}


def _places():
  return _now["halved"], _now["from p"]


def planted(draft):
  sound = TRAVERSAL.offers(draft)
  kinds = (jax.ShapeDtypeStruct((N,), bool),) * 2
  halved, from_p = jax.pure_callback(
    _places, kinds, vmap_method="broadcast_all"
  )
  return sound._replace(
    chance=jnp.where(halved, sound.chance / 2, sound.chance),
    residual=lambda v: jnp.where(from_p[v], draft.p[v], sound.residual(v)),
  )


@functools.cache
def compiled(proposal):
  rule = Verifier(name="planted", offers=planted, walk=UP)
  drawn = PROPOSALS[proposal]
  return outcome.compile_rule(rule, drawn, EAGLE, np.float64, 6)


FAULTS = [("sound", "", WITHOUT)]
FAULTS += [("halved", x, WITHOUT) for x in HALVED]
FAULTS += [("from p", x, WITHOUT) for x in FROM_P]
FAULTS += [("halved", x, "sample_then_top") for x in HALVED]


@pytest.mark.parametrize(
  ("kind", "place", "proposal"), quick.shorter(FAULTS, keep=5)
)
def test_a_fault_at_one_place_is_seen(monkeypatch, kind, place, proposal, x64):
  nodes = {"halved": HALVED, "from p": FROM_P}.get(kind, {}).get(place)
  if nodes is not None:
    monkeypatch.setitem(_now, kind, nodes)
  found = certificate._enumerate(
    compiled(proposal), PROPOSALS[proposal], EAGLE, SETTINGS
  )
  assert found.lossless == (kind == "sound")
  if kind != "sound":
    assert found.failure.distance > 1e-3
    # What is printed can be followed: a few nodes and contexts.
    assert found.failure.outcome.nodes.sum() < N
    assert len(repr(found.failure).splitlines()) < 20


def twice_drawn(draft, eta):
  """A bare rule that is wrong where a token repeats among siblings alone."""
  made = TRAVERSAL.decide(draft, eta)
  first, second = draft.tokens[1], draft.tokens[2]
  repeats = (first == second) & (first != INVALID) & (made.node == 0)
  residual = jnp.where(repeats, draft.p[0], made.residual)
  return dataclasses.replace(made, residual=residual)


@pytest.mark.parametrize(
  ("proposal", "sound"),
  quick.shorter([("with_replacement", False), (WITHOUT, True)]),
)
def test_a_bare_rule_that_is_wrong_where_a_token_repeats(proposal, sound, x64):
  own = certify.Settings(cases=9)
  found = certify.check(twice_drawn, proposal, "kary:2x2", own)
  assert found.lossless == sound


def all_compared(draft, eta):
  """Tells the thresholds of all nodes: as many paths as patterns of coins."""
  made = TRAVERSAL.decide(draft, eta)
  high = jnp.full_like(eta, np.nextafter(1.0, 0.0))
  every = TRAVERSAL.decide(draft, high)
  return dataclasses.replace(made, threshold=every.threshold)


def test_a_rule_whose_paths_are_too_many_is_undecided(x64):
  own = certify.Settings(cases=2)
  found = certify.check(all_compared, WITHOUT, "kary:2x2", own)
  assert found.verdict == "UNDECIDED (give a tree of 6 nodes or fewer)"
  assert not found.lossless
  assert certify.check(all_compared, WITHOUT, "branching:2,1", own).lossless


def too_little(draft, eta):
  made = all_compared(draft, eta)
  return dataclasses.replace(made, residual=made.residual / 2)


def test_faults_of_a_rule_whose_paths_are_too_many_are_told(x64):
  own = certify.Settings(cases=2)
  found = certify.check(too_little, WITHOUT, "kary:2x2", own)
  assert found.failure.faults == ("residual is no law",)


def third(draft):
  sound, shape = TRAVERSAL.offers(draft), draft.tree
  wrong = jnp.asarray((shape.rank == 2) & (shape.depth == 2))
  chance = jnp.where(wrong, sound.chance / 2, sound.chance)
  return sound._replace(chance=chance)


@pytest.mark.long
def test_the_case_that_is_printed_is_small_and_clear(x64):
  rule, drawn = (
    Verifier(name="third", offers=third, walk=UP),
    PROPOSALS[WITHOUT],
  )
  own = certify.Settings(vocabulary=6, cases=9)
  found = certify.check(rule, drawn, EAGLE, own)
  assert not found.lossless
  small = certify.smallest_failure(rule, drawn, found.failure, own)
  assert small.tree.parents == (-1, 0, 1, 1, 1)
  assert small.distance > 1e-2
  assert "the output begins" in repr(small)


@pytest.mark.parametrize("proposal", quick.shorter([*PROPOSALS], keep=2))
def test_many_siblings_are_not_all_enumerated(proposal, x64):
  own = certify.Settings(cases=1)
  assert certify.check(TRAVERSAL, proposal, "branching:8", own).lossless
