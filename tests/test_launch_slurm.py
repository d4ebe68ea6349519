"""What SLURM is told, and when; of stand-ins, and of a real one."""

import re

import pytest

from launch import sweep as sweep_lib
from tests import slurm
from tests.commands import run
from tests.test_launch import until

THREE = (
  "--experiment=quality",
  "--config=smoke",
  "--config.seeds=0,1,2",
  "--backend=slurm",
)
# sbatch keeps its arguments, squeue shows a file.
COMMANDS = {
  "sbatch": 'id=$(($(ls | grep -c ^job) + 1)); printf "%s\\n" "$@" > job$id; '
  "echo $id",
  "squeue": "cat queue",
  "scontrol": "echo MaxArraySize = 1001",
  "scancel": 'echo "$@" >> cancelled',
}


@pytest.fixture
def place(tmp_path, monkeypatch):
  """SLURM's commands, and where they keep what they are told."""
  place, programs = tmp_path / "place", tmp_path / "programs"
  place.mkdir()
  programs.mkdir()
  (place / "queue").touch()
  for name, body in COMMANDS.items():
    program = programs / name
    program.write_text(f"#!/bin/sh\ncd '{place}'\n{body}\n")
    program.chmod(0o755)
  monkeypatch.setenv("PATH", str(programs), prepend=":")
  return place


def submit(folder, *more):
  """What is said of a sweep of three."""
  done = run(*THREE, f"--workdir={folder}", *more, program="launch")
  assert done.returncode == 0, done.stderr
  return done.stdout


def told(place, job):
  """The arguments of sbatch."""
  return (place / f"job{job}").read_text().splitlines()


def test_a_record_is_of_who_holds_it_and_in_its_last_form(tmp_path, place):
  """An element that starts meanwhile must not see the live config."""
  folder = tmp_path / "runs"
  submit(folder)
  (sweep,) = sweep_lib.read_all(folder)
  paths = [sweep.folder / name for name in (sweep_lib.UNITS, sweep_lib.TOLD)]
  record = [path.read_bytes() for path in paths]
  config = sweep.folder / "configs" / "smoke.py"
  assert {unit.config for unit in sweep.units} == {str(config)}

  with sweep_lib.held(sweep):
    again = f"--workdir={folder}", "--retries=7"
    done = run(*THREE, *again, program="launch")
  assert done.returncode == 2
  assert "is being written by process" in done.stderr
  assert [path.read_bytes() for path in paths] == record


def test_tables_wait_for_all_that_are_queued(tmp_path, place):
  folder = tmp_path / "runs"
  submit(folder)
  assert "--array=0,1,2" in told(place, 1)
  assert "--dependency=afterany:1" in told(place, 2)
  # One has crashed: it is submitted again, and the tables after all.
  (place / "queue").write_text("1 0 RUNNING\n1 1 PENDING\n2 N/A PENDING\n")
  said = submit(folder)
  assert "job 3: 1 units" in said
  assert "--array=2" in told(place, 3)
  assert "--dependency=afterany:1:3" in told(place, 4)
  assert (place / "cancelled").read_text() == "--state=PENDING 2\n"
  # Nothing is new, and tables wait already.
  there = "1 1 PENDING\n1 0 RUNNING\n3 2 RUNNING\n4 N/A PENDING\n"
  (place / "queue").write_text(there)
  assert not re.search("^job", submit(folder, "--retries=1"), re.M)
  # Tables that are being made are not disturbed, and made anew after them.
  (place / "queue").write_text("1 0 PENDING\n4 N/A RUNNING\n")
  submit(folder)
  assert "--array=1,2" in told(place, 5)
  assert "--dependency=afterany:1:4:5" in told(place, 6)
  assert (place / "cancelled").read_text().count("\n") == 1


@pytest.mark.long
@pytest.mark.slurm
def test_paths_and_options_may_have_spaces(tmp_path):
  """Of a real one, which would read them in its own way."""
  here = tmp_path / "my 'own' #1"
  here.mkdir()
  folder = here / "runs, 100%A of 'em"
  more = '--comment="two words" -J its-name'
  with slurm.running(tmp_path / "cluster"):
    # The config of a unit that ends at once, with a reason.
    wrong = ("--config.models.target=/no/where", f"--sbatch={more}")
    submit(folder, "--smoke", *wrong, "--gpus-per-unit=0")
    shown = slurm.asked("scontrol", "show", "job", "1")
    until(lambda: not slurm.asked("squeue"), 120)
  assert "Comment=two words" in shown
  assert "JobName=its-name" in shown
  (sweep,) = sweep_lib.read_all(folder)
  (unit,) = sweep.units
  assert "/no/where is neither a directory" in unit.last_words
  (out,) = sweep.folder.glob("unit-*_0.out")
  assert "FAILED (status 2" in out.read_text()
  assert (sweep.folder / "tables.out").exists()
