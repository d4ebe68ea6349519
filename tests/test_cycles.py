"""Files of cycles: read as written, or refused in one line."""

import io
import json
import zipfile

import numpy as np
import pytest

from tests import bad
from tv_jax import replay
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import files

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
    ({"parents": np.zeros((3, 4, 2), int)}, "it needs widths and most"),
    (
      {
        "parents": np.array([[-1, 0, 0, 1], [-1, 0, 0, 3], [-1, 0, 0, 1]]),
        "widths": np.array([2, 1]),
        "most": np.array(2),
      },
      "node 3: parent 3",
    ),
    ({"proposal": "beam"}, "proposal 'beam': not one of"),
    ({"proposal": "a\33[2J:b"}, r"proposal='a\\x1b\[2J:b': give a name"),
    ({"tokens": np.zeros((3, 5), int)}, r"tokens is int64\[3, 5\]: give integ"),
    ({"tokens": np.zeros((0, 4), int)}, "holds no cycle"),
    (changed("tokens", (1, 1), INVALID), "cycle 1, node 3: a token below"),
    (changed("tokens", (2, 2), 1), "cycle 2, node 2: token 1 is an elder"),
    ({"p": np.full((3, 4, 2), 0.5)}, "q has 5 tokens, and p 2"),
    (changed("q", (1, 1, 2), np.nan), "cycle 1: q after node 1 is no law"),
    ({"accepted": np.array([1, 4, 1])}, "accepted holds 4, at .* 1 to 3"),
    ({"panel": np.array(["block"])}, "expected is missing"),
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


def member(shape, descr="<f4", data=b""):
  """An array's file, of which the header says what is not so."""
  buffer = io.BytesIO()
  header = {"descr": descr, "fortran_order": False, "shape": shape}
  np.lib.format.write_array_header_1_0(buffer, header)
  return buffer.getvalue() + data


@pytest.mark.parametrize(
  ("data", "message"),
  [
    (b"not an array", "'q' cannot be read .the magic string is not correct"),
    (member((10**18, 10**18)), "its header says .* and 0 bytes"),
    (member((-1, -4), data=b"0" * 16), r"its header says \[-1, -4\]"),
    (member((10**15,), "<U0"), "its header says .* of <U0"),
  ],
)
def test_a_member_that_is_no_array(tmp_path, data, message):
  path = write(tmp_path / "a.npz", q=None)
  with zipfile.ZipFile(path, "a") as file:
    file.writestr("q.npy", data)
  refused(path, message)


def test_what_would_not_fit_is_not_read(tmp_path, monkeypatch):
  """A few compressed bytes may ask for all memory that there is."""
  path = tmp_path / "a.npz"
  zeros = np.zeros((3, 4, 1 << 18), np.float32)
  np.savez_compressed(path, **arrays() | {"q": zeros, "p": zeros})
  assert path.stat().st_size < zeros.nbytes / 50
  monkeypatch.setattr(files.memory, "host", lambda: 4 * zeros.nbytes)
  read = []
  monkeypatch.setattr(np.lib.format, "read_array", read.append)
  refused(path, "its arrays need")
  assert not read


def test_what_is_no_file_is_refused(tmp_path):
  refused(tmp_path / "b.npz", r"b\.npz cannot be read .No such file")
  refused(tmp_path, "Is a directory")
  (tmp_path / "a.txt").write_text(json.dumps({"tokens": [1]}))
  refused(tmp_path / "a.txt", r"a\.txt: no \.npz file")
  np.save(tmp_path / "a.npy", np.zeros(3))
  refused(tmp_path / "a.npy", "a single array")
