"""Rules that are wrong at one place of a default tree are not lossless.

All faults of a row run in one compiled program, which asks for the places of a
fault.
"""

import dataclasses
import functools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import quick
from tv_jax import certify, tree
from tv_jax.certify import plan, rules
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.verifiers import UP, VERIFIERS, Verifier

EAGLE, N = tree.EAGLE_SPARSE, len(tree.EAGLE_SPARSE)
NODE = np.arange(N)
TRAVERSAL = VERIFIERS["traversal"]
WITHOUT, THEN_TOP = "without_replacement", "sample_then_top"
SECONDS, WIDE, THIRD, EAGLES = (
  text for text in plan.USUAL if not text.startswith("chain")
)


def at(row, *ranks):
  """The node of a row's tree with these ranks on its path."""
  shape = tree.parse(row)
  paths = zip(shape.paths, shape.depth, strict=True)
  paths = (path[1 : depth + 1] for path, depth in paths)
  wanted = [tuple(shape.rank[path]) == ranks for path in paths]
  assert sum(wanted) == 1
  return np.array(wanted)


@dataclasses.dataclass(frozen=True)
class Fault:
  """A node's chance is halved, or a bonus token after it comes from p."""

  row: str
  proposal: str
  halved: np.ndarray | bool = False
  from_p: np.ndarray | bool = False
  tied: bool = False  # only where p = q at the node's token


SOUND = Fault(EAGLES, WITHOUT)
FAULTS = {
  "below a second child of a second child": Fault(
    SECONDS, WITHOUT, at(SECONDS, 1, 1, 0)
  ),
  "after rejections in three families": Fault(
    SECONDS, WITHOUT, at(SECONDS, 1, 1, 1)
  ),
  "a fourth sibling at depth 2": Fault(THIRD, WITHOUT, at(THIRD, 2, 3)),
  "a tie of the third sibling": Fault(WIDE, WITHOUT, at(WIDE, 2), tied=True),
  "a tie of the fourth sibling": Fault(WIDE, WITHOUT, at(WIDE, 3), tied=True),
  "a tie of the third sibling, many nodes": Fault(
    EAGLES, THEN_TOP, at(EAGLES, 2), tied=True
  ),
  "the bonus after a second child of a second child": Fault(
    SECONDS, WITHOUT, from_p=at(SECONDS, 1, 1)
  ),
  "the third child of a third child": Fault(THIRD, WITHOUT, at(THIRD, 2, 2)),
  "below it": Fault(THIRD, WITHOUT, at(THIRD, 2, 2, 0)),
  "below a fourth child": Fault(THIRD, WITHOUT, at(THIRD, 2, 3, 0)),
  "the bonus after four children": Fault(THIRD, WITHOUT, from_p=at(THIRD, 2)),
  "a tie at the second level": Fault(
    SECONDS, WITHOUT, at(SECONDS, 1, 1), tied=True
  ),
}
for node in range(1, N):
  for drawn in (WITHOUT, THEN_TOP):
    FAULTS[f"node {node}, {drawn}"] = Fault(EAGLES, drawn, node == NODE)
for node in EAGLE.inner.tolist():
  FAULTS[f"the bonus after node {node}"] = Fault(
    EAGLES, WITHOUT, from_p=node == NODE
  )

_now = {"fault": SOUND}


def planted(draft):
  sound = TRAVERSAL.offers(draft)
  nodes = jax.ShapeDtypeStruct((len(draft.tree),), bool)

  def places():
    fault = _now["fault"]
    every = fault.halved, fault.from_p, fault.tied
    return tuple(np.broadcast_to(x, nodes.shape) for x in every)

  halved, from_p, tied = jax.pure_callback(
    places, (nodes,) * 3, vmap_method="broadcast_all"
  )
  at = draft.tree.parent, jnp.maximum(draft.tokens, 0)
  ties = draft.p[at] == draft.q[at]
  halved &= (draft.tokens != INVALID) & (~tied | ties)
  wrong = jnp.where(sound.chance > 0, sound.chance / 2, 0.1)
  return sound._replace(
    chance=jnp.where(halved, wrong, sound.chance),
    offered=sound.offered | (halved & tied),
    residual=lambda v: jnp.where(from_p[v], draft.p[v], sound.residual(v)),
  )


PLANTED = Verifier(name="planted", offers=planted, walk=UP)
compile_rule = rules.compile_rule


@functools.cache
def compiled(row, proposal):
  own = certify.Settings(vocabulary=plan.USUAL[row])
  return compile_rule(PLANTED, PROPOSALS[proposal], tree.parse(row), own)


def judged(fault, cases):
  own = certify.Settings(vocabulary=plan.USUAL[fault.row], cases=cases)
  _now["fault"] = fault
  run = compiled(fault.row, fault.proposal)
  with mock.patch.object(rules, "compile_rule", return_value=run):
    return certify.check(PLANTED, fault.proposal, fault.row, own)


def test_without_a_fault_it_is_lossless(x64):
  assert judged(SOUND, 1).lossless


@pytest.mark.parametrize("name", quick.shorter([*FAULTS], keep=9))
def test_a_fault_at_one_place_is_seen(name, x64):
  fault = FAULTS[name]
  check = judged(fault, 1 if fault.row == EAGLES and not fault.tied else 27)
  assert not check.lossless
  assert check.distance > 1e-3
  if fault.row == EAGLES:
    # What is printed can be followed: a few nodes and contexts.
    assert check.smallest.reached[0].sum() < N
    printed = repr(check.smallest)
    assert len(printed.splitlines()) < 20
    assert "Tree(26 nodes" in printed
    assert "in a draft nodes 1 2 3 4 are (" in printed


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
  check = certify.check(twice_drawn, proposal, "kary:2x2", own)
  assert check.lossless == sound


def all_compared(draft, eta):
  """Tells the thresholds of all nodes: as many paths as patterns of coins."""
  made = TRAVERSAL.decide(draft, eta)
  high = jnp.full_like(eta, np.nextafter(1.0, 0.0))
  every = TRAVERSAL.decide(draft, high)
  return dataclasses.replace(made, threshold=every.threshold)


def test_a_rule_whose_paths_are_too_many_is_undecided(x64):
  own = certify.Settings(cases=2)
  found = certify.check(all_compared, WITHOUT, "kary:2x2", own)
  assert found.verdict == "UNDECIDED"
  assert not found.lossless
  assert certify.check(all_compared, WITHOUT, "branching:2,1", own).lossless


def too_little(draft, eta):
  made = all_compared(draft, eta)
  return dataclasses.replace(made, residual=made.residual / 2)


def test_faults_of_a_rule_whose_paths_are_too_many_are_told(x64):
  own = certify.Settings(cases=2)
  found = certify.check(too_little, WITHOUT, "kary:2x2", own)
  assert found.faults == ("residual is no law",)


@pytest.mark.parametrize("proposal", quick.shorter([*PROPOSALS], keep=2))
def test_many_siblings_are_not_all_enumerated(proposal, x64):
  own = certify.Settings(cases=1)
  assert certify.check(TRAVERSAL, proposal, "branching:8", own).lossless
