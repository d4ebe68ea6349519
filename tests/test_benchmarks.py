import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import (
  common,
  cpu,
  decisions,
  gpu_program,
  rows,
  tracing,
  verify,
)
from benchmarks.numpy_walks import Walk
from tests import commands
from tv_jax import tree as tree_lib
from tv_jax.verifiers import DEFAULT, VERIFIERS

NODES, WIDTH, V = 26, 4, 12
TREES = [
  tree_lib.chain(6),
  tree_lib.kary(2, 3),
  tree_lib.branching([3, 1, 2]),
  tree_lib.EAGLE_SPARSE,
]


def softmax(logits):
  weights = np.exp(logits.astype(np.float64))
  return weights / weights.sum(axis=1, keepdims=True)


def laws(tree, drafts):
  q = np.full((len(tree), V), np.nan)  # what nobody may read
  q[tree.num_children > 0] = softmax(drafts.draft)
  return q, softmax(drafts.target)


def padded(array):
  pad = [(0, NODES - len(array))] + [(0, 0)] * (array.ndim - 1)
  return jnp.asarray(np.pad(array, pad))


@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_the_numpy_walks_decide_as_the_package(rule, x64):
  decide = jax.jit(VERIFIERS[f"{rule}_loop"].decide, static_argnums=1)
  accepted = set()
  for seed in range(100):
    tree = TREES[seed % len(TREES)]
    drafts = decisions.make_drafts(tree, V, decisions=4, seed=seed)
    q, p = laws(tree, drafts)
    topology = tree.topology(nodes=NODES, width=WIDTH)
    walk = getattr(Walk(tree, V, np.float64), rule)
    etas = np.random.default_rng(seed).random(drafts.tokens.shape)
    for tokens, eta in zip(drafts.tokens, etas, strict=True):
      node, law = walk(tokens, q, p, eta)
      decision = decide(
        topology, decisions.PROPOSAL, *map(padded, (tokens, q, p, eta))
      )
      assert node == decision.node
      np.testing.assert_allclose(law, decision.residual, rtol=0, atol=1e-12)
      accepted.add(int(tree.depth[node]))
  assert accepted >= {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("rule", ["traversal", "token_level"])
def test_the_numpy_walks_decide_as_the_level_forms(rule, x64):
  tree = tree_lib.branching([3, 2])
  decide = jax.jit(VERIFIERS[rule].decide, static_argnums=(0, 1))
  walk = getattr(Walk(tree, V, np.float64), rule)
  for seed in range(50):
    drafts = decisions.make_drafts(tree, V, decisions=4, seed=seed)
    q, p = laws(tree, drafts)
    etas = np.random.default_rng(seed).random(drafts.tokens.shape)
    for tokens, eta in zip(drafts.tokens, etas, strict=True):
      node, law = walk(tokens, q, p, eta)
      decision = decide(tree, decisions.PROPOSAL, tokens, q, p, eta)
      assert node == decision.node
      np.testing.assert_allclose(law, decision.residual, rtol=0, atol=1e-12)


def test_the_numpy_draws_follow_the_law():
  law = np.random.default_rng(0).random(700).astype(np.float32) ** 8
  law[::3] = 0
  walk = Walk(tree_lib.chain(1), len(law))
  points = (np.arange(20000) + 0.5) / 20000
  counts = np.bincount([walk.draw(law, x) for x in points], minlength=700)
  assert not counts[law == 0].any()
  np.testing.assert_allclose(counts / 20000, law / law.sum(), atol=2e-4)


@pytest.mark.parametrize("name", decisions.TRAVERSAL)
def test_what_is_decided_inside_a_program(name):
  tree = tree_lib.kary(2, 2)
  drafts = decisions.make_drafts(tree, V, decisions=6, seed=3)
  q, p = (rows.astype(np.float32) for rows in laws(tree, drafts))
  etas = np.random.default_rng(1).random(drafts.tokens.shape, np.float32)
  keys = jax.random.split(jax.random.key(0), 6)
  run = jax.jit(decisions.inside(name, tree))
  nodes, bonus = run(drafts.tokens, etas, keys, q, p)
  alone = jax.jit(decisions.on_laws(name, tree))
  for i, (tokens, eta) in enumerate(zip(drafts.tokens, etas, strict=True)):
    decision = alone(tokens, eta, q, p)
    assert nodes[i] == decision.node
    assert decision.residual[bonus[i]] > 0


def test_siblings_are_drawn_without_replacement():
  rng = np.random.default_rng(0)
  law = np.array([0.5, 0.0, 0.3, 0.2])
  drawn = np.array(
    [decisions._draw_siblings(rng, np.cumsum(law), 2) for _ in range(20000)]
  )
  for first, second in [(0, 2), (0, 3), (2, 0), (2, 3), (3, 0), (3, 2)]:
    chance = law[first] * law[second] / (1 - law[first])
    share = np.mean((drawn == [first, second]).all(axis=1))
    error = np.sqrt(chance * (1 - chance) / len(drawn))
    assert abs(share - chance) < 5 * error
  assert sorted(decisions._draw_siblings(rng, np.cumsum(law), 3)) == [0, 2, 3]


@pytest.mark.long
def test_the_report_measures_everything(capsys):
  verify.report(
    [64],
    {"chain:2": tree_lib.chain(2)},
    decisions=3,
    seed=0,
    gpu=False,
    also=["ot_traversal", "k_seq", "gbv"],
  )
  printed = capsys.readouterr().out
  for name in (
    *DEFAULT,
    "ot_traversal",
    "k_seq",  # for another proposal, and with more coins
    "gbv",
    "numpy traversal",
    "logits, token_level",
    "inside, traversal_loop",
    "inside, numpy traversal",
  ):
    assert f"| {name} " in printed
  assert "3 of 3" in printed  # all methods took the same decisions
  assert "not measured" in printed  # the goals are about other trees


def test_values_larger_than_a_row_are_named():
  hlo = """
ENTRY %main (p: f32[2,64]) -> (f32[64], s32[]) {
  %p = f32[2,64]{1,0} parameter(0)
  %sums = (f32[2]{0}, f32[2,64]{1,0}) fusion(%p), kind=kInput
  %row = f32[64]{0} fusion(%sums), kind=kLoop
  %node = s32[] fusion(%sums), kind=kLoop
  ROOT %out = (f32[64]{0}, s32[]) tuple(%row, %node)
}
"""
  assert gpu_program.values_of(hlo, 64) == ("sums (f32[2], f32[2,64])",)


@pytest.mark.parametrize("text", ["12", "many", "-5", ""])
def test_a_bad_vocabulary_is_refused(text):
  done = commands.run(f"--vocab={text}", program="benchmarks.verify")
  assert done.returncode == 2
  told = f"benchmarks.verify: --vocab={text}: give whole numbers of 16 or more"
  assert done.stderr.splitlines()[-1] == told


def test_a_bad_tree_is_refused():
  with pytest.raises(ValueError, match="--trees: tree 'oak': write"):
    common.parse_trees("eagle,oak", common.tree)


def test_more_siblings_than_tokens_are_refused():
  trees = {"wide": tree_lib.branching([20])}
  with pytest.raises(ValueError, match="--vocab=16: too small for the 20"):
    verify.check_siblings(trees, 16)


def test_trees_may_hold_commas():
  trees = common.parse_trees("branching:4,2,eagle", common.tree)
  assert list(trees) == ["branching:4,2", "eagle"]


def test_what_rows_are_worth(capsys):
  told = ["--draft=bundled/draft_weak", "--rounds=1", "--per_task=1"]
  assert rows.main([*told, "--trees=chain:1", "--rows=2"]) == 0
  line = capsys.readouterr().out.splitlines()[-1].split("|")
  assert line[1].strip() == "chain:1"
  assert 50 <= int(line[2].strip().rstrip("%")) < 100
  assert rows.main([*told, "--trees=shrub"]) == 2
  assert "shrub" in capsys.readouterr().err
  with pytest.raises(SystemExit):
    rows.main(["--rows=0"])


def test_what_batches_use():
  accepted = [np.ones(size) for size in (4, 2, 3, 3, 1)]
  found = types.SimpleNamespace(accepted=accepted)
  assert rows.in_batches(found, 2) == 13 / (2 * (4 + 3 + 1))


def test_what_cpus_do_in_another_way(capsys):
  assert cpu.main(["--short", "--rounds=2"]) == 0
  printed = capsys.readouterr().out
  for row in ("1 x 2", "1 x 2, 256 and 208", "64", "chain:2"):
    (cells,) = re.findall(rf"^\| {row} +\|(.*)\|$", printed, re.M)
    assert all(float(cell.split()[0]) > 0 for cell in cells.split("|"))
  with pytest.raises(SystemExit):
    cpu.main(["--rounds=0"])


def test_what_tracing_takes(capsys):
  told = ["--draft=toy draft", "--target=toy", "--trees=chain:1"]
  assert tracing.main([*told, "--rounds=1"]) == 0
  printed = capsys.readouterr().out
  (times,) = re.findall(r"chain:1\D+([\d.]+)\D+([\d.]+)", printed)
  assert all(float(one) > 0 for one in times)
  assert tracing.main([*told, "--trees=shrub"]) == 2
  assert "shrub" in capsys.readouterr().err
  with pytest.raises(SystemExit):
    tracing.main([*told, "--verifier=no_such"])
  assert "no_such" in capsys.readouterr().err
