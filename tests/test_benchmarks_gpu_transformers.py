"""The comparison with transformers on a GPU, at a toy's shape on a CPU."""

import re

import pytest

from benchmarks import gpu_transformers
from tests import commands


@pytest.mark.parity
def test_milliseconds_of_one_row_and_of_several():
  done = commands.run("--toy", program="benchmarks.gpu_transformers")
  assert done.returncode == 0, done.stderr
  found = re.findall(r"plain, (\d+) rows: ([\d.]+) ms", done.stdout)
  assert [int(rows) for rows, _ in found] == [1, 16]
  assert all(float(each) > 0 for _, each in found)


def test_without_pytorch_it_says_what_it_needs(monkeypatch, capsys):
  monkeypatch.setattr(gpu_transformers, "THERE", False)
  assert gpu_transformers.main(["--toy"]) == 2
  assert "PyTorch" in capsys.readouterr().err


def test_help_says_how_it_is_used():
  done = commands.run("--help", program="benchmarks.gpu_transformers")
  assert done.returncode == 0, done.stderr
  assert "python -m benchmarks.gpu_transformers" in done.stdout


@pytest.mark.parity
def test_what_it_cannot_do_is_said():
  done = commands.run(program="benchmarks.gpu_transformers")
  assert done.returncode == 2
  assert "sees no GPU" in done.stderr
  done = commands.run("--toys", program="benchmarks.gpu_transformers")
  assert done.returncode == 2
  assert "--toys" in done.stderr
