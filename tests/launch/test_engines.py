"""Two runs by every engine, through kills: the same bytes as in one process.

Ray and SLURM run on this machine, with simulated GPUs.
"""

import os
import signal

import pytest

from launch import on_slurm
from launch.units import Unit
from tests.lib import slurm
from tests.lib.commands import ended, run, start, until

pytestmark = pytest.mark.long

# A model pair that is loaded fast, a tree that is compiled fast.
SMALL = (
  "--config=smoke",
  "--config.tasks=qa",
  "--config.per_task=2",
  "--config.trees=chain:2",
  "--config.max_new_tokens=16",
  "--config.batch_size=1",
  "--config.seeds=0,1",
)
SWEEP = ("--experiments=quality", *SMALL)
COUNT = 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """The folder of a single process that did all runs."""
  folder = tmp_path_factory.mktemp("whole")
  made = run("quality", *SMALL, f"--workdir={folder}", program="experiments")
  assert made.returncode == 0, made.stderr
  return folder


def units(folder):
  return sorted((folder / "quality" / "smoke").glob("seed-*"))


def done(folder):
  return [unit for unit in units(folder) if (unit / "DONE").exists()]


def same(folder, whole):
  """Asserts that all units are done, with the same bytes."""
  assert len(units(folder)) == len(done(folder)) == COUNT
  for unit in units(folder):  # in order of arrival
    theirs = whole / unit.relative_to(folder)
    for name in ("config.json", "items.jsonl"):
      ours = (unit / name).read_bytes().splitlines()
      assert sorted(ours) == sorted((theirs / name).read_bytes().splitlines())
  for end in ("md", "tex", "csv"):
    table = f"quality/quality.{end}"
    assert (folder / table).read_bytes() == (whole / table).read_bytes()


def writing(folder, before=None):
  """Waits for an unfinished run with answers; returns its process."""

  def look():
    for unit in units(folder):
      items = unit / "items.jsonl"
      if not (unit / "DONE").exists() and items.stat().st_size:
        pid = int((unit / "lock").read_text().split()[1])
        if pid != before:
          return pid
    return None

  return until(look)


def test_here(tmp_path, whole):
  sweep = (*SWEEP, f"--workdir={tmp_path}")
  process = start(*sweep, program="launch")
  first = writing(tmp_path)
  os.kill(first, signal.SIGKILL)
  killed = ended(process)  # the other unit goes on without it
  assert killed.returncode == 1
  assert "FAILED: quality/smoke/seed-0: stopped" in killed.stderr
  assert len(done(tmp_path)) == COUNT - 1
  process = start(*sweep, program="launch")
  writing(tmp_path, first)
  process.send_signal(signal.SIGTERM)
  assert ended(process).returncode
  status = run(*sweep, "--backend=status", program="launch")
  assert status.returncode == 1
  assert "quality/smoke/seed-0: stopped, " in status.stdout
  assert "quality/smoke/seed-1: done, 6 of 6 answers" in status.stdout
  last = run(*sweep, program="launch")
  assert last.returncode == 0, last.stderr
  assert "1 of 2 units are done" in last.stdout
  same(tmp_path, whole)


@pytest.mark.ray
def test_ray(tmp_path, whole):
  more = "--backend=ray", "--gpus=1", "--gpus_per_unit=1"
  process = start(*SWEEP, f"--workdir={tmp_path}", *more, program="launch")
  first = writing(tmp_path)
  os.kill(first, signal.SIGKILL)  # Ray starts it again
  writing(tmp_path, first)
  last = ended(process)
  assert last.returncode == 0, last.stdout + last.stderr
  same(tmp_path, whole)


@pytest.mark.slurm
def test_an_array_runs_at_once_and_the_next_one_after_it(tmp_path):
  """`singleton` makes submissions wait, but not the elements of one."""
  meet = 'touch "$0-$1"; until test -e "$0-$2"; do sleep 0.1; done'
  late = 'test -e "$0-0" -a -e "$0-1" && touch "$0-$1"'

  def unit(program, *numbers):
    command = ("bash", "-c", program, str(tmp_path / "ran"), *numbers)
    folder = tmp_path / numbers[0]
    return Unit(numbers[0], command, None, folder, 0)

  with slurm.running(tmp_path / "cluster"):
    for sweep in (
      (unit(meet, "0", "1"), unit(meet, "1", "0")),
      (unit(late, "2"),),
    ):
      jobs = on_slurm.jobs(sweep, tmp_path, ["true"], None, "")
      on_slurm.submit(jobs, sweep, tmp_path)
    until(lambda: not slurm.asked("squeue"))
  assert [x.name for x in sorted(tmp_path.glob("ran-*"))] == [
    *("ran-0", "ran-1", "ran-2"),
  ]


@pytest.mark.slurm
def test_slurm(tmp_path, whole, monkeypatch):
  folder = tmp_path / "runs, 100% of 'em"
  monkeypatch.setenv("JAX_PLATFORMS", "cpu")
  sweep = (*SWEEP, f"--workdir={folder}", "--backend=slurm")
  with slurm.running(tmp_path / "cluster"):

    def submit():
      done = run(*sweep, "--gpus_per_unit=1", program="launch")
      assert done.returncode == 0, done.stderr
      assert done.stdout.count("Submitted batch job") == 2

    submit()
    os.kill(writing(folder), signal.SIGKILL)
    submit()  # goes on once the units and tables before it have ended
    until(lambda: not slurm.asked("squeue"))
  same(folder, whole)
