"""Any rule on recorded cycles: lengths, the table, the command."""

import dataclasses
import pathlib
import re

import jax
import numpy as np
import pytest

from tests import commands, quick, test_cycles
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

  def far(*arguments):
    made = BARE.decide(*arguments)
    return dataclasses.replace(made, node=made.node + 99)

  # What is no decision is a plain step, as in runs.
  own = replay.expected_lengths(far, cycles, coins=2)
  np.testing.assert_array_equal(own, 1)


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


def test_the_check_is_by_cycle_as_the_run_printed_it(cycles):
  accepted, item = np.tile([1, 2, 3], 4), np.repeat([0, 1], 6)
  own = {"verifier": "traversal", "accepted": accepted, "item": item}
  ran = replay.Cycles(**cycles.__dict__ | own)
  # Clustered, two items that agree would leave no error.
  told = report.check(ran, {"traversal": np.full(12, 1.5)})
  assert told == "check: realised - expected = +0.5000 ± 0.2462"


RULE = """
from tv_jax.verifiers import VERIFIERS

def decide(tree, proposal, tokens, q, p, eta):
  rule = VERIFIERS["token_level_loop"]
  return rule.decide(tree, proposal, tokens, q, p, eta)

def broken(tree, proposal, tokens, q, p, eta):
  raise TypeError("two\\nlines")
"""


def run(folder, *arguments):
  test_cycles.write(folder / "a.npz")
  (folder / "mine.py").write_text(RULE)
  return commands.run(*arguments, program="tv_jax.replay", cwd=folder)


def test_the_command_prints_a_table(tmp_path):
  rules = "--verifier=token_level_loop,mine:decide"
  done = run(tmp_path, "a.npz", rules, "--coins=9", "--bound")
  assert done.returncode == 0, done.stderr
  assert "a.npz: 3 cycles of 3 items, without_replacement" in done.stdout
  assert re.search(r"mine:decide .* 9 runs", done.stdout)
  assert re.search(r"token_level_loop .* stop law", done.stdout)
  assert re.search(r"at most .* 100 ", done.stdout)
  assert report.BOUND in done.stdout


@pytest.mark.parametrize(
  ("arguments", "message"),
  quick.shorter(
    [
      (["a.npz", "--verifier=mine:broken"], "2 1): TypeError: two lines"),
      (["b.npz"], "b.npz cannot be read (No such file"),
      ([], "give the files to replay"),
      (["a.npz", "--verifier=oak,"], "verifier 'oak': not one of"),
      (["a.npz", "--verifier=block"], "a.npz: verifier 'block' is defined for"),
      (["a.npz", "--coins=0"], "--coins=0: give 1 or more"),
    ]
  ),
  ids=str,
)
def test_the_command_says_in_a_line_what_is_wrong(tmp_path, arguments, message):
  done = run(tmp_path, *arguments)
  assert done.returncode == 2
  assert done.stdout == ""
  assert done.stderr.startswith("tv_jax.replay: ")
  assert message in done.stderr
  assert done.stderr.count("\n") == 1


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
