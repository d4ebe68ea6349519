"""Files of cycles, read or refused, and the evaluation of rules on them."""

import dataclasses
import re

import jax
import numpy as np
import pytest

from tests.lib import bad, commands
from tv_jax import replay
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import comparison, lengths
from tv_jax.verifiers import VERIFIERS

TREE = tree_lib.from_parents([-1, 0, 0, 1])
V = 5


def arrays(count=3, seed=0, rows=4):
  """Returns arrays as another program would write them."""
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


def test_saved_cycles_are_read(tmp_path):
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
    meta={"complete": True},
  )
  path = tmp_path / "a.npz"
  replay.save(path, own)
  read = replay.load(path)
  for name in ("q", "p", "item", "cycle", "accepted"):
    np.testing.assert_array_equal(getattr(read, name), getattr(own, name))
  np.testing.assert_array_equal(read.tokens[:, 1:], own.tokens[:, 1:])
  for name in ("tree", "proposal", "verifier", "temperature", "meta"):
    assert getattr(read, name) == getattr(own, name)


def changed(name, place, value):
  array = arrays()[name].copy()
  array[place] = value
  return {name: array}


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"q": None, "parents": None}, "has no parents and no q"),
    ({"parents": np.array([-1, 0, 5, 1])}, "node 2 has parent 5"),
    ({"tokens": np.zeros((3, 5), int)}, r"tokens is int64\[3, 5\]: give num"),
    (changed("tokens", (1, 1), INVALID), "cycle 1, node 3 has token"),
    (changed("tokens", (2, 2), 1), "cycle 2, node 2: .* an elder sibling's"),
    (changed("q", (1, 1, 2), np.nan), r"cycle 1, q\[1\] sums to nan"),
    ({"accepted": np.array([1, 4, 1])}, "accepted: a cycle .* gains 1 to 3"),
  ],
  ids=str,
)
def test_a_bad_file_is_refused(tmp_path, changes, message):
  path = write(tmp_path / "a.npz", **changes)
  with pytest.raises(ValueError, match=message) as raised:
    replay.load(path)
  bad.one_line(raised, str(path))


def test_a_file_that_is_cut_short_is_refused(tmp_path):
  path = write(tmp_path / "a.npz")
  path.write_bytes(path.read_bytes()[:-20])
  with pytest.raises(ValueError, match=r"no .npz file, or cut short"):
    replay.load(path)


# Any rule on them, and the command.

BARE = VERIFIERS["token_level_reference"]


@pytest.fixture
def cycles(tmp_path):
  content = arrays(count=12, seed=1)
  # Every cycle has another item, except the last two.
  content["item"] = np.array([*range(11), 10])
  content["tokens"] = np.tile(content["tokens"], (4, 1))
  return replay.load(write(tmp_path / "a.npz", **content))


def test_lengths_are_those_of_the_rule(cycles, monkeypatch):
  stopping = jax.jit(VERIFIERS["traversal"].stopping)
  wanted = [
    stopping(cycles.draft(cycle)) @ (cycles.tree.depth + 1).astype(np.float32)
    for cycle in range(len(cycles))
  ]
  done = []
  monkeypatch.setattr(lengths, "CHUNK", 5)  # and a last one of 2
  own = replay.expected_lengths(
    "traversal", cycles, progress=lambda *told: done.append(told)
  )
  np.testing.assert_allclose(own, wanted, rtol=1e-6)
  assert done == [("traversal", count, 12) for count in (5, 10, 12)]


def test_a_rule_without_a_stopping_distribution_is_run(cycles):
  wanted = replay.expected_lengths("token_level", cycles)
  runs = 400
  own = replay.expected_lengths(BARE, cycles, coins=runs)
  assert (own != wanted).any()
  # A length is within [1, 3]: its deviation is at most 1.
  assert (abs(own - wanted) < 5 / runs**0.5).all()

  def far(draft, eta):
    made = BARE.decide(draft, eta)
    return dataclasses.replace(made, node=made.node + 99)

  # Plain decoding makes no decision: a plain step, as in runs.
  own = replay.expected_lengths(far, cycles, coins=2)
  np.testing.assert_array_equal(own, 1)


def test_rules_are_paired_with_the_one_that_ran(cycles):
  accepted, item = np.tile([1, 2, 3], 4), np.repeat([0, 1], 6)
  ran = dataclasses.replace(
    cycles,
    verifier="traversal",
    accepted=accepted,
    item=item,
  )
  found = {"block": np.full(12, 1.5), "traversal": np.full(12, 2.002)}
  table = comparison.table(ran, found, dict.fromkeys(found, "stopping"))
  assert [*table["minus traversal"]] == ["-0.5020 ± 0.0000", "\u2013"]
  # Clustered, two items that agree would leave no error.
  told = comparison.check_line(ran, {"traversal": np.full(12, 1.5)})
  assert told == "check: realised - expected = +0.5000 ± 0.2462"


RULE = """
from tv_jax.verifiers import VERIFIERS

def decide(draft, eta):
  return VERIFIERS["token_level"].decide(draft, eta)
"""


def run(folder, *arguments):
  write(folder / "a.npz")
  (folder / "mine.py").write_text(RULE)
  return commands.run(*arguments, program="tv_jax.replay", cwd=folder)


def test_the_command_prints_a_table(tmp_path):
  rules = "--verifiers=token_level,mine:decide"
  done = run(tmp_path, "a.npz", rules, "--coins=9")
  assert done.returncode == 0, done.stderr
  assert "a.npz: 3 cycles of 3 items, without_replacement" in done.stdout
  assert re.search(r"mine:decide .* 9 runs", done.stdout)
  assert re.search(r"token_level .* stopping", done.stdout)


def test_the_command_says_in_a_line_what_is_wrong(tmp_path):
  done = run(tmp_path, "a.npz", "--verifiers=block")
  assert done.returncode == 2
  message = "tv_jax.replay: a.npz: verifier 'block' is defined for"
  assert done.stderr.startswith(message)
  assert done.stderr.count("\n") == 1
