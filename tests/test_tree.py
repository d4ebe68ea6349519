import json
import re

import jax
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
  shuffled = [[1, 0], [0], [0, 1], [1], [0, 0]]
  assert tree.from_paths(shuffled).parents == (-1, 0, 0, 1, 1, 2)
  assert tree.chain(4) == tree.kary(1, 4) != tree.chain(3)
  assert hash(tree.chain(4)) == hash(tree.branching([1, 1, 1, 1]))
  for text, own in (
    ("chain:5", tree.chain(5)),
    ("kary:2x5", tree.kary(2, 5)),
    ("branching:4,2,2,1", tree.branching([4, 2, 2, 1])),
    ("eagle", tree.EAGLE_SPARSE),
    ("grown:20", tree.grown(20)),
  ):
    assert tree.parse(text) == own
    assert tree.temperatures(text) is None
  assert (len(tree.EAGLE_SPARSE), tree.EAGLE_SPARSE.max_depth) == (26, 5)
  own = tree.grown(6, acceptance=(0.8, 0.16, 0.03))
  assert own.parents == (-1, 0, 1, 2, 3, 4)
  own = tree.grown(6, acceptance=(0.5, 0.4, 0.05))
  assert own.parents == (-1, 0, 0, 1, 1, 2)
  # The paper's post-order, section 3.2: X3, X4, X1, X5, X2.
  assert tree.from_parents([-1, 0, 0, 1, 1, 2]).postorder.tolist() == [
    *(3, 4, 1, 5, 2, 0)
  ]


@any_tree
def test_a_topology_holds_the_tree_and_its_padding(t):
  N, K = t.children.shape
  padded = t.topology(nodes=N + 3, width=K + 2)
  plain = t.topology()
  for name in ("parent", "rank", "children", "postorder", "depth", "ancestors"):
    assert np.array_equal(getattr(plain, name), getattr(t, name)), name
  assert np.array_equal(padded.children[:N, :K], t.children)
  assert np.all(padded.children[N:] == tree.NO_CHILD)
  assert np.all(padded.children[:, K:] == tree.NO_CHILD)
  assert np.array_equal(padded.parent[:N], t.parent)
  assert np.all(padded.parent[N:] == tree.NO_PARENT)
  assert np.array_equal(plain.paths[:, : t.max_depth + 1], t.paths)
  dtypes = {leaf.dtype for leaf in jax.tree.leaves(padded)}
  assert dtypes == {np.dtype(np.int32), np.dtype(bool)}


@pytest.mark.parametrize(
  ("build", "given", "message"),
  [
    (tree.from_parents, [], "node 0 must be the root"),
    (tree.from_parents, [-1], "nothing is drafted"),
    (tree.from_parents, [-1, -1], "node 1 is a second root"),
    (tree.from_parents, [-1, 0, 7], "node 2 has parent 7"),
    (tree.from_parents, [-1, 2, 0], "node 1 stands before its parent 2"),
    (
      tree.from_parents,
      [-1, 0, 1, 0],
      "node 3 at depth 1 follows a node at depth 2",
    ),
    (
      tree.from_parents,
      [-1, 0, 0, 1, 2, 1],
      "node 5 stands apart from its siblings below 1",
    ),
    (tree.from_paths, [[1]], r"\[1\] has no elder sibling \[0\]"),
    (tree.from_paths, [[0, 0]], "has no parent: add the path"),
    (tree.grown, 1, "at least 2 nodes"),
    (lambda n: tree.chain(3).topology(nodes=n), 3, "4 nodes with up to 1 ch"),
  ],
)
def test_what_is_no_tree_is_refused(build, given, message):
  with pytest.raises(ValueError, match=message):
    build(given)


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("kary:2", '"kary:2x5"'),
    ("adaptive:5", "5 nodes at depth 1, below 1 nodes of 4 children"),
    ("absent.json", r"absent\.json.*No such file"),
    ("bundled/trees/none.json", r"there are draft-.*\.25\.json"),
    ("kary:2x12", "8191 nodes: 4096"),
    ("kary:2x99999999999999999999", "levels: 256"),
    ("adaptive:1,9223372036854775807", "9223372036854775809 nodes: 4096"),
    ("chain:" + "9" * 5000, "tree 'chain:999"),
  ],
)
def test_a_text_that_names_no_tree_is_refused_at_once(text, words, monkeypatch):
  monkeypatch.setattr("tv_jax.tree.shapes.from_parents", None)
  monkeypatch.setattr("tv_jax.tree.shapes.from_paths", None)
  with pytest.raises(ValueError, match=words) as error:
    tree.parse(text)
  assert len(str(error.value)) < 700


@pytest.mark.parametrize(
  "content",
  [
    [-1, 0, 0, 1],
    [[0], [1], [0, 0]],
    {"parents": [-1, 0, 0, 1], "predicted": {"length": 2.5}},
  ],
  ids=["parents", "paths", "object"],
)
def test_parse_reads_files(tmp_path, content):
  path = tmp_path / "mine.json"
  path.write_text(json.dumps(content))
  assert tree.parse(str(path)) == tree.from_parents([-1, 0, 0, 1])


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("{}", "parents is missing"),
    ("3", "parents=3: give a list"),
    ("[-1, true]", "parents=True: give an integer"),
    ("[[0], 1]", "paths=1: give a list"),
    ("[-1,", "mine.json"),
    (json.dumps([-1, *range(10**5)]), "100001 nodes: 4096 are the most"),
    (json.dumps([[0] * n for n in range(1, 400)]), "399 levels: 256"),
  ],
  ids=range(7),
)
def test_a_bad_file_is_refused_by_name(tmp_path, content, message):
  path = tmp_path / "mine.json"
  path.write_text(content)
  with pytest.raises(ValueError, match=message) as refusal:
    tree.parse(str(path))
  assert "mine.json" in str(refusal.value)


@pytest.mark.parametrize(
  ("said", "found"),
  [
    ({}, None),
    ({"draft_temperature": 0.5, "temperature": 1}, (0.5, 1)),
    ({"draft_temperature": 0, "temperature": 1}, "draft_temperature=0: a dr"),
    ({"draft_temperature": 1}, " temperature=None: give"),
  ],
)
def test_a_file_says_what_temperatures_it_was_tuned_at(tmp_path, said, found):
  path = tmp_path / "own.json"
  content = {"parents": [-1, 0], "steps": [0.5], "chances": [[0.1], [0.9]]}
  path.write_text(json.dumps(content | said))
  for name in (str(path), f"adaptive:1,1@{path}"):
    if not isinstance(found, str):
      assert tree.temperatures(name) == found
    else:  # it is refused where the tree is named
      with pytest.raises(ValueError, match=re.escape(found)):
        tree.parse(name)
