import itertools
import json

import numpy as np
import pytest

from tv_jax import tree

LOPSIDED = [-1, 0, 0, 0, 1, 1, 3, 4, 6, 6, 6, 7]

TREES = {
  "chain": tree.chain(6),
  "binary": tree.kary(2, 3),
  "branching": tree.branching([4, 2, 1]),
  "eagle": tree.EAGLE_SPARSE,
  "lopsided": tree.from_parents(LOPSIDED),
  "grown": tree.grown(40),
}

any_tree = pytest.mark.parametrize("t", TREES.values(), ids=TREES)


def path_to_root(parents, node):
  path = [node]
  while parents[path[-1]] >= 0:
    path.append(parents[path[-1]])
  return path


def children_of(parents, node):
  return [c for c, parent in enumerate(parents) if parent == node]


def visit_children_first(parents, node=0):
  for child in children_of(parents, node):
    yield from visit_children_first(parents, child)
  yield node


@any_tree
def test_every_array_follows_from_the_parents(t):
  parents = t.parents
  nodes = range(len(parents))
  assert t.parent.tolist() == list(parents)
  depth = [len(path_to_root(parents, v)) - 1 for v in nodes]
  assert t.depth.tolist() == depth
  assert t.max_depth == max(depth)
  for v in nodes:
    below = children_of(parents, v)
    row = t.children[v].tolist()
    assert row == below + [tree.NO_CHILD] * (len(row) - len(below))
    assert t.num_children[v] == len(below)
    assert [t.rank[c] for c in below] == list(range(len(below)))
    above = set(path_to_root(parents, v))
    assert set(np.flatnonzero(t.ancestors[v])) == above
  assert t.children.shape[1] == max(t.num_children)
  assert t.rank[tree.ROOT] == 0
  assert t.postorder.tolist() == list(visit_children_first(parents))
  assert [list(level) for level in t.levels] == [
    [v for v in nodes if depth[v] == d] for d in range(max(depth) + 1)
  ]
  assert t.is_chain == all(len(children_of(parents, v)) <= 1 for v in nodes)


def test_builders():
  assert tree.chain(3).parents == (-1, 0, 1, 2)
  assert tree.kary(2, 2).parents == (-1, 0, 0, 1, 1, 2, 2)
  assert tree.branching([3, 1]).parents == (-1, 0, 0, 0, 1, 2, 3)
  assert tree.from_parents(np.array([-1, 0])).parents == (-1, 0)
  assert len(tree.kary(2, 5)) == 2**6 - 1
  shuffled = [[1, 0], [0], [0, 1], [1], [0, 0]]
  assert tree.from_paths(shuffled).parents == (-1, 0, 0, 1, 1, 2)
  assert tree.from_paths([[], [0]]).parents == (-1, 0)
  assert tree.chain(4) == tree.kary(1, 4) != tree.chain(3)
  assert hash(tree.chain(4)) == hash(tree.branching([1, 1, 1, 1]))
  assert repr(tree.kary(2, 2)) == "Tree(7 nodes, depth 2: 1 2 4)"
  for text, built in (
    ("kary:2x10", tree.kary(2, 10)),
    ("branching:4,2,2,1", tree.branching([4, 2, 2, 1])),
    ("parents:0,0,1", tree.from_parents([-1, 0, 0, 1])),
    ("grown:20", tree.grown(20)),
  ):
    assert tree.parse(text) == built
  # The paper's post-order, section 3.2: X3, X4, X1, X5, X2.
  assert tree.from_parents([-1, 0, 0, 1, 1, 2]).postorder.tolist() == [
    *(3, 4, 1, 5, 2, 0)
  ]


def test_eagle_sparse_is_eagles_own_list_of_paths():
  # mc_sim_7b_63 in EAGLE's choices.py.
  # fmt: off
  paths = [
    [0], [1], [2], [3], [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [2, 1],
    [3, 0], [0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 2, 0],
    [0, 2, 1], [1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 2],
    [0, 0, 0, 0, 0], [0, 0, 0, 0, 1],
  ]
  # fmt: on
  assert tree.from_paths(paths) == tree.EAGLE_SPARSE
  assert len(tree.EAGLE_SPARSE) == 26
  assert tree.EAGLE_SPARSE.max_depth == 5


def worth(parents, ranks, acceptance):
  return sum(
    np.prod([acceptance[ranks[v]] for v in path_to_root(parents, node)[:-1]])
    for node in range(1, len(parents))
  )


def all_trees(nodes):
  """Every tree in level order: each parent list that `from_parents` takes."""
  for parents in itertools.product(range(nodes), repeat=nodes - 1):
    if sorted(parents) == list(parents) and all(
      parent <= child for child, parent in enumerate(parents)
    ):
      yield tree.from_parents([-1, *parents])


@pytest.mark.parametrize("acceptance", [(0.8, 0.16, 0.03), (0.5, 0.4, 0.05)])
@pytest.mark.parametrize("nodes", [2, 4, 6])
def test_grown_is_the_best_tree_of_its_size(nodes, acceptance):
  best = max(
    worth(t.parents, t.rank, acceptance)
    for t in all_trees(nodes)
    if t.rank.max() < len(acceptance)
  )
  t = tree.grown(nodes, acceptance=acceptance)
  assert len(t) == nodes
  assert worth(t.parents, t.rank, acceptance) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(
  ("build", "argument", "message"),
  [
    (tree.from_parents, [-1, 0, 7], "node 2 has parent 7"),
    (tree.from_parents, [-1, 0, 1, 0], "node 3 at depth 1 follows a node at"),
    (tree.from_parents, [-1, 0, 0, 1, 2, 1], "node 5 stands apart from its"),
    (tree.from_paths, [[0], [0, 2], [0, 0]], r"no elder sibling \[0, 1\]"),
    (tree.from_paths, [[0, 0]], "has no parent: add the path"),
    (lambda a: tree.grown(5, acceptance=a), (1.0,), "chances above 0"),
    *((tree.parse, text, '"kary:2x5"') for text in ("chain", "kary:2")),
    (tree.parse, "absent.json", r"absent\.json.*No such file"),
    (tree.parse, "kary:2x99999999999", "99999999999 levels: a tree may"),
    (tree.parse, "kary:10x8", "111111111 nodes: a tree may have at most"),
    (tree.parse, "kary:10x4000", r"more than 10\^15 nodes: a tree"),
  ],
)
def test_malformed_trees_are_refused(build, argument, message):
  with pytest.raises(ValueError, match=message):
    build(argument)


@pytest.mark.parametrize(
  ("content", "fault"),
  [
    ([-1, 0, 0, 1], None),
    ([[0], [1], [0, 0]], None),
    ({"parents": [-1, 0, 0, 1], "predicted": {"length": 2.5}}, None),
    ({"parents": [-1, 3]}, "node 1 has parent 3"),
    ([-1, True], "parents=True: give an integer"),
  ],
  ids=str,
)
def test_files_are_read_or_refused_by_name(tmp_path, content, fault):
  path = tmp_path / "mine.json"
  path.write_text(json.dumps(content))
  if not fault:
    assert tree.parse(str(path)) == tree.from_parents([-1, 0, 0, 1])
    return
  with pytest.raises(ValueError, match=f"mine.json.*{fault}"):
    tree.parse(str(path))
