"""Published samplers get their true verdicts, by adapters of ours."""

import pathlib
import sys
from unittest import mock

import pytest

from examples import published
from examples.published import __main__ as command
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


@pytest.mark.parity
def test_transformers_is_lossless_but_for_a_coin_of_0():
  from examples.published import hugging_face

  plain, ensemble = (
    command.row(hugging_face, setting) for setting in hugging_face.PROGRAMS
  )
  assert "| lossless, but for a coin that is exactly 0 |" in plain
  assert "| not lossless |" in ensemble
