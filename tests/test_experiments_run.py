"""Experiments as they are run; kills are in tests/test_launch_engines.py."""

import pytest

from experiments import names
from tests.commands import run


def test_a_field_that_the_experiment_sets_is_refused():
  done = run("depth", "--config.trees=eagle", program="experiments")
  assert done.returncode
  assert "is set by the experiment itself" in done.stderr


@pytest.mark.long
def test_a_page_says_what_was_not_run(tmp_path):
  """SMOKE=1 make experiments, in .ci/run, makes one of all."""
  page = tmp_path / "results.md"
  flags = f"--workdir={tmp_path / 'nothing'}", f"--out={page}"
  done = run(*flags, program="experiments.results")
  assert done.returncode == 0, done.stderr
  wanting = [name for name in names.NAMES if names.find(name).configs]
  assert page.read_text().count("Not run.") == len(wanting) > 5
