"""The comparison with transformers on a GPU, at a toy's shape on a CPU."""

import re

import pytest

from tests import commands

pytestmark = pytest.mark.parity


def test_milliseconds_of_one_row_and_of_several():
  done = commands.run("--toy", program="benchmarks.gpu_transformers")
  assert done.returncode == 0, done.stderr
  found = re.findall(r"plain, (\d+) rows: ([\d.]+) ms", done.stdout)
  assert [int(rows) for rows, _ in found] == [1, 16]
  assert all(float(each) > 0 for _, each in found)


def test_help_says_how_it_is_used():
  done = commands.run("--help", program="benchmarks.gpu_transformers")
  assert done.returncode == 0, done.stderr
  assert "python -m benchmarks.gpu_transformers" in done.stdout


def test_what_it_cannot_do_is_said():
  done = commands.run(program="benchmarks.gpu_transformers")
  assert done.returncode == 2
  assert "sees no GPU" in done.stderr
  done = commands.run("--toys", program="benchmarks.gpu_transformers")
  assert done.returncode == 2
  assert "--toys" in done.stderr
