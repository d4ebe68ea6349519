"""Trees that take their shape while they are drafted."""

import functools
import itertools

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
from tv_jax.runs.report import walks
from tv_jax.tree import NO_CHILD, NO_PARENT, Adaptive

SMALL = Adaptive((2, 2), most=2)


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
  make = jax.jit(functools.partial(adaptive.topology, shape))
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


def test_a_tree_known_beforehand_has_the_same_fields():
  tree = tree_lib.branching([3, 2])
  topology = tree.topology(nodes=12)
  np.testing.assert_array_equal(topology.depth[:10], tree.depth)
  np.testing.assert_array_equal(topology.paths[:10, :3], tree.paths)
  assert topology.paths.shape == (12, 12)  # as of any tree of so many nodes
  np.testing.assert_array_equal(topology.ancestors[:10, :10], tree.ancestors)
  assert not topology.ancestors[10:].any()


class TestChoice:
  """What a policy's worths become."""

  @staticmethod
  def chosen(worths, widths=(2, 3), most=3, above=(1.0, 1.0)):
    shape = Adaptive(
      widths, most, policy=lambda laws, worth, most: jnp.asarray(worths)
    )
    found = adaptive.choose(shape, 2, jnp.ones((2, 4)) / 4, jnp.asarray(above))
    count = int(found.there.sum())
    assert found.there[:count].all()
    pairs = zip(found.above.tolist(), found.rank.tolist(), strict=True)
    return [*pairs][:count]

  def test_the_best_are_taken_in_level_order(self):
    worths = [[0.5, 0.4, 0.1], [0.9, 0.2, 0.1]]
    assert self.chosen(worths) == [(0, 0), (0, 1), (1, 0)]

  def test_no_child_comes_without_its_elder(self):
    worths = [[0.1, 0.9, 0.9], [0.5, 0.4, 0.3]]
    assert self.chosen(worths) == [(1, 0), (1, 1), (1, 2)]

  def test_equals_are_taken_elders_first(self):
    assert self.chosen([[0.5] * 3] * 2) == [(0, 0), (0, 1), (0, 2)]

  def test_what_is_worth_nothing_stays_empty(self):
    worths = [[0.5, 0.0, 0.0], [np.nan, 1.0, 1.0]]
    assert self.chosen(worths) == [(0, 0)]

  def test_nothing_hangs_below_what_is_not_there(self):
    worths = [[0.5, 0.5, 0.5], [0.9, 0.9, 0.9]]
    assert self.chosen(worths, above=(1.0, 0.0)) == [(0, 0), (0, 1), (0, 2)]


def test_a_policy_of_another_width_is_refused():
  with pytest.raises(ValueError, match=r"gave \[2, 2\] worths: it should give"):
    TestChoice.chosen([[0.5, 0.4]] * 2)


def test_widths_are_integers_that_can_be_hashed():
  shape = Adaptive([2, np.int64(3)], np.int64(2))
  assert shape == Adaptive((2, 3), 2)
  assert hash(shape) == hash(Adaptive((2, 3), 2))
  with pytest.raises(TypeError):
    Adaptive((2.5,))


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("adaptive:0", "one positive width"),
    ("adaptive:5", "5 nodes at depth 1, below 1 nodes of 4 children"),
    ("adaptive:4,17", "17 nodes at depth 2"),
    ("adaptive:4,4,5000", "5009 nodes: 4096 are the most"),
    ("adaptive:", 'write "chain:5"'),
  ],
)
def test_what_can_never_be_filled_is_refused(text, words):
  with pytest.raises(ValueError, match=words):
    tree_lib.parse(text)


def test_a_rule_for_known_trees_alone_is_refused():
  shape, proposal = tree_lib.parse("adaptive:2,2"), PROPOSALS["top_k"]
  for name in ("traversal", "token_level", "traversal_loop"):
    rule = verifiers.resolve(name)
    assert verifiers.misfit(rule, shape, proposal) is None
    assert not rule.static_only
  bare = verifiers.Verifier(decide=lambda *_: None, name="mine")
  assert "known beforehand" in verifiers.misfit(bare, shape, proposal)
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


QUICK = {
  ("traversal", "without_replacement", "adaptive:2,2"),
  ("token_level", "with_replacement", "adaptive:2,2"),
}
CERTIFIED = [
  pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long)
  for case in itertools.product(
    ("traversal", "token_level"), PROPOSALS, ("adaptive:2,2", "adaptive:1,2,2")
  )
]


@pytest.mark.parametrize(("rule", "proposal", "text"), CERTIFIED)
def test_it_is_lossless(rule, proposal, text, x64):
  found = certify.check(rule, proposal, text, certify.Settings(cases=9))
  assert found.lossless, certify.spell_out(found.failure)
  assert found.method == "exact"
  assert found.distance < 1e-12


@pytest.mark.long
@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_it_is_lossless_in_float32(rule):
  own = certify.Settings(cases=27, dtype=np.float32)
  assert certify.check(
    rule, "without_replacement", "adaptive:2,2", own
  ).lossless


def pruned(shape, proposal, q):
  """Drafts of which four are drawn and the two best by their own q are kept.

  The trap: EAGLE-2 does so with deterministic children, where it is allowed.
  """
  tree = tree_lib.kary(2, 2)
  whole = enumerate_drafts(tree, proposal, q)
  rows = np.arange(len(whole.chance))[:, None]
  above = tree.parent[3:]
  own = q[whole.context[:, above], whole.tokens[:, 3:]]
  own = np.where(whole.tokens[:, 3:] == INVALID, -1, own)
  kept = 3 + np.sort(np.argsort(-own, axis=1, kind="stable")[:, :2], axis=1)
  nodes = np.concatenate([np.tile([0, 1, 2], (len(rows), 1)), kept], axis=1)
  parent = np.tile(np.array([NO_PARENT, 0, 0, 0, 0], np.int32), (len(rows), 1))
  parent[:, 3:] = tree.parent[kept]
  return drafts_lib.Drafts(
    tokens=whole.tokens[rows, nodes],
    context=whole.context[rows, nodes],
    chance=whole.chance,
    topology=compiling.in_pieces(drafts_lib.topologies(shape), None, parent),
  )


@pytest.mark.parametrize("rule", quick.shorter(["token_level", "traversal"]))
def test_pruning_by_a_childs_own_token_is_caught(rule, monkeypatch, x64):
  monkeypatch.setattr(drafts_lib, "enumerate_drafts", pruned)
  found = certify.check(
    rule, "with_replacement", SMALL, certify.Settings(cases=9)
  )
  assert not found.lossless
  assert found.failure.law_broken
  assert found.distance > 1e-2
  # With children that are not drawn by chance it is allowed.
  assert certify.check(rule, "top_k", SMALL, certify.Settings(cases=9)).lossless


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


@pytest.mark.long
def test_a_policy_of_ones_own(pair):
  def below_the_first(laws, worth, most):
    eldest = np.zeros((len(laws), most), np.float32)
    eldest[0] = 0.5 ** np.arange(most)
    return worth[:, None] * eldest

  shape = Adaptive((2, 2), most=2, policy=below_the_first)
  result = tv_jax.generate(
    pair, ASKED, template="chat", tree=shape, trace=4, max_new_tokens=16
  )
  for one in result.trace:
    np.testing.assert_array_equal(one.parent, [[-1, 0, 0, 1, 1]] * 4)
  with pytest.raises(ValueError, match="no node"):
    _ = result.node_acceptance


def where_it_is_sure(laws, worth, most):
  """Nothing hangs below a node after which the draft is in doubt."""
  sure = jnp.where(jnp.max(laws, axis=-1) > 0.6, worth, 0)
  return sure[:, None] * np.array([[1.0, 0.5]], np.float32)


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


def while_sure(laws, worth, most):
  """Children only where the draft is sure of one."""
  sure = jnp.max(laws, axis=-1)
  ranks = 0.5 ** jnp.arange(most, dtype=laws.dtype)
  return jnp.where(sure > 0.6, worth * sure, 0)[:, None] * ranks[None]


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
  shape = Adaptive((2, 3, 3, 2), most=3, policy=while_sure)

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
