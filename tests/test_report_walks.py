"""Walks told from stop laws are those that the verifiers take."""

import dataclasses

import numpy as np
import pytest

from tests import battery, quick, traces
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.runs.report import walks
from tv_jax.verifiers import DOWN, NOT_OFFERED, UP, VERIFIERS

TREES = {name: battery.TREES[name] for name in ("lopsided", "binary", "chain")}
CASES = [
  (rule, name) for name in TREES for rule in ("traversal", "token_level")
]
LANES = 3072
CLOSE = 1e-5  # a coin this near its chance may fall on either side


def cycle_of(t, tokens, coins, stop, rule):
  return {
    "parents": list(t.parents),
    "pieces": ["", *(None if x == INVALID else str(x) for x in tokens[1:])],
    "coins": coins.tolist(),
    "stop": {rule: stop.tolist()},
    "direction": {rule: VERIFIERS[rule].walk},
  }


@pytest.mark.parametrize(
  ("rule", "name"), quick.shorter([("block", "chain"), *CASES], keep=3)
)
def test_a_walk_is_the_verifiers(rule, name):
  t = TREES[name]
  rng = np.random.default_rng([len(t), len(rule)])
  drafts = battery.random_lanes(rng, t, LANES)
  drafts = dataclasses.replace(
    drafts, q=drafts.q.astype(np.float32), p=drafts.p.astype(np.float32)
  )
  assert (drafts.tokens[:, 1:] == INVALID).any() or t.is_chain
  assert set(drafts.which) == set(range(len(PROPOSALS)))
  coins = rng.random((LANES, len(t))) ** rng.choice([0.3, 1, 2], (LANES, 1))
  coins = coins.astype(np.float32)
  results = battery.run(rule, t, drafts, coins)
  close = 0
  for lane in range(LANES):
    case = cycle_of(
      t, drafts.tokens[lane], coins[lane], results.stop[lane], rule
    )
    walk = walks.walk(case, rule)
    if any(abs(step.coin - step.chance) < CLOSE for step in walk.steps):
      close += 1
      continue
    assert walk.node == results.node[lane]
    # Nor is it the node alone: every threshold is the verifier's own.
    for step in walk.steps:
      threshold = results.accept[lane, step.node]
      assert step.chance == pytest.approx(max(threshold, 0), abs=CLOSE)
    offered = {*np.flatnonzero(results.accept[lane] != NOT_OFFERED)}
    walked = {step.node for step in walk.steps}
    if rule == "block":  # which reports coins that no longer matter
      walked &= offered
    assert offered <= walked | {tree_lib.ROOT}
  assert close < LANES / 50
  assert len(set(results.node.tolist())) == len(t)


def test_what_is_certain_is_never_missed():
  """The last chance is 1 to the last bit, however the law was rounded."""
  t = tree_lib.chain(2)
  stop = np.array([0, 0.1, 0.2], np.float32) / 3
  for rule in ("traversal", "token_level"):
    case = cycle_of(t, np.zeros(3, int), np.full(3, 1 - 2**-24), stop, rule)
    assert walks.chances(case, rule)[1] == 1
    assert walks.walk(case, rule).node == 1


def renamed(trace, rule, name, direction):
  """The trace as if a rule were called otherwise, and said so of itself."""

  def change(cycle):
    stop = {name if r == rule else r: law for r, law in cycle["stop"].items()}
    said = {r: direction if r == name else DOWN for r in stop}
    return cycle | {"stop": stop, "direction": said}

  ran = trace["verifier"]
  return trace | {
    "verifier": name if ran == rule else ran,
    "cycles": [change(cycle) for cycle in trace["cycles"]],
  }


@pytest.mark.parametrize("rule", quick.shorter(["token_level", "traversal"]))
def test_a_rule_is_drawn_by_its_direction_whatever_its_name(rule):
  trace = traces.trace("kary:2x2", verifier=rule, cycles=40)
  assert walks.undrawn([trace]) == ({}, 0)
  direction = VERIFIERS[rule].walk
  assert walks.undrawn([renamed(trace, rule, "mine", direction)]) == ({}, 0)
  wrong = renamed(trace, rule, "mine", UP if direction == DOWN else DOWN)
  reasons, missed = walks.undrawn([wrong])
  assert missed > 4
  assert f"{missed} of 40 cycles ended at another node" in reasons["mine"]
  reasons, missed = walks.undrawn([renamed(trace, rule, "mine", "")])
  assert missed == 0
  assert [*reasons] == ["mine"]
  assert "does not say in which direction" in reasons["mine"]
