"""Experiments as they are run: commands, and a kill."""

import signal
import time

import pytest

from experiments import names
from tests.commands import run, start

# Two shards of two questions: one temperature each, by the same programs.
SMALL = (
  "temperature",
  "--smoke",
  "--config=configs/smoke.py",
  "--config.trees=chain:2",
)


def contents(folder):
  """What is the same to the byte wherever and whenever it was run."""
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob("*"))
    if path.is_file() and path.name not in ("env.json", "lock")
  }


def test_a_field_that_the_experiment_sets_is_refused():
  done = run("depth", "--config.trees=eagle", program="experiments")
  assert done.returncode
  assert "is set by the experiment itself" in done.stderr


@pytest.mark.long
def test_a_kill_in_the_middle_changes_no_byte(tmp_path):
  whole, killed = tmp_path / "whole", tmp_path / "killed"
  done = run(*SMALL, f"--workdir={whole}", program="experiments")
  assert done.returncode == 0, done.stderr
  command = *SMALL, f"--workdir={killed}"
  second = killed / "temperature" / "smoke" / "temperature-1" / "items.jsonl"
  process = start(*command, program="experiments")
  while not (second.exists() and second.stat().st_size):
    assert process.poll() is None
    time.sleep(0.01)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  assert not any(name.endswith(".md") for name in contents(killed))
  done = run(*command, program="experiments")
  assert done.returncode == 0, done.stderr
  assert contents(killed) == contents(whole)
  files = {path.name for path in (whole / "temperature").iterdir()}
  assert files == {
    "smoke",
    *(f"temperature.{end}" for end in ("md", "tex", "csv")),
    "temperature-smoke.svg",
    "temperature-gain-smoke.svg",
  }
  again = run(*command, program="experiments")
  assert "answers are all there" in again.stderr
  assert contents(killed) == contents(whole)


@pytest.mark.long
def test_a_page_says_what_was_not_run(tmp_path):
  """SMOKE=1 make experiments, in .ci/run, makes one of all."""
  page = tmp_path / "results.md"
  flags = f"--workdir={tmp_path / 'nothing'}", f"--out={page}"
  done = run(*flags, program="experiments.results")
  assert done.returncode == 0, done.stderr
  wanting = [name for name in names.NAMES if names.find(name).configs]
  assert page.read_text().count("Not run.") == len(wanting) > 5
