"""Files of cycles, read or refused; any rule on them; the command."""

import dataclasses
import json
import pathlib
import re

import jax
import numpy as np
import pytest

from tests import bad, commands, quick
from tv_jax import replay
from tv_jax import tree as tree_lib
from tv_jax.drafting import spread
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import lengths, report
from tv_jax.verifiers import VERIFIERS

TREE = tree_lib.from_parents([-1, 0, 0, 1])
V = 5


def arrays(count=3, seed=0, rows=4):
  """What another program would write."""
  rng = np.random.default_rng(seed)
  q, p = rng.dirichlet(np.ones(V), (2, count, rows)).astype(np.float32)
  return {
    "parents": np.array(TREE.parents),
    "proposal": "without_replacement",
    "tokens": np.array([[99, 0, 3, 4], [0, 2, INVALID, 1], [0, 1, 2, 1]]),
    "q": q,
    "p": p,
  }


def write(path, **changes):
  content = arrays() | changes
  np.savez(path, **{k: v for k, v in content.items() if v is not None})
  return path


def test_another_programs_file_is_read(tmp_path):
  content = arrays()
  cycles = replay.load(write(tmp_path / "a.npz"))
  assert (cycles.tree, len(cycles)) == (TREE, 3)
  np.testing.assert_array_equal(cycles.q, content["q"][:, TREE.inner])
  np.testing.assert_array_equal(cycles.p, content["p"][:, TREE.inner])
  np.testing.assert_array_equal(cycles.tokens[:, 1:], content["tokens"][:, 1:])
  assert cycles.item.tolist() == [0, 1, 2]
  assert cycles.verifier is cycles.temperature is cycles.accepted is None


def test_what_is_saved_is_read_and_a_failed_write_changes_nothing(tmp_path):
  content = arrays(rows=2)
  own = replay.Cycles(
    tree=TREE,
    proposal=PROPOSALS["without_replacement"],
    tokens=content["tokens"].astype(np.int32),
    q=content["q"],
    p=content["p"],
    item=np.array([4, 4, 2]),
    cycle=np.array([0, 1, 0]),
    verifier="traversal",
    temperature=0.5,
    accepted=np.array([1, 2, 3]),
    expected={"traversal": np.array([1.5, 2, 2.5], np.float32)},
    meta={"complete": True},
  )
  path = tmp_path / "a.npz"
  replay.save(path, own)
  read = replay.load(path)
  for name in ("q", "p", "item", "cycle", "accepted"):
    np.testing.assert_array_equal(getattr(read, name), getattr(own, name))
  np.testing.assert_array_equal(read.tokens[:, 1:], own.tokens[:, 1:])
  assert read.expected["traversal"].tolist() == [1.5, 2, 2.5]
  for name in ("tree", "proposal", "verifier", "temperature", "meta"):
    assert getattr(read, name) == getattr(own, name)
  before = path.read_bytes()
  own.meta["bad"] = object()
  with pytest.raises(TypeError):
    replay.save(path, own)
  assert path.read_bytes() == before


def changed(name, place, value):
  array = arrays()[name].copy()
  array[place] = value
  return {name: array}


def refused(path, message):
  with pytest.raises(ValueError, match=message) as raised:
    replay.load(path)
  bad.one_line(raised, str(path))


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"q": None, "parents": None}, "parents is missing; q is missing"),
    ({"parents": np.array([-1, 0, 5, 1])}, "node 2 has parent 5"),
    (
      {
        "parents": np.array([[-1, 0, 0, 1], [-1, 0, 0, 3], [-1, 0, 0, 1]]),
        "widths": np.array([2, 1]),
        "most": np.array(2),
      },
      "node 3: parent 3",
    ),
    ({"proposal": "a\33[2J:b"}, r"proposal='a\\x1b\[2J:b': give a name"),
    ({"tokens": np.zeros((3, 5), int)}, r"tokens is int64\[3, 5\]: give integ"),
    (changed("tokens", (1, 1), INVALID), "cycle 1, node 3: a token below"),
    (changed("tokens", (2, 2), 1), "cycle 2, node 2: token 1 is an elder"),
    (changed("q", (1, 1, 2), np.nan), "cycle 1: q after node 1 is no law"),
    ({"accepted": np.array([1, 4, 1])}, "accepted holds 4, at .* 1 to 3"),
    (
      {"panel": np.array(["a"]), "expected": np.array([[1, 0, 1.0]])},
      r"expected holds 0, at \[0, 1\]: a cycle of this tree",
    ),
  ],
  ids=str,
)
def test_a_bad_file_is_refused(tmp_path, changes, message):
  refused(write(tmp_path / "a.npz", **changes), message)


def cut(share):
  return lambda whole: whole[: int(len(whole) * share)]


def flipped(whole):
  for place in range(100, len(whole) - 300, 97):
    whole[place] ^= 0xFF
  return whole


@pytest.mark.parametrize("spoil", [cut(0), cut(0.99), flipped])
def test_a_damaged_file_is_refused(tmp_path, spoil):
  path = write(tmp_path / "a.npz")
  path.write_bytes(spoil(bytearray(path.read_bytes())))
  message = "a.npz: " if spoil is flipped else "no .npz file, or cut short"
  refused(path, message)


def test_what_is_no_file_is_refused(tmp_path):
  refused(tmp_path / "b.npz", r"b\.npz cannot be read .No such file")
  refused(tmp_path, "Is a directory")
  (tmp_path / "a.txt").write_text(json.dumps({"tokens": [1]}))
  refused(tmp_path / "a.txt", r"a\.txt: no \.npz file")
  np.save(tmp_path / "a.npy", np.zeros(3))
  refused(tmp_path / "a.npy", "a single array")


DOCS = pathlib.Path(__file__).parents[1] / "docs" / "replay.md"
BARE = VERIFIERS["token_level_reference"]


@pytest.fixture
def cycles(tmp_path):
  content = arrays(count=12, seed=1)
  # Each cycle of its own item but the last two.
  content["item"] = np.array([*range(11), 10])
  content["tokens"] = np.tile(content["tokens"], (4, 1))
  return replay.load(write(tmp_path / "a.npz", **content))


def test_lengths_are_those_of_the_rule(cycles, monkeypatch):
  law = jax.jit(VERIFIERS["traversal"].stop_law, static_argnums=(0, 1))
  proposal = PROPOSALS["without_replacement"]
  wanted = [
    law(cycles.tree, proposal, tokens, *(spread(cycles.tree, x) for x in laws))
    @ (cycles.tree.depth + 1).astype(np.float32)
    for tokens, *laws in zip(cycles.tokens, cycles.q, cycles.p, strict=True)
  ]
  done = []
  monkeypatch.setattr(lengths, "CHUNK", 5)  # and a last one of 2
  own = replay.expected_lengths("traversal", cycles, tick=done.append)
  np.testing.assert_allclose(own, wanted, rtol=1e-6)
  assert done == [5, 5, 2]


def test_a_rule_without_a_stop_law_is_run(cycles):
  wanted = replay.expected_lengths("token_level", cycles)
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
  rule = VERIFIERS["token_level"]
  return rule.decide(tree, proposal, tokens, q, p, eta)

def broken(tree, proposal, tokens, q, p, eta):
  raise TypeError("two\\nlines")
"""


def run(folder, *arguments):
  write(folder / "a.npz")
  (folder / "mine.py").write_text(RULE)
  return commands.run(*arguments, program="tv_jax.replay", cwd=folder)


def test_the_command_prints_a_table(tmp_path):
  rules = "--verifiers=token_level,mine:decide"
  done = run(tmp_path, "a.npz", rules, "--coins=9", "--bound")
  assert done.returncode == 0, done.stderr
  assert "a.npz: 3 cycles of 3 items, without_replacement" in done.stdout
  assert re.search(r"mine:decide .* 9 runs", done.stdout)
  assert re.search(r"token_level .* stop law", done.stdout)
  assert re.search(r"at most .* 100 ", done.stdout)
  assert report.BOUND in done.stdout


@pytest.mark.parametrize(
  ("arguments", "message"),
  quick.shorter(
    [
      (["a.npz", "--verifiers=mine:broken"], "2 1): TypeError: two lines"),
      (["b.npz"], "b.npz cannot be read (No such file"),
      ([], "give the files to replay"),
      (["a.npz", "--verifiers=oak,"], "verifier 'oak': not one of"),
      (
        ["a.npz", "--verifiers=block"],
        "a.npz: verifier 'block' is defined for",
      ),
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
