"""Adaptive trees by what children were measured to be worth."""

import functools
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import quick
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import cases, compiling, exact
from tv_jax.certify import drafts as drafts_lib
from tv_jax.certify.drafts import enumerate_drafts
from tv_jax.edge import reading
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.runs import sources
from tv_jax.tree import NO_PARENT, Adaptive, Calibrated
from tv_jax.tune import sampling
from tv_jax.verifiers import VERIFIERS

# Rows that differ, so that small worlds have trees of several shapes.
POLICY = Calibrated((0.4, 0.7), ((0.2, 0.15), (0.5, 0.45), (0.9, 0.1)))
SMALL = Adaptive((2, 2), most=2, policy=POLICY)
LAWS = np.array([[0.3, 0.3, 0.4], [0.39, 0.3, 0.31], [0.1, 0.9, 0.0]])


def test_a_child_is_worth_its_parent_times_a_chance():
  worth = jnp.array([1.0, 0.5, 0.25])
  found = jax.jit(POLICY, static_argnums=2)(jnp.asarray(LAWS), worth, 3)
  wanted = [[0.5, 0.45, 0], [0.1, 0.075, 0], [0.225, 0.025, 0]]
  np.testing.assert_allclose(found, wanted, rtol=1e-6)
  one = POLICY(jnp.asarray(LAWS), worth, 1)
  np.testing.assert_allclose(one, [[0.5], [0.1], [0.225]], rtol=1e-6)


def test_it_is_a_value():
  same = Calibrated([0.4, 0.7], [[0.2, 0.15], [0.5, 0.45], [0.9, 0.1]])
  assert same == POLICY
  assert hash(Adaptive((2, 2), 2, same)) == hash(SMALL)
  assert Adaptive((2, 2), 2, same) == SMALL != Adaptive((2, 2), 2)


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ({"steps": [0.5]}, 'holds no list "chances"'),
    ({"chances": [[1]]}, 'holds no list "steps"'),
    ({"steps": [0.5, 0.5], "chances": [[1]] * 3}, "give them rising"),
    ({"steps": [0.5], "chances": [[1]]}, "1 rows of chances for 1 steps"),
    ({"steps": [], "chances": [[]]}, "give as many chances, 1 or more"),
    ({"steps": [0.5], "chances": [[1], [1, 0]]}, "give as many chances"),
    ({"steps": [], "chances": [[1.5]]}, "[1.5]: give numbers from 0 to 1"),
    ({"steps": [], "chances": [[True]]}, "[True]: give numbers from 0 to 1"),
    ({"steps": [], "chances": [3]}, "3: give numbers from 0 to 1"),
    ({"steps": ["a"], "chances": [[1]] * 2}, "['a']: give numbers"),
  ],
  ids=str,
)
def test_a_file_of_what_is_no_table_is_refused(tmp_path, content, message):
  path = tmp_path / "a.json"
  path.write_text(json.dumps(content))
  with pytest.raises(ValueError, match=re.escape(message)) as caught:
    tree_lib.parse(f"adaptive:2,2@{path}")
  assert str(path) in str(caught.value)


def test_a_tree_is_named_with_its_file(tmp_path):
  path = tmp_path / "a.json"
  path.write_text(sampling.calibration_text(POLICY, {"draft": "mine"}))
  text = f"adaptive:2,2@{path}"
  assert tree_lib.parse(text) == SMALL
  with pytest.raises(ValueError, match=r"absent.json cannot be read"):
    tree_lib.parse("adaptive:2,2@absent.json")
  with pytest.raises(ValueError, match="3 nodes at depth 1"):
    tree_lib.parse(f"adaptive:3@{path}")


def test_another_table_is_another_tree_to_a_run():
  other = Calibrated(POLICY.steps, ((0.2, 0.15), (0.5, 0.45), (0.9, 0.2)))
  said = [
    sources._shape(Adaptive((2, 2), 2, policy), "adaptive:2,2@a.json")
    for policy in (POLICY, other, None)
  ]
  assert said[0] != said[1] != said[2]
  assert said[0] == sources._shape(SMALL, "adaptive:2,2@b.json")
  json.dumps(said)


@pytest.mark.parametrize("draft", ["draft", "draft_weak", "eagle"])
def test_bundled_ones_are_of_their_drafts(draft):
  name = f"bundled/calibrations/{draft}.json"
  shape = tree_lib.parse(f"adaptive:5,5,5,5,5@{name}")
  assert shape.most == shape.policy.most == 6
  said = json.loads(pathlib.Path(reading.place_of(name)).read_text())
  assert said["draft"] == f"bundled/{draft}"
  # The surer the draft is, the more its first child is worth.
  first = [row[0] for row in shape.policy.chances]
  assert first[-1] > first[0] + 0.2


# What is measured.


def sample(sure):
  """Two cycles of a tree of a node with two children, each with one child."""
  tree = tree_lib.branching([2, 1])
  worth = np.array([[1, 0.8, 0.1, 0.6, 0.1], [1, 0.4, 0.3, 0.2, 0.1]])
  return sampling.Sample(
    tree=tree,
    worth=worth,
    sure=np.asarray(sure, np.float32),
    item=np.arange(2),
    accepted=None,
  )


def test_a_chance_is_a_ratio_of_sums(monkeypatch):
  monkeypatch.setattr(sampling, "_PRIOR", 1e-9)
  monkeypatch.setattr(sampling, "STEPS", (0.5,))
  low, high = 0.1, 0.9
  found = sampling.calibrate(
    sample([[low, high, low, 0, 0], [high, high, high, 0, 0]])
  )
  # Below: the first root, and the first cycle's second child.
  wanted = [
    [(0.8 + 0.1) / (1 + 0.1), 0.1 / 1],
    [(0.4 + 0.6 + 0.2 + 0.1) / (1 + 0.8 + 0.4 + 0.3), 0.3 / 1],
  ]
  np.testing.assert_allclose(found.chances, wanted, atol=6e-5)


def test_of_what_was_not_met_the_chance_is_that_of_all_rows():
  found = sampling.calibrate(sample(np.full((2, 5), 0.99)))
  rows = np.array(found.chances)
  assert len(rows) == len(sampling.STEPS) + 1
  overall = [2.2 / 3.6, 0.4 / 2]
  np.testing.assert_allclose(rows[:-1], np.tile(overall, (7, 1)), atol=6e-5)
  np.testing.assert_allclose(rows[-1], overall, atol=6e-5)


# Exactness.


@functools.cache
def worlds():
  return cases.generate(0, 9, 3, cases.num_contexts(3, 2))


QUICK = {("traversal", "without_replacement"), ("token_level", "gated:0.6")}
CERTIFIED = [
  pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long)
  for case in [
    (rule, proposal)
    for rule in ("traversal", "token_level")
    for proposal in (*PROPOSALS, "gated:0.6")
  ]
]


@pytest.mark.parametrize(("rule", "proposal"), CERTIFIED)
def test_it_is_lossless(rule, proposal, x64):
  found = certify.check(rule, proposal, SMALL, certify.Settings(cases=9))
  assert found.lossless, certify.spell_out(found.failure)
  assert found.method == "exact"
  assert found.distance < 1e-12


@pytest.mark.long
@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_a_branch_may_look_at_another(rule, x64):
  """The third level's shape below one child depends on the other's child."""
  shape = Adaptive((2, 2, 2), most=2, policy=POLICY)
  own = certify.Settings(cases=9)
  found = certify.check(rule, "without_replacement", shape, own)
  assert found.lossless, certify.spell_out(found.failure)
  assert found.method == "exact"
  assert found.distance < 1e-12


@pytest.mark.long
@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_it_is_lossless_in_float32(rule):
  own = certify.Settings(cases=27, dtype=np.float32)
  found = certify.check(rule, "without_replacement", SMALL, own)
  assert found.lossless
  assert found.distance < 2e-6


def test_its_trees_are_of_several_shapes(x64):
  grown = np.concatenate(
    [
      enumerate_drafts(
        SMALL, PROPOSALS["without_replacement"], case.q
      ).topology.parent
      for case in worlds()
    ]
  )
  shapes = np.unique(grown[:, 3:], axis=0).tolist()
  assert [own for own in shapes if min(own) > 0] == [[1, 1], [1, 2], [2, 2]]


def pruned(shape, proposal, q):
  """Four are drawn below, and the two kept whose own q is worth most.

  What a child is worth by the table, times the chance of its own token.
  """
  tree = tree_lib.kary(2, 2)
  whole = enumerate_drafts(tree, proposal, q)
  rows = np.arange(len(whole.chance))[:, None]
  above = tree.parent[3:]
  laws = q[whole.context[:, above]]
  worths = shape.policy(
    jnp.asarray(laws.reshape(-1, q.shape[1])), jnp.ones(4 * len(rows)), 2
  )
  worth = np.asarray(worths).reshape(len(rows), 4, 2)[
    :, np.arange(4), tree.rank[3:]
  ]
  drawn = whole.tokens[:, 3:]
  own = np.take_along_axis(laws, np.maximum(drawn, 0)[..., None], axis=2)
  score = np.where(drawn == INVALID, -1, worth * own[..., 0])
  kept = 3 + np.sort(np.argsort(-score, axis=1, kind="stable")[:, :2], axis=1)
  nodes = np.concatenate([np.tile([0, 1, 2], (len(rows), 1)), kept], axis=1)
  parent = np.tile(np.array([NO_PARENT, 0, 0, 0, 0], np.int32), (len(rows), 1))
  parent[:, 3:] = tree.parent[kept]
  return drafts_lib.Drafts(
    tokens=whole.tokens[rows, nodes],
    context=whole.context[rows, nodes],
    chance=whole.chance,
    topology=compiling.in_pieces(drafts_lib.topologies(shape), None, parent),
  )


@pytest.mark.parametrize("rule", quick.shorter(["traversal", "token_level"]))
def test_a_worth_by_the_childs_own_token_is_caught(rule, monkeypatch, x64):
  monkeypatch.setattr(drafts_lib, "enumerate_drafts", pruned)
  found = certify.check(
    rule, "with_replacement", SMALL, certify.Settings(cases=9)
  )
  assert not found.lossless
  assert found.failure.law_broken
  assert found.distance > 1e-2


def test_a_length_is_a_sum_over_places(x64):
  """E[length] = 1 + sum of P(the accepted node is at a place or below it)."""
  rule, drawn = VERIFIERS["traversal_loop"], PROPOSALS["without_replacement"]
  run = exact.make_runner(rule, drawn, SMALL, np.float64, 3)
  law = compiling.jit(
    jax.vmap(lambda topology, *given: rule.stop_law(topology, drawn, *given))
  )
  for case in worlds():
    found = enumerate_drafts(SMALL, drawn, case.q)
    laws = case.q[found.context], case.p[found.context]
    stop = np.asarray(law(found.topology, found.tokens, *laws))
    below = np.einsum("on,onv->ov", stop, found.topology.ancestors)
    length = found.chance @ below.sum(axis=1)
    assert length == pytest.approx(run(case).expected, abs=1e-12)


# Runs.


@pytest.mark.long
def test_rows_have_trees_of_their_own(tmp_path):
  pair = tv_jax.load(reading.BUNDLED / "draft", reading.BUNDLED / "target")
  (tmp_path / "a.json").write_text(sampling.calibration_text(POLICY, {}))
  asked = ["What does a fox eat?", "Which city is the capital of Spain?"]
  options = {
    "template": "chat",
    "tree": f"adaptive:2,3,3@{tmp_path / 'a.json'}",
    "max_new_tokens": 24,
  }
  result = tv_jax.generate(pair, asked, trace=6, **options)
  grown = [{tuple(row) for row in one.parent.tolist()} for one in result.trace]
  assert len(set().union(*grown)) > 3
  assert abs(result.check.mean) < 4 * result.check.error
  alone = tv_jax.generate(pair, asked[1:], items=[1], **options)
  assert alone.tokens[0] == result.tokens[1]
