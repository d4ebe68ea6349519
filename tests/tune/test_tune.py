"""The best tree of a pair: the value of its nodes, and the choice."""

import dataclasses
import functools
import itertools
import json
import re

import jax
import numpy as np
import pytest

from tests.lib import checkpoints, commands, quick
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import drafts, rules
from tv_jax.certify import worlds as worlds_lib
from tv_jax.engine import Options, Pair
from tv_jax.proposals import PROPOSALS
from tv_jax.tree import ROOT as TOP
from tv_jax.tune import choosing, tune, tuning
from tv_jax.verifiers import VERIFIERS, Draft, unsupported_reason

V = 3
SMALL = tree_lib.from_parents([-1, 0, 0, 1])
LARGE = tree_lib.from_parents([-1, 0, 0, 0, 1, 1, 2])
RULES = [
  name for name, rule in VERIFIERS.items() if rule.by_path and not rule.refuses
]
TINY = checkpoints.tiny(num_hidden_layers=1)
PROMPTS = [[5], [1, 2, 3], [4, 5, 6, 7, 8], [9, 3], [7, 7, 1], [30, 12]]


@functools.cache
def worlds(depth):
  return worlds_lib.generate(0, 9, V, worlds_lib.num_contexts(V, depth))


@functools.cache
def stopping(name):
  return jax.jit(jax.vmap(VERIFIERS[name].stopping))


def exact_reach(name, proposal, tree, case):
  """Returns W of each node [N], by enumeration of all drafts."""
  p, q = case.rows(tree.max_depth)
  found = drafts.enumerate_drafts(tree, PROPOSALS[proposal], q)
  laws = q[found.context], p[found.context]
  drafted = Draft(tree, PROPOSALS[proposal], found.tokens, *laws)
  stop = stopping(name)(drafted)
  return found.chance @ tuning.reach(tree, np.asarray(stop))


@pytest.mark.long
@pytest.mark.parametrize(
  ("name", "proposal"),
  [
    (name, proposal)
    for name, proposal in itertools.product(VERIFIERS, PROPOSALS)
    if VERIFIERS[name].offers
    and not unsupported_reason(
      VERIFIERS[name], tree_lib.chain(2), PROPOSALS[proposal]
    )
  ],
)
def test_a_length_is_a_sum_over_nodes(name, proposal, x64):
  rule, drawn = VERIFIERS[name], PROPOSALS[proposal]
  tree = tree_lib.chain(2) if unsupported_reason(rule, SMALL, drawn) else SMALL
  assert not unsupported_reason(rule, tree, drawn)
  sums = [
    1 + exact_reach(name, proposal, tree, case)[1:].sum()
    for case in worlds(tree.max_depth)
  ]
  run = rules.compile_rule(rule, drawn, tree, certify.Settings(vocabulary=V))
  lengths = [run(case).length for case in worlds(tree.max_depth)]
  np.testing.assert_allclose(lengths, sums, rtol=0, atol=1e-12)


def apart(name, proposal):
  """Returns the largest change of a node's W from a small to a large tree."""
  places = [TOP, *choosing.places(LARGE, SMALL)]
  return max(
    np.abs(
      exact_reach(name, proposal, LARGE, case)[places]
      - exact_reach(name, proposal, SMALL, case)
    ).max()
    for case in worlds(2)
  )


@pytest.mark.parametrize(
  ("name", "proposal"),
  quick.shorter(
    [
      (name, proposal)
      for name in RULES
      for proposal, own in PROPOSALS.items()
      if own.nested
    ],
    keep=1,
  ),
)
def test_other_nodes_of_the_tree_do_not_change_w(name, proposal, x64):
  assert apart(name, proposal) < 1e-12


@pytest.mark.long
def test_for_a_proposal_that_counts_siblings_it_does(x64):
  assert apart("traversal", "sample_then_top") > 0.01


# Which nodes are chosen.


@functools.cache
def all_parts(tree):
  """{n: all sets of n nodes closed under parent and elder sibling}."""
  found = {}
  for wanted in itertools.product([False, True], repeat=len(tree) - 1):
    nodes = [node for node, own in enumerate(wanted, 1) if own]
    if all(
      tree.parent[node] in (TOP, *nodes)
      and (tree.rank[node] == 0 or node - 1 in nodes)
      for node in nodes
    ):
      found.setdefault(len(nodes), []).append(nodes)
  return found


def faults(tree, values, chosen):
  """Yields the faults of a choice, found by brute force."""
  for count, nodes in enumerate(chosen):
    parts = all_parts(tree)[count]
    if nodes not in parts:
      yield f"{nodes} is no tree"
      continue
    best = max(values[own].sum() for own in parts)
    if abs(values[nodes].sum() - best) > 1e-12:
      yield f"{nodes} is not best"


@pytest.mark.parametrize(
  "tree",
  [
    tree_lib.kary(2, 3),
    tree_lib.from_parents([-1, 0, 0, 0, 0, 2, 2, 2, 5]),
    tree_lib.chain(4),
  ],
  ids=repr,
)
def test_the_best_nodes_are_those_of_brute_force(tree):
  rng = np.random.default_rng(0)
  for _ in range(3):
    values = rng.normal(size=len(tree))  # in no order at all
    chosen = choosing.best_nodes(tree, values)
    assert len(chosen) == len(tree)
    assert [*faults(tree, values, chosen)] == []
    values[tree.depth > 2] = -np.inf
    shallow = choosing.best_nodes(tree, values)
    assert len(shallow) == sum(tree.depth <= 2)
    assert [*faults(tree, values, shallow)] == []


# A whole run, with tiny random models.


@pytest.fixture(scope="module")
def pair():
  target, draft = (checkpoints.ours(TINY, seed) for seed in (0, 0))
  draft.params["unembedding"] = draft.params["unembedding"] / 2
  return Pair(target=target, draft=draft)


OPTIONS = {
  "nodes": 3,
  "depth": 2,
  "sizes": (5,),
  "trees": ("chain:2", "kary:2x2"),
  "max_new_tokens": 8,
  "ends": (),
}


def tune_tiny(pair, prompts=PROMPTS, **changes):
  given = OPTIONS | changes
  names = {field.name for field in dataclasses.fields(Options)} & {*given}
  options = Options(**{name: given.pop(name) for name in names})
  return tune(pair, prompts, options, **given)


@pytest.fixture(scope="module")
def tuned(pair):
  return tune_tiny(pair)


def test_a_pair_is_tuned(tuned):
  table = tuned.frame
  assert tuned.tree == table["tree"]["tuned:3"]
  assert [*table["nodes"].items()] == [
    *(("plain", 0), ("tuned:3", 3), ("tuned:5", 5)),
    *(("chain:2", 2), ("kary:2x2", 6)),
  ]
  assert abs(tuned.check.mean) < 5 * tuned.check.error
  length, gain = table["length"], table["gain"]
  np.testing.assert_allclose(gain, length - length["tuned:3"], atol=1e-12)
  assert gain["tuned:3"] == 0
  assert (table["ms"] > 0).all()
  assert table["decoded"]["plain"] == length["plain"] == 1
  for part in ("tuned:3", "plain", "check: realised - expected", "wide tree"):
    assert part in repr(tuned)


def test_plain_decoding_takes_no_options_of_a_draft(monkeypatch):
  monkeypatch.setattr(tuning, "_LEAST", 4)
  changes = {"nodes": 2, "sizes": (), "draft_stop": 0.1, "max_new_tokens": 2}
  tuned = tune_tiny(checkpoints.pair("dspark"), **changes)
  assert tuned.frame["speed"]["plain"] > 0


def test_what_is_written_is_read(tuned, tmp_path):
  path = tmp_path / "tree.json"
  tuned.save(str(path))
  assert tree_lib.parse(str(path)) == tuned.tree
  content = json.loads(path.read_text())
  assert content["draft_temperature"] == content["temperature"] == 1.0
  assert content["verifier"] == "traversal"
  assert content["measured"]["items"] == 3


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"nodes": 500}, "500: Tree("),
    (
      {"verifier": "traversal_reference"},
      "verifier 'traversal_reference' has no stopping distribution to tune by",
    ),
    ({"trees": ("chain:4000",)}, "'chain:4000' has 4000 levels: the pair has"),
    ({"verifier": "block"}, "'block' is defined for some trees only"),
    ({"prompts": PROMPTS[:3]}, "3 prompts: give 4 or more, no two the same"),
    (
      {"prompts": PROMPTS[:1] * 4},
      "4 prompts: give 4 or more, no two the same",
    ),
  ],
  ids=str,
)
def test_what_is_wrong_is_one_line(pair, changes, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    tune_tiny(pair, **changes)


@pytest.mark.parametrize("out", ["tree.json", "deep", "nowhere/tree.json"])
def test_the_command_refuses_a_file_that_cannot_be_read_later(tmp_path, out):
  (tmp_path / "tree.json").write_text("{}")
  flag = f"--out={out}"
  done = commands.run(flag, program="tv_jax.tune", cwd=tmp_path)
  assert done.returncode == 2
  assert done.stderr.startswith(f"tv_jax.tune: {flag}: give a ")
  assert (tmp_path / "tree.json").read_text() == "{}"
