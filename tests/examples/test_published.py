"""Published samplers get their true verdicts, by adapters of ours."""

import pathlib
import sys
from unittest import mock

import pytest

from examples import published
from tests.lib import commands


def test_every_adapter_is_in_the_table():
  folder = pathlib.Path(published.__path__[0])
  files = {file.stem for file in folder.glob("*.py")}
  assert files - {"__init__", "__main__"} == {*published.NAMES}


def test_a_missing_checkout_is_named(tmp_path):
  done = commands.run(
    f"--checkouts={tmp_path}", "sglang_jax", program="examples.published"
  )
  assert done.returncode == 0, done.stderr
  assert "no checkout sglang-jax of sgl-project/sglang-jax: give" in done.stdout


def test_a_package_that_is_missing_becomes_a_mock(tmp_path):
  file = tmp_path / "mine.py"
  file.write_text("from no_such_package.part import name\nfound = 1\n")
  with mock.patch.dict(sys.modules):
    assert published.load(file, "mine").found == 1


def verdicts(name):
  """The verdict on each of an adapter's programs, from the command's rows."""
  done = commands.run(name, program="examples.published")
  assert done.returncode == 0, done.stderr
  rows = [row.split(" | ") for row in done.stdout.splitlines()]
  return {row[0].partition("), ")[2]: row[4] for row in rows[2:]}


LOSSLESS, LOSSY = "lossless, but for a coin that is exactly 0", "not lossless"


@pytest.mark.parity
@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("hugging_face", {"": LOSSLESS, "ensemble weight 0.9": LOSSY}),
    pytest.param("assisted", {"": LOSSLESS}, marks=pytest.mark.long),
  ],
)
def test_transformers(name, expected):
  """Its ensemble with the draft is lossy by design."""
  assert verdicts(name) == expected


@pytest.mark.published
@pytest.mark.long
def test_tpu_inference():
  assert verdicts("tpu_inference") == {
    "temperature 1": LOSSLESS,
    "temperature 2": LOSSLESS,
    "temperature 2 and top-p": LOSSY,
    "a greedy request": LOSSY,
  }
