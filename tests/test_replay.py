import dataclasses
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests import quick, test_cycles
from tv_jax import replay
from tv_jax import tree as tree_lib
from tv_jax.drafting import spread
from tv_jax.proposals import PROPOSALS
from tv_jax.replay import lengths, report
from tv_jax.verifiers import VERIFIERS, Verifier

DOCS = pathlib.Path(__file__).parents[1] / "docs" / "replay.md"
BARE = Verifier(decide=VERIFIERS["token_level_loop"].decide)


@pytest.fixture
def cycles(tmp_path):
  content = test_cycles.arrays(count=12, seed=1)
  # Each cycle of its own item but the last two.
  content["item"] = np.array([*range(11), 10])
  content["tokens"] = np.tile(content["tokens"], (4, 1))
  return replay.load(test_cycles.write(tmp_path / "a.npz", **content))


def test_lengths_are_those_of_the_rule(cycles, monkeypatch):
  law = jax.jit(VERIFIERS["traversal_loop"].stop_law, static_argnums=(0, 1))
  proposal = PROPOSALS["without_replacement"]
  wanted = [
    law(cycles.tree, proposal, tokens, *(spread(cycles.tree, x) for x in laws))
    @ (cycles.tree.depth + 1).astype(np.float32)
    for tokens, *laws in zip(cycles.tokens, cycles.q, cycles.p, strict=True)
  ]
  done = []
  monkeypatch.setattr(lengths, "CHUNK", 5)  # and a last one of 2
  own = replay.expected_lengths("traversal_loop", cycles, tick=done.append)
  np.testing.assert_allclose(own, wanted, rtol=1e-6)
  assert done == [5, 5, 2]


def test_a_rule_without_a_stop_law_is_run(cycles):
  wanted = replay.expected_lengths("token_level_loop", cycles)
  runs = 400
  own = replay.expected_lengths(BARE, cycles, coins=runs)
  assert (own != wanted).any()
  # A length is within [1, 3]: its deviation is at most 1.
  assert (abs(own - wanted) < 5 / runs**0.5).all()
  again = replay.expected_lengths(BARE, cycles, coins=runs)
  np.testing.assert_array_equal(own, again)


def test_what_is_no_decision_is_a_plain_step_as_in_runs(cycles):
  def far(*arguments):
    made = BARE.decide(*arguments)
    return dataclasses.replace(made, node=made.node + 99)

  own = replay.expected_lengths(far, cycles, coins=2)
  np.testing.assert_array_equal(own, 1)


def test_a_rule_for_chains_is_refused_on_a_tree(cycles):
  with pytest.raises(ValueError, match="for chains only"):
    replay.expected_lengths("block", cycles)


def test_rows_are_paired_with_the_runs_own_rule(cycles):
  own = dict(cycles.__dict__)
  expected = {"traversal": np.full(12, 2.0)}
  own |= {"verifier": "traversal", "expected": expected}
  ran = replay.Cycles(**own)
  found = {"block": np.full(12, 1.5), "traversal": np.full(12, 2.002)}
  first, second = replay.rows(ran, found, dict.fromkeys(found, "stop law"))
  assert second.gain is None
  assert first.gain.mean == pytest.approx(-0.502)
  assert first.shift is None
  assert second.shift == pytest.approx(1e-3)
  assert report.base_of(cycles, found) == "block"  # nothing ran here


def command(*arguments, cwd):
  return subprocess.run(
    [sys.executable, "-m", "tv_jax.replay", *map(str, arguments)],
    cwd=cwd,
    env={
      "JAX_PLATFORMS": "cpu",
      "PYTHONPATH": str(pathlib.Path(replay.__file__).parents[2]),
      "PATH": "",
    },
    capture_output=True,
    text=True,
    check=False,
  )


RULE = """
from tv_jax.verifiers import VERIFIERS

def decide(tree, proposal, tokens, q, p, eta):
  rule = VERIFIERS["token_level_loop"]
  return rule.decide(tree, proposal, tokens, q, p, eta)

def broken(tree, proposal, tokens, q, p, eta):
  raise TypeError("two\\nlines")
"""


def test_the_command_prints_a_table(tmp_path):
  test_cycles.write(tmp_path / "a.npz")
  (tmp_path / "mine.py").write_text(RULE)
  rules = "--verifier=token_level_loop,mine:decide"
  run = command("a.npz", rules, "--coins=9", cwd=tmp_path)
  assert run.returncode == 0, run.stderr
  assert "a.npz: 3 cycles of 3 items, without_replacement" in run.stdout
  assert re.search(r"mine:decide .* 9 runs", run.stdout)
  assert re.search(r"token_level_loop .* stop law", run.stdout)


@pytest.mark.parametrize(
  ("arguments", "message"),
  quick.shorter(
    [
      (["b.npz"], "b.npz cannot be read (No such file"),
      ([], "give the files to replay"),
      (["a.npz", "--verifier=oak"], "verifier 'oak': not one of"),
      (["a.npz", "--verifier=mine:nothing"], "mine has no 'nothing'"),
      (
        ["a.npz", "--verifier=mine:broken"],
        "depth 2: 1 2 1): TypeError: two lines",
      ),
      (["a.npz", "--verifier=block"], "a.npz: verifier 'block' is defined for"),
      (["a.npz", "--verifier=oak,"], "verifier 'oak': not one of"),
      (["a.npz", "--coins=0"], "--coins=0: give 1 or more"),
      (["a.npz", "--speed=3"], "Unknown command line flag 'speed'"),
    ]
  ),
  ids=str,
)
def test_the_command_says_in_a_line_what_is_wrong(tmp_path, arguments, message):
  test_cycles.write(tmp_path / "a.npz")
  (tmp_path / "mine.py").write_text(RULE)
  run = command(*arguments, cwd=tmp_path)
  assert run.returncode == 2
  assert run.stdout == ""
  assert run.stderr.startswith("tv_jax.replay: ")
  assert message in run.stderr
  assert run.stderr.count("\n") == 1


@pytest.mark.parity
def test_the_documented_pytorch_program_is_read(tmp_path, monkeypatch):
  import torch

  (block,) = re.findall(
    r"^```python\n(.*?)^```$", DOCS.read_text(), re.M | re.S
  )
  monkeypatch.chdir(tmp_path)
  tree = tree_lib.chain(2)
  laws = torch.full((2, 3, 8), 1 / 8, dtype=torch.bfloat16)
  seen = [(torch.tensor([0, 3, 5]), *laws)] * 2
  exec(block, {"parents": list(tree.parents), "seen": seen})
  cycles = replay.load(tmp_path / "cycles.npz")
  assert (cycles.tree, len(cycles)) == (tree, 2)
