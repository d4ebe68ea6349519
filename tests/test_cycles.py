import json

import numpy as np
import pytest

from tests import bad
from tv_jax import replay
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS

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


def test_what_is_saved_is_read(tmp_path):
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
  replay.save(tmp_path / "a.npz", own)
  read = replay.load(tmp_path / "a.npz")
  for name in ("q", "p", "item", "cycle", "accepted"):
    np.testing.assert_array_equal(getattr(read, name), getattr(own, name))
  np.testing.assert_array_equal(read.tokens[:, 1:], own.tokens[:, 1:])
  assert read.expected["traversal"].tolist() == [1.5, 2, 2.5]
  for name in ("tree", "proposal", "verifier", "temperature", "meta"):
    assert getattr(read, name) == getattr(own, name)
  assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]


def test_a_failed_write_leaves_the_file_before(tmp_path):
  path = tmp_path / "a.npz"
  own = replay.load(write(path))
  before = path.read_bytes()
  own.meta["bad"] = object()
  with pytest.raises(TypeError):
    replay.save(path, own)
  assert path.read_bytes() == before
  assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]


def changed(name, place, value):
  array = arrays()[name].copy()
  array[place] = value
  return {name: array}


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"q": None, "parents": None}, "holds no 'parents', 'q'"),
    ({"parents": np.array([-1, 0, 5, 1])}, "node 2 has parent 5"),
    ({"parents": np.array(TREE.parents, float)}, "'parents' is of float64"),
    ({"proposal": "beam"}, "proposal 'beam': not one of"),
    ({"tokens": np.zeros((3, 5), int)}, r"'tokens' is \[3, 5\]"),
    ({"tokens": np.zeros((0, 4), int)}, "holds no cycle"),
    ({"q": np.zeros((3, 3, V))}, r"'q' is \[3, 3, 5\]: it should be \[3, 4"),
    ({"p": np.zeros((3, 4, V), int)}, "'p' is of int64: give floats"),
    ({"p": np.full((3, 4, 2), 0.5)}, "q has 5 tokens, and p 2"),
    ({"p": np.zeros((3, 4, V))}, "cycle 0: p after node 0 is no law"),
    (changed("q", (1, 1, 2), np.nan), "cycle 1: q after node 1 is no law"),
    (changed("q", (2, 0, 1), -0.1), "cycle 2: q after node 0 is no law"),
    (changed("tokens", (1, 1), V), "cycle 1, node 1: token 5; tokens are 0"),
    (changed("tokens", (1, 1), -2), "cycle 1, node 1: token -2"),
    (changed("tokens", (1, 1), INVALID), "cycle 1, node 3: a token below"),
    (changed("tokens", (2, 2), 1), "cycle 2, node 2: token 1 is an elder"),
    ({"item": np.zeros(2, int)}, r"'item' is \[2\]: it should be \[3\]"),
    ({"accepted": np.array(["a"] * 3)}, "'accepted' is of <U1"),
    ({"panel": np.array(["block"])}, r"'expected' is not \[1, 3\]"),
    ({"meta": "[1]"}, "'meta' is no JSON object"),
    ({"meta": "[" * 100_000}, "'meta' is no JSON object"),
    ({"tokens": np.array([None] * 3)}, "allow_pickle"),
  ],
  ids=str,
)
def test_a_bad_file_is_refused(tmp_path, changes, message):
  path = write(tmp_path / "a.npz", **changes)
  with pytest.raises(ValueError, match=message) as raised:
    replay.load(path)
  assert str(raised.value).startswith(f"{path}: ")
  assert "\n" not in str(raised.value)


def test_what_cannot_be_drawn_needs_no_laws(tmp_path):
  content = changed("q", (1, 1), np.nan)
  content |= changed("tokens", (1, slice(1, 4, 2)), INVALID)
  assert len(replay.load(write(tmp_path / "a.npz", **content))) == 3


def test_twins_may_be_drawn_with_replacement(tmp_path):
  content = changed("tokens", (2, 2), 1) | {"proposal": "with_replacement"}
  assert len(replay.load(write(tmp_path / "a.npz", **content))) == 3


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_file_cut_short_is_refused(tmp_path, share):
  path = write(tmp_path / "a.npz")
  whole = path.read_bytes()
  path.write_bytes(whole[: int(len(whole) * share)])
  with pytest.raises(ValueError, match=r"a\.npz: no \.npz file, or cut short"):
    replay.load(path)


def test_a_damaged_file_is_refused(tmp_path):
  path = write(tmp_path / "a.npz")
  whole = bytearray(path.read_bytes())
  for place in range(100, len(whole) - 300, 97):
    whole[place] ^= 0xFF
  path.write_bytes(whole)
  with pytest.raises(ValueError, match=r"a\.npz: "):
    replay.load(path)


def test_what_is_no_file_is_refused(tmp_path):
  with pytest.raises(ValueError, match=r"b\.npz: No such file or directory"):
    replay.load(tmp_path / "b.npz")
  with pytest.raises(ValueError, match="Is a directory"):
    replay.load(tmp_path)
  (tmp_path / "a.txt").write_text(json.dumps({"tokens": [1]}))
  with pytest.raises(ValueError, match=r"a\.txt: no \.npz file"):
    replay.load(tmp_path / "a.txt")
  np.save(tmp_path / "a.npy", np.zeros(3))
  with pytest.raises(ValueError, match="a single array"):
    replay.load(tmp_path / "a.npy")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_no_file(tmp_path, kind):
  bad.place(tmp_path / "a.npz", kind)
  with pytest.raises(ValueError, match=r"a\.npz: a pipe or a device"):
    replay.load(tmp_path / "a.npz")
