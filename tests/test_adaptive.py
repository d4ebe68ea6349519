"""Trees that take their shape while they are drafted, by several policies."""

import itertools
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import quick
from tv_jax import certify, engine, replay, verifiers
from tv_jax import tree as tree_lib
from tv_jax.certify import compiling
from tv_jax.certify import drafts as drafts_lib
from tv_jax.certify.drafts import enumerate_drafts
from tv_jax.certify.engine import cases, exact
from tv_jax.drafting import adaptive, growers
from tv_jax.edge import reading
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.runs import sources
from tv_jax.runs.report import walks
from tv_jax.tree import NO_CHILD, NO_PARENT, Adaptive, Calibrated
from tv_jax.tune import sampling

SMALL = Adaptive((2, 2), most=2)
# Rows that differ, so that small worlds have trees of several shapes.
POLICY = Calibrated((0.4, 0.7), ((0.2, 0.15), (0.5, 0.45), (0.9, 0.1)))
MEASURED = Adaptive((2, 2), most=2, policy=POLICY)
LAWS = np.array([[0.3, 0.3, 0.4], [0.39, 0.3, 0.31], [0.1, 0.9, 0.0]])
FEW = certify.Settings(cases=9)


# Trees by place.


def random_level(rng, above, width, most):
  """Parents and ranks of a level, some of its places empty."""
  pairs = [(parent, rank) for parent in above for rank in range(most)]
  worth = rng.random((len(above), most))
  worth = np.minimum.accumulate(worth, axis=1).ravel()
  best = np.sort(np.argsort(-worth, kind="stable")[: rng.integers(width + 1)])
  return [pairs[place] for place in best]


def random_tree(rng, shape):
  """(parent, rank) by place, and the places that are filled."""
  parent = np.full(len(shape), NO_PARENT, np.int32)
  rank = np.zeros(len(shape), np.int32)
  above = [0]
  for level in shape.levels[1:]:
    nodes = random_level(rng, above, len(level), shape.most) if above else []
    for place, (own, number) in zip(level, nodes, strict=False):
      parent[place], rank[place] = own, number
    above = [*level][: len(nodes)]
  return parent, rank


def test_a_topology_is_that_of_the_tree():
  shape = Adaptive((3, 4, 5), most=3)
  make = jax.jit(lambda parent: adaptive.topology(shape, parent))
  rng, sizes = np.random.default_rng(0), set()
  for _ in range(60):
    parent, rank = random_tree(rng, shape)
    found = jax.tree.map(np.asarray, make(parent))
    places = np.flatnonzero((parent != NO_PARENT) | (np.arange(13) == 0))
    if len(places) == 1:
      continue
    sizes.add(len(places))
    number = np.full(13, NO_CHILD)
    number[places] = np.arange(len(places))
    above = [NO_PARENT, *number[parent[places[1:]]]]
    tree = tree_lib.from_parents(above)  # refuses what is no level order
    np.testing.assert_array_equal(found.rank[places], tree.rank)
    np.testing.assert_array_equal(found.rank, rank)
    np.testing.assert_array_equal(found.depth[places], tree.depth)
    np.testing.assert_array_equal(
      found.ancestors[places][:, places], tree.ancestors
    )
    order = number[found.postorder[: len(places)]]
    np.testing.assert_array_equal(order, tree.postorder)
    assert (found.postorder[len(places) :] == 0).all()
    width = tree.children.shape[1]
    own = found.children[places]
    own = np.where(own == NO_CHILD, NO_CHILD, number[np.maximum(own, 0)])
    np.testing.assert_array_equal(own[:, :width], tree.children)
    assert (own[:, width:] == NO_CHILD).all()
    depth = tree.max_depth
    np.testing.assert_array_equal(
      number[found.paths[places]][:, : depth + 1], tree.paths
    )
  assert len(sizes) > 6


def chosen(worths, above=(1.0, 1.0)):
  """(parent, rank) of what is chosen of two nodes with three children each."""
  shape = Adaptive((2, 3), 3, policy=lambda *_: jnp.asarray(worths))
  found = adaptive.choose(shape, 2, jnp.ones((2, 4)) / 4, jnp.asarray(above))
  count = int(found.there.sum())
  assert found.there[:count].all()
  both = zip(found.above.tolist(), found.rank.tolist(), strict=True)
  return [*both][:count]


@pytest.mark.parametrize(
  ("worths", "above", "wanted"),
  [
    # The best, in level order.
    ([[0.5, 0.4, 0.1], [0.9, 0.2, 0.1]], (1, 1), [(0, 0), (0, 1), (1, 0)]),
    # No child comes without its elder.
    ([[0.1, 0.9, 0.9], [0.5, 0.4, 0.3]], (1, 1), [(1, 0), (1, 1), (1, 2)]),
    # Of equals, elders first.
    ([[0.5] * 3] * 2, (1, 1), [(0, 0), (0, 1), (0, 2)]),
    # What is worth nothing stays empty.
    ([[0.5, 0.0, 0.0], [np.nan, 1.0, 1.0]], (1, 1), [(0, 0)]),
    # Nothing hangs below what is not there.
    ([[0.5] * 3, [0.9] * 3], (1, 0), [(0, 0), (0, 1), (0, 2)]),
  ],
)
def test_what_a_policys_worths_become(worths, above, wanted):
  assert chosen(worths, tuple(map(float, above))) == wanted


def test_a_policy_of_another_width_is_refused():
  with pytest.raises(ValueError, match=r"gave \[2, 2\] worths: it should give"):
    chosen([[0.5, 0.4]] * 2)


def test_widths_are_integers_that_can_be_hashed():
  shape = Adaptive([2, np.int64(3)], np.int64(2))
  assert shape == Adaptive((2, 3), 2)
  assert hash(shape) == hash(Adaptive((2, 3), 2))
  with pytest.raises(TypeError):
    Adaptive((2.5,))


def test_a_rule_for_known_trees_alone_is_refused():
  shape, proposal = tree_lib.parse("adaptive:2,2"), PROPOSALS["top_k"]
  for name in ("traversal", "token_level", "traversal_loop"):
    rule = verifiers.resolve(name)
    assert verifiers.misfit(rule, shape, proposal) is None
    assert not rule.static_only
  bare = verifiers.Verifier(decide=lambda *_: None, name="mine")
  assert "known beforehand" in str(verifiers.misfit(bare, shape, proposal))
  with pytest.raises(ValueError, match="known beforehand"):
    certify.check(bare, proposal, shape)


def test_what_is_too_large_to_enumerate_is_refused_first(x64):
  with pytest.raises(ValueError, match="too large to enumerate"):
    certify.check("traversal", "top_k", "adaptive:4,6,6,5,4")


@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_a_cycle_that_drafted_nothing_is_drawn(rule):
  parents, places = tree_lib.placed(np.array([-1, -1, -1]))
  assert (parents, places.tolist()) == ((-1,), [0])
  cycle = {
    "parents": [-1],
    "pieces": ["a"],
    "coins": [0.5],
    "stop": {rule: [1.0]},
    "direction": {rule: verifiers.resolve(rule).direction},
    "node": 0,
  }
  assert walks.walk(cycle, rule) == walks.Walk((), 0)


# What children were measured to be worth.


def test_a_child_is_worth_its_parent_times_a_chance():
  worth = jnp.array([1.0, 0.5, 0.25])
  found = jax.jit(POLICY, static_argnums=2)(jnp.asarray(LAWS), worth, 3)
  wanted = [[0.5, 0.45, 0], [0.1, 0.075, 0], [0.225, 0.025, 0]]
  np.testing.assert_allclose(found, wanted, rtol=1e-6)
  one = POLICY(jnp.asarray(LAWS), worth, 1)
  np.testing.assert_allclose(one, [[0.5], [0.1], [0.225]], rtol=1e-6)
  # It is a value; lists become tuples.
  same = Calibrated([0.4, 0.7], [[0.2, 0.15], [0.5, 0.45], [0.9, 0.1]])
  assert Adaptive((2, 2), 2, same) == MEASURED != SMALL
  assert hash(Adaptive((2, 2), 2, same)) == hash(MEASURED)


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ({"steps": [0.5]}, "chances is missing"),
    ({"chances": [[1]]}, "steps is missing"),
    ({"steps": [0.5, 0.5], "chances": [[1]] * 3}, "give them rising"),
    ({"steps": [0.5], "chances": [[1]]}, "1 rows of chances for 1 steps"),
    ({"steps": [], "chances": [[]]}, "give as many chances, 1 or more"),
    ({"steps": [0.5], "chances": [[1], [1, 0]]}, "give as many chances"),
    (
      {"steps": [], "chances": [[1.5]]},
      "chances=1.5: give a number from 0 to 1",
    ),
    ({"steps": [], "chances": [[True]]}, "chances=True: give a number"),
    ({"steps": [], "chances": [3]}, "chances=3: give a list"),
    ({"steps": ["a"], "chances": [[1]] * 2}, "steps='a': give a number"),
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
  assert tree_lib.parse(text) == MEASURED
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
  assert said[0] == sources._shape(MEASURED, "adaptive:2,2@b.json")
  json.dumps(said)


@pytest.mark.parametrize("draft", ["draft", "draft_weak", "eagle"])
def test_bundled_ones_are_of_their_drafts(draft):
  name = f"bundled/calibrations/{draft}.json"
  shape = tree_lib.parse(f"adaptive:5,5,5,5,5@{name}")
  assert isinstance(shape, Adaptive)
  assert isinstance(shape.policy, Calibrated)
  assert shape.most == shape.policy.most == 6
  said = json.loads(pathlib.Path(reading.place_of(name)).read_text())
  assert said["draft"] == f"bundled/{draft}"
  # The surer the draft is, the more its first child is worth.
  first = [row[0] for row in shape.policy.chances]
  assert first[-1] > first[0] + 0.2


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


@pytest.mark.long
@pytest.mark.parametrize("kind", ["independent", "eagle"])
def test_every_law_is_that_of_the_whole_text(kind):
  (_, case), *_ = cases.grid(
    drafts=[kind],
    trees={"adaptive": Adaptive((2, 3, 2))},
    verifiers={"traversal": verifiers.resolve("traversal")},
    proposals={"without_replacement": PROPOSALS["without_replacement"]},
    temperatures=[1.0],
    top_ps=[1.0],
  )
  assert exact.drift(case) < 1e-5


THIRD = Adaptive((2, 2, 2), most=2, policy=POLICY)  # looks across branches
QUICK = [
  ("traversal", "without_replacement", SMALL),
  ("token_level", "with_replacement", SMALL),
  ("token_level", "gated:0.6", MEASURED),
]
CERTIFIED = [
  *itertools.product(
    ("traversal", "token_level"),
    (*PROPOSALS, "gated:0.6"),
    (SMALL, Adaptive((1, 2, 2)), MEASURED),
  ),
  ("traversal", "without_replacement", THIRD),
  ("token_level", "without_replacement", THIRD),
]


@pytest.mark.parametrize(
  ("rule", "proposal", "shape"),
  [
    pytest.param(*case, marks=[pytest.mark.long] * (case not in QUICK))
    for case in CERTIFIED
  ],
  ids=str,
)
def test_it_is_lossless(rule, proposal, shape, x64):
  found = certify.check(rule, proposal, shape, FEW)
  assert found.failure is None, certify.spell_out(found.failure)
  assert found.method == "exact"
  assert found.distance < 1e-12


@pytest.mark.long
@pytest.mark.parametrize("shape", [SMALL, MEASURED], ids=["usual", "measured"])
@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_it_is_lossless_in_float32(rule, shape):
  own = certify.Settings(cases=27, dtype=np.float32)
  found = certify.check(rule, "without_replacement", shape, own)
  assert found.lossless
  assert found.distance < 2e-6


def pruned(shape, proposal, q):
  """Drafts of which four are drawn and the two best by their own q are kept.

  The trap: EAGLE-2 does so with deterministic children, where it is allowed.
  What a child is worth to a policy counts as well.
  """
  tree = tree_lib.kary(2, 2)
  whole = enumerate_drafts(tree, proposal, q)
  rows = np.arange(len(whole.chance))[:, None]
  laws = q[whole.context[:, tree.parent[3:]]]
  drawn = whole.tokens[:, 3:]
  score = np.take_along_axis(laws, np.maximum(drawn, 0)[..., None], axis=2)
  score = np.where(drawn == INVALID, -1, score[..., 0])
  if shape.policy:
    flat = jnp.asarray(laws.reshape(-1, q.shape[1]))
    worth = shape.policy(flat, jnp.ones(len(flat)), 2)
    worth = np.reshape(worth, (len(rows), 4, 2))
    score *= worth[:, np.arange(4), tree.rank[3:]]
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


@pytest.mark.parametrize("shape", [SMALL, MEASURED], ids=["usual", "measured"])
@pytest.mark.parametrize("rule", quick.shorter(["token_level", "traversal"]))
def test_pruning_by_a_childs_own_token_is_caught(rule, shape, monkeypatch, x64):
  monkeypatch.setattr(drafts_lib, "enumerate_drafts", pruned)
  found = certify.check(rule, "with_replacement", shape, FEW)
  assert found.failure is not None
  assert found.failure.law_broken
  assert found.distance > 1e-2
  if shape is SMALL:  # with children that are not drawn by chance it is allowed
    assert certify.check(rule, "top_k", shape, FEW).lossless


def test_trees_are_of_several_shapes(x64):
  contexts = certify.num_contexts(3, 2)
  grown = [
    enumerate_drafts(
      MEASURED, PROPOSALS["without_replacement"], case.q
    ).topology.parent
    for case in certify.cases.generate(0, 9, 3, contexts)
  ]
  found = np.unique(np.concatenate(grown)[:, 3:], axis=0).tolist()
  assert [own for own in found if min(own) > 0] == [[1, 1], [1, 2], [2, 2]]


# Runs.


@pytest.fixture(scope="module")
def pair():
  return tv_jax.load(reading.BUNDLED / "draft", reading.BUNDLED / "target")


ASKED = [
  "What does a fox eat?",
  "Which city is the capital of Spain?",
  "Translate German to English: Der Hund schläft.",
]


def test_rows_have_trees_of_their_own_in_one_program(pair):
  engine.forget_programs()
  result = tv_jax.generate(
    pair,
    ASKED,
    template="chat",
    tree="adaptive:3,4,3",
    panel=["token_level"],
    trace=6,
    max_new_tokens=20,
  )
  shapes = [{tuple(row) for row in one.parent.tolist()} for one in result.trace]
  assert len(set().union(*shapes)) > 5
  assert len({tuple(one.parent[0].tolist()) for one in result.trace}) > 1
  assert abs(result.check.mean) < 4 * result.check.error
  assert result.depth_acceptance[0] == 1
  # Neighbours change nothing.
  alone = tv_jax.generate(
    pair,
    ASKED[1:2],
    items=[1],
    template="chat",
    tree="adaptive:3,4,3",
    max_new_tokens=20,
  )
  assert alone.tokens[0] == result.tokens[1]


@pytest.mark.parametrize("kind", quick.shorter(["independent", "eagle"]))
def test_temperature_0_is_greedy_decoding(kind):
  folder = reading.BUNDLED / {"independent": "draft", "eagle": "eagle"}[kind]
  own = tv_jax.load(folder, reading.BUNDLED / "target", draft_kind=kind)
  options = {"template": "chat", "temperature": 0.0, "max_new_tokens": 40}
  plain = tv_jax.generate(own, ASKED, verifier=None, **options)
  grown = tv_jax.generate(own, ASKED, tree="adaptive:3,4,3", **options)
  assert grown.tokens == plain.tokens
  assert grown.acceptance_length.mean > 1.5


@pytest.mark.long
def test_one_place_a_level_is_a_chain(pair):
  options = {"template": "chat", "max_new_tokens": 48, "panel": None}
  shape = Adaptive((1, 1, 1), most=1)
  chain = tv_jax.generate(pair, ASKED, tree="chain:3", **options)
  grown = tv_jax.generate(pair, ASKED, tree=shape, **options)
  assert grown.tokens == chain.tokens


def where_it_is_sure(laws, worth, most):
  """Nothing hangs below a node after which the draft is in doubt."""
  sure = jnp.where(jnp.max(laws, axis=-1) > 0.6, worth, 0)
  ranks = 0.5 ** jnp.arange(most, dtype=laws.dtype)
  return sure[:, None] * ranks[None]


def test_drafted_nodes_are_counted(pair):
  options = {"template": "chat", "trace": 30, "max_new_tokens": 20}
  shape = Adaptive((2, 3, 2), most=2, policy=where_it_is_sure)
  result = tv_jax.generate(pair, ASKED, tree=shape, **options)
  found = [own.tolist() for own in result.drafted]
  assert found == [
    (own.parent[:, 1:] != NO_PARENT).sum(axis=1).tolist()
    for own in result.trace
  ]
  assert len(set().union(*found)) > 2
  options["max_new_tokens"] = 8
  known = tv_jax.generate(pair, ASKED, tree="kary:2x2", **options)
  assert {n for own in known.drafted for n in own.tolist()} == {6}
  # Of a law with one token there is one child.
  narrow = tv_jax.generate(pair, ASKED, tree="kary:2x2", top_k=1, **options)
  assert {n for own in narrow.drafted for n in own.tolist()} == {2}
  with pytest.raises(ValueError, match="static tree"):
    _ = result.node_acceptance


@pytest.mark.long
@pytest.mark.parametrize(
  "proposal", ["without_replacement", "with_replacement"]
)
def test_recorded_and_replayed(pair, tmp_path, proposal):
  path = tmp_path / "run.npz"
  result = tv_jax.record(
    pair,
    ASKED,
    path,
    template="chat",
    tree="adaptive:3,4,3",
    proposal=proposal,
    panel=["token_level"],
    max_new_tokens=16,
  )
  cycles = replay.load(path)
  assert cycles.tree == Adaptive((3, 4, 3))
  assert cycles.parents is not None
  assert len(np.unique(cycles.parents, axis=0)) > 3
  for rule in ("traversal", "token_level"):
    ran = np.concatenate(result.expected[rule])
    again = replay.expected_lengths(rule, cycles)
    np.testing.assert_allclose(sorted(again), sorted(ran), rtol=1e-3)
  with pytest.raises(ValueError, match="known beforehand"):
    replay.expected_lengths(lambda *_: None, cycles)


@pytest.mark.parametrize(
  ("node", "parent", "words"),
  [
    (2, 5, "node 2: parent 5"),  # a later one
    (3, 0, "node 3: parent 0"),  # two levels up
    (4, -1, "node 4: a token, but no parent"),
    (1, -1, "node 2"),  # a place left empty before another
    (0, 0, "cycle 1: node 0 must be the root"),
  ],
)
def test_a_file_of_what_is_no_tree_is_refused(tmp_path, node, parent, words):
  parents = np.tile(np.array([-1, 0, 0, 1, 2, -1], np.int32), (2, 1))
  q = np.full((2, 3, 4), 0.25, np.float32)
  content = {
    "parents": parents,
    "widths": np.array([2, 3]),
    "most": np.array(2),
    "proposal": np.array("with_replacement"),
    "tokens": np.where(parents == -1, -1, 1),
    "q": q,
    "p": q,
  }
  np.savez(tmp_path / "a.npz", **content)
  assert len(replay.load(tmp_path / "a.npz")) == 2
  parents[1, node] = parent
  np.savez(tmp_path / "a.npz", **content)
  with pytest.raises(ValueError, match=words):
    replay.load(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", quick.shorter(["independent", "eagle"]))
@pytest.mark.parametrize(
  "rule", quick.shorter(["traversal", "token_level", "ot_traversal"])
)
def test_levels_without_a_node_are_skipped_and_nothing_changes(
  kind, rule, monkeypatch
):
  name = "eagle" if kind == "eagle" else "draft"
  own = tv_jax.load(
    reading.BUNDLED / name, reading.BUNDLED / "target", draft_kind=kind
  )
  shape = Adaptive((2, 3, 3, 2), most=3, policy=where_it_is_sure)

  def ask():
    engine.forget_programs()
    return tv_jax.generate(
      own,
      ASKED,
      template="chat",
      tree=shape,
      verifier=rule,
      max_new_tokens=32,
      trace=32,
    )

  skipping = ask()
  monkeypatch.setattr(growers, "_goes_on", lambda worth: jnp.bool(True))
  whole = ask()
  assert skipping.tokens == whole.tokens
  np.testing.assert_array_equal(skipping.stops, whole.stops)
  deepest = set()
  for one, other in zip(skipping.trace, whole.trace, strict=True):
    there = one.parent != NO_PARENT
    deepest |= {*(there * shape.depth).max(axis=1).tolist()}
    for field in ("parent", "tokens", "p", "q", "drawn", "coins", "node"):
      np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    np.testing.assert_array_equal(one.stop[rule], other.stop[rule])
    np.testing.assert_array_equal(one.sure[there], other.sure[there])
  assert deepest == {0, 1, 2, 3, 4}


def test_what_stops_early_drafts_no_more(pair):
  asked = []

  def one_and_no_more(laws, worth, most):
    jax.debug.callback(lambda _: asked.append(1), worth)
    return jnp.where(worth > 0.9, 0.5, 0)[:, None] * jnp.ones((1, most))

  shape = Adaptive((1,) * 5, most=1, policy=one_and_no_more)
  result = tv_jax.generate(
    pair, ASKED[:1], template="chat", tree=shape, max_new_tokens=12
  )
  jax.effects_barrier()
  # The children of the root, and of its child, which is to have none.
  assert len(asked) == 2 * result.cycles


def test_a_row_that_is_done_drafts_nothing(pair):
  roots = []

  def one(laws, worth, most):
    jax.debug.callback(lambda own: roots.append(float(own[0])), worth)
    return worth[:, None] * jnp.ones((1, most))

  shape = Adaptive((1,), most=1, policy=one)
  result = tv_jax.generate(
    pair, ASKED[:2], template="chat", tree=shape, max_new_tokens=48
  )
  jax.effects_barrier()
  cycles = [len(own) for own in result.accepted]
  assert cycles[0] != cycles[1]
  assert roots.count(0) == abs(cycles[0] - cycles[1])
  assert roots.count(1) == sum(cycles)
