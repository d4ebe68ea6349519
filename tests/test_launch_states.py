"""How far a sweep is, read from folders alone; its record; the verbs; SLURM."""

import json
import re
import signal
import socket
import subprocess
import sys

import pytest

from launch import on_slurm, slurm, states, task, tries, verbs
from launch import sweep as sweep_lib
from launch.sweep import Sweep, Told
from launch.units import Unit
from tests import slurm as cluster
from tests.commands import run
from tests.test_launch import DEEP, until
from tv_jax.edge import disk


def unit(place, name="one"):
  folder = place / "depth" / "smoke" / name
  folder.mkdir(parents=True)
  return Unit(f"depth/smoke/{name}", "smoke", ("--config.x=1",), folder, "7")


def begun(place, name="one", answers=0, count=""):
  """A unit of which a try begins."""
  own = unit(place, name)
  tries.begin(own.folder, "7", 0, "1")
  (own.folder / "items.jsonl").write_text("{}\n" * answers)
  (own.folder / "COUNT").write_text(f"{count}\n")
  return own


def test_one_that_runs_says_where_and_how_long(tmp_path):
  own = begun(tmp_path, answers=4, count=10)
  found = states.look(own)
  assert found.word == states.RUNNING
  assert found.told.endswith(", CUDA 1")
  assert found.expected == 10
  # A try of an element that waits again is over, whatever its process.
  assert states.look(own, "PENDING").word == states.QUEUED


@pytest.mark.parametrize(
  ("status", "given_up", "word", "told"),
  [
    (2, False, states.FAILED, "tv_jax.main: a reason [in brackets]"),
    (143, False, states.STOPPED, "was told to end"),
    (-9, True, states.FAILED, "status -9: tv_jax.main: a reason [in brackets]"),
    (None, False, states.STOPPED, "was killed"),
  ],
)
def test_one_that_ended_says_how(tmp_path, status, given_up, word, told):
  own = begun(tmp_path, answers=3)
  own.log.write_text("before\ntv_jax.main: a reason [in brackets]\n\n")
  if status is None:  # together with its launcher
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    path = own.folder / tries.FILE
    fields = json.loads(path.read_text()) | {"pid": child.pid}
    path.write_text(json.dumps(fields) + "\n")
  else:
    tries.end(own.folder, status)
  if given_up:
    tries.give_up(own.folder)
  found = states.look(own)
  assert (found.word, found.told) == (word, told)
  tries.begin(own.folder, "7", 0, None)  # the same command, once more
  assert states.look(own).word == states.RUNNING


def test_one_whose_time_is_too_short_has_failed(tmp_path, monkeypatch):
  """SLURM would start it for ever."""
  own = begun(tmp_path)
  tries.end(own.folder, tries.STOPPED)
  sweep = kept(tmp_path, [own])
  for name in ("ARRAY_JOB_ID", "ARRAY_TASK_ID", "RESTART_COUNT"):
    monkeypatch.setenv(f"SLURM_{name}", "2")
  monkeypatch.setattr(slurm, "state", lambda job: "RUNNING")
  assert task.requeued(sweep, own).startswith("FAILED")
  assert states.look(own).word == states.FAILED


def kept(place, units, backend="here"):
  told = Told(("depth",), ("--experiment=depth",), backend, 2)
  sweep = sweep_lib.of(place, units, told)
  sweep.folder.mkdir(parents=True, exist_ok=True)
  sweep_lib.write(sweep)
  return sweep


HOLDS = (
  "import pathlib, sys, time; from launch import sweep; "
  "own = sweep.read(pathlib.Path(sys.argv[1]))\n"
  "with sweep.held(own): print(flush=True); time.sleep(60)"
)


def test_one_launcher_at_a_time_and_cancel_tells_it(
  tmp_path, monkeypatch, capsys
):
  sweep = kept(tmp_path, [unit(tmp_path)])
  assert sweep.holder is None
  assert verbs.cancel(tmp_path) == 0
  command = [sys.executable, "-c", HOLDS, sweep.folder]
  with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    with pytest.raises(disk.StoreError, match="python -m launch cancel"):
      sweep_lib.held(sweep).__enter__()
    assert sweep.holder["pid"] == child.pid
    assert verbs.cancel(tmp_path) == 0
    assert child.wait(30) == -signal.SIGTERM
  elsewhere = property(lambda self: {"host": "elsewhere", "pid": 1})
  monkeypatch.setattr(Sweep, "holder", elsewhere)
  assert verbs.cancel(tmp_path) == 1
  assert "the launcher is on elsewhere" in capsys.readouterr().out


NOT_UTF8 = b"\xff\xfe{}\n"


@pytest.mark.parametrize(
  "holder",
  [b'{"host": "%s", "pid": -1}', DEEP],
)
def test_no_launcher_is_told_to_end_but_a_process(holder, tmp_path):
  """Of kill, -1 is everybody."""
  sweep = kept(tmp_path, [unit(tmp_path)])
  with sweep_lib.held(sweep):
    own = holder.replace(b"%s", socket.gethostname().encode())
    (sweep.folder / "launcher").write_bytes(own)
    assert sweep.holder == {}


def test_status_says_all_and_fails_if_a_unit_did(tmp_path):
  own = begun(tmp_path, answers=3, count=6)
  kept(tmp_path, [own, unit(tmp_path, "two")])
  done = run("status", tmp_path, program="launch")
  assert done.returncode == 0, done.stderr
  assert "3/6" in done.stdout
  tries.end(own.folder, 2)
  done = run("status", tmp_path, program="launch")
  assert done.returncode == 1
  assert "1 failed, 1 waiting" in done.stdout


@pytest.mark.parametrize(
  ("name", "edit", "told"),
  [
    *(
      (sweep_lib.TOLD, lambda _, bad=bad: bad, "is no record of a sweep: ")
      for bad in (DEEP, NOT_UTF8, b"[]\n")
    ),
    (
      sweep_lib.UNITS,
      lambda text: text.replace(b'"gpus": 1', b'"gpus": "1"'),
      r"units\.jsonl, line 1.gpus='1': give an integer",
    ),
    (on_slurm.JOBS, lambda text: text + b'{"id": 1}\n', "jobs.*mend the line"),
    ("../../depth/smoke/one/tries.jsonl", lambda _: NOT_UTF8, "in UTF-8"),
  ],
)
def test_a_damaged_record_is_a_line_with_its_name(name, edit, told, tmp_path):
  sweep = kept(tmp_path, [begun(tmp_path)], "slurm")
  jobs = sweep.folder / on_slurm.JOBS
  jobs.write_text('{"id": "1", "offset": 0, "more": 1}\n')
  assert on_slurm.jobs(sweep) == [on_slurm.Job("1", 0)]
  path = sweep.folder / name
  path.write_bytes(edit(path.read_bytes()))

  def read():
    (found,) = sweep_lib.read_all(tmp_path)
    on_slurm.jobs(found)
    states.look(*found.units)

  with pytest.raises(ValueError, match=told) as caught:
    read()
  assert "\n" not in str(caught.value)


def test_what_is_not_there_is_a_line(tmp_path):
  for verb in verbs.VERBS:
    with pytest.raises(ValueError, match="no sweep was launched into it"):
      verbs.VERBS[verb](tmp_path)
  sweep = kept(tmp_path, [unit(tmp_path)])
  done = run(sweep.folder, 7, program="launch.task")
  assert done.returncode == 2
  assert done.stderr == f"launch.task: {sweep.folder} has 1 units, from 0\n"


# What SLURM is told, and when: of stand-ins, and of a real one.


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
  with cluster.running(tmp_path / "cluster"):
    # The config of a unit that ends at once, with a reason.
    wrong = ("--config.models.target=/no/where", f"--sbatch={more}")
    submit(folder, "--smoke", *wrong, "--gpus-per-unit=0")
    shown = cluster.asked("scontrol", "show", "job", "1")
    until(lambda: not cluster.asked("squeue"), 120)
  assert "Comment=two words" in shown
  assert "JobName=its-name" in shown
  (sweep,) = sweep_lib.read_all(folder)
  (unit,) = sweep.units
  assert "/no/where is neither a directory" in unit.last_words
  (out,) = sweep.folder.glob("unit-*_0.out")
  assert "FAILED (status 2" in out.read_text()
  assert (sweep.folder / "tables.out").exists()
