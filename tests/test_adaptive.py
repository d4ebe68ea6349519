"""Trees that take their shape while they are drafted, by several policies."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tv_jax import certify, verifiers
from tv_jax import tree as tree_lib
from tv_jax.certify import compiling
from tv_jax.certify import drafts as drafts_lib
from tv_jax.certify.drafts import enumerate_drafts
from tv_jax.drafting import adaptive
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.tree import NO_CHILD, NO_PARENT, ROOT, Adaptive, Tree

SMALL = Adaptive((2, 2), most=2)
FEW = certify.Settings(cases=9)


def by_largest(laws, score, most):
  """A user's policy: by the largest chance of the draft's law alone.

  Its rows differ, so that small worlds have trees of several shapes.
  """
  table = jnp.array([[0.2, 0.15], [0.5, 0.45], [0.9, 0.1]], score.dtype)
  largest = jnp.max(laws, axis=-1)
  row = sum((largest >= step).astype(jnp.int32) for step in (0.4, 0.7))
  return score[:, None] * table[row, :most]


OTHER = Adaptive((2, 2), most=2, policy=by_largest)


# Trees by place.


def chosen(scores, above=(1.0, 1.0)):
  """(parent, rank) of the children chosen below two nodes with three each."""
  shape = Adaptive((2, 3), 3, policy=lambda *_: jnp.asarray(scores))
  found = adaptive.choose(shape, 2, jnp.ones((2, 4)) / 4, jnp.asarray(above))
  count = int(found.exists.sum())
  assert found.exists[:count].all()
  both = zip(found.above.tolist(), found.rank.tolist(), strict=True)
  return [*both][:count]


@pytest.mark.parametrize(
  ("scores", "above", "wanted"),
  [
    # The best, in level order.
    ([[0.5, 0.4, 0.1], [0.9, 0.2, 0.1]], (1, 1), [(0, 0), (0, 1), (1, 0)]),
    # No child comes without its elder.
    ([[0.1, 0.9, 0.9], [0.5, 0.4, 0.3]], (1, 1), [(1, 0), (1, 1), (1, 2)]),
    # A score of 0 leaves a place empty.
    ([[0.5, 0.0, 0.0], [np.nan, 1.0, 1.0]], (1, 1), [(0, 0)]),
    # A node that was not chosen has no children.
    ([[0.5] * 3, [0.9] * 3], (1, 0), [(0, 0), (0, 1), (0, 2)]),
  ],
)
def test_which_children_the_scores_choose(scores, above, wanted):
  assert chosen(scores, tuple(map(float, above))) == wanted


@pytest.mark.parametrize("widths", [(3, 4, 3), (2, 5, 6, 1)], ids=str)
def test_topology_has_the_arrays_of_the_static_tree(widths):
  shape, rng = Adaptive(widths, most=3), np.random.default_rng(0)
  make = jax.jit(functools.partial(adaptive.topology, shape))
  for _ in range(40):
    parent, above = np.full(len(shape), NO_PARENT, np.int32), np.array([ROOT])
    for level in shape.levels[1:]:
      places = np.repeat(above, shape.most)
      count = rng.integers(min(len(level), len(places)) + 1)
      above = np.arange(level.start, level.start + count)
      parent[above] = np.sort(rng.choice(places, count, replace=False))
    parents, places = tree_lib.drop_empty_places(parent)
    if len(parents) == 1:  # a root alone
      continue
    made, known = jax.tree.map(np.asarray, make(parent)), Tree(parents)
    order, paths = places[known.postorder], places[known.paths]
    children = np.where(
      known.children == NO_CHILD, NO_CHILD, places[known.children]
    )
    for ours, theirs in (
      (made.rank[places], known.rank),
      (made.depth[places], known.depth),
      (made.ancestors[places][:, places], known.ancestors),
      (made.postorder[: len(places)], order),
      (made.paths[places, : known.max_depth + 1], paths),
      (made.children[places, : known.max_children], children),
    ):
      np.testing.assert_array_equal(ours, theirs)


def test_a_rule_for_known_trees_alone_is_refused():
  bare = verifiers.Verifier(decision=lambda *_: None, name="mine")
  with pytest.raises(ValueError, match="known beforehand"):
    certify.check(bare, "top_k", "adaptive:2,2")


# Exactness.


THIRD = Adaptive((2, 2, 2), most=2, policy=by_largest)  # across branches
QUICK = [("traversal", "without_replacement", SMALL)]
# Each rule with each proposal, and each of both with either policy.
CERTIFIED = [
  *(
    (rule, drawn, (SMALL, OTHER)[(i + j) % 2])
    for i, rule in enumerate(("traversal", "token_level"))
    for j, drawn in enumerate((*PROPOSALS, "examples.gated:half"))
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
  assert found.failure is None, repr(found.failure)
  assert found.method == "exact"
  assert found.distance < 1e-12


def pruned(shape, proposal, q):
  """Draws four children and keeps the two with the highest q: a lossy rule.

  EAGLE-2 does this with deterministic children, where it is lossless.
  """
  tree = tree_lib.kary(2, 2)
  whole = enumerate_drafts(tree, proposal, q)
  rows = np.arange(len(whole.chance))[:, None]
  laws = q[whole.context[:, tree.parent[3:]]]
  drawn = whole.tokens[:, 3:]
  score = np.take_along_axis(laws, np.maximum(drawn, 0)[..., None], axis=2)
  score = np.where(drawn == INVALID, -1, score[..., 0])
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


def test_pruning_by_a_childs_own_token_is_caught(monkeypatch, x64):
  rule = "token_level"
  monkeypatch.setattr(drafts_lib, "enumerate_drafts", pruned)
  found = certify.check(rule, "with_replacement", SMALL, FEW)
  assert found.failure is not None
  assert found.failure.law_broken
  assert found.distance > 1e-2
  # With children that are not drawn by chance it is allowed.
  assert certify.check(rule, "top_k", SMALL, FEW).lossless
