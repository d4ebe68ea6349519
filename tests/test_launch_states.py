"""How far a sweep is, read from folders alone; its record, and the verbs."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import rich.console

from launch import on_slurm, slurm, states, task, tries, verbs
from launch import sweep as sweep_lib
from launch.sweep import Sweep, Told
from launch.units import Unit
from tests.commands import run
from tests.test_launch import DEEP
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


def test_nothing_is_known_of_one_that_waits(tmp_path):
  found = states.look(unit(tmp_path))
  assert (found.word, found.answers, found.left) == (states.WAITING, 0, None)
  assert states.look(found.unit, "PENDING").word == states.QUEUED


def test_one_that_runs_says_where_and_how_long(tmp_path):
  own = begun(tmp_path, answers=4, count=10)
  time.sleep(0.01)
  found = states.look(own)
  assert found.word == states.RUNNING
  assert found.told.endswith(", CUDA 1")
  assert found.left == pytest.approx(6 / found.rate)
  assert "about" in states.summary([found])
  # A try of an element that waits again is over, whatever its process.
  assert states.look(own, "PENDING").word == states.QUEUED


@pytest.mark.parametrize(
  ("status", "given_up", "word", "told"),
  [
    (2, False, states.FAILED, "tv_jax.main: a reason [in brackets]"),
    (1, False, states.FAILED, "tv_jax.main: a reason [in brackets]"),
    (143, False, states.STOPPED, "was told to end"),
    (-9, False, states.STOPPED, "status -9"),
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
  console = rich.console.Console(width=200, file=io.StringIO())
  console.print(states.table([found]))
  assert told in console.file.getvalue()
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


def test_one_that_was_finished_and_then_refused_says_so(tmp_path):
  own = begun(tmp_path, answers=1)
  (own.folder / "DONE").touch()
  tries.end(own.folder, 0)
  assert states.look(own).word == states.DONE
  own.log.write_text("changed since\n")
  tries.begin(own.folder, "7", 1, None)
  tries.end(own.folder, 2)
  found = states.look(own)
  assert (found.word, found.told) == (states.FAILED, "changed since")


def test_a_large_table_shows_first_what_is_under_way(tmp_path):
  several = [unit(tmp_path, f"w{i}") for i in range(5)]
  several.append(begun(tmp_path, "last"))
  shown = states.table([states.look(one) for one in several], rows=2)
  assert shown.row_count == 2
  assert "last" in str(next(iter(shown.columns[0].cells)))


def kept(place, units, backend="here"):
  told = Told(("depth",), ("--experiment=depth",), backend, 2)
  sweep = sweep_lib.of(place, units, told)
  sweep.folder.mkdir(parents=True, exist_ok=True)
  sweep_lib.write(sweep)
  return sweep


def test_a_record_is_read_as_it_is_written(tmp_path):
  own = [unit(tmp_path, "one"), unit(tmp_path, "two")]
  first = kept(tmp_path, own)
  (second,) = sweep_lib.read_all(tmp_path)
  assert second == first
  assert second.units == tuple(own)
  # The same units are the same sweep, wherever it is moved to.
  assert kept(tmp_path, own).folder == first.folder
  moved = tmp_path.with_name(f"{tmp_path.name}-moved")
  os.rename(tmp_path, moved)
  (third,) = sweep_lib.read_all(moved)
  assert third.units[0].folder == moved / "depth" / "smoke" / "one"


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
  assert "nothing runs" in capsys.readouterr().out
  command = [sys.executable, "-c", HOLDS, sweep.folder]
  with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    with pytest.raises(disk.StoreError, match="python -m launch cancel"):
      sweep_lib.held(sweep).__enter__()
    assert sweep.holder["pid"] == child.pid
    assert verbs.cancel(tmp_path) == 0
    assert child.wait(30) == -signal.SIGTERM
  assert sweep.holder is None
  elsewhere = property(lambda self: {"host": "elsewhere", "pid": 1})
  monkeypatch.setattr(Sweep, "holder", elsewhere)
  assert verbs.cancel(tmp_path) == 1
  assert "the launcher is on elsewhere" in capsys.readouterr().out


NOT_UTF8 = b"\xff\xfe{}\n"


@pytest.mark.parametrize(
  "holder",
  [b'{"host": "%s", "pid": -1}', b'{"host": "%s", "pid": "1"}', b"{", DEEP],
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
  assert "1 running, 1 waiting" in done.stdout
  assert "3/6" in done.stdout
  tries.end(own.folder, 2)
  done = run("status", tmp_path, program="launch")
  assert done.returncode == 1
  assert "1 failed, 1 waiting" in done.stdout


@pytest.mark.parametrize(
  ("name", "edit", "told"),
  [
    *(
      (name, lambda text, bad=bad: bad, f"is no record of a sweep: .*{name}")
      for name in (sweep_lib.TOLD, sweep_lib.UNITS)
      for bad in (DEEP, NOT_UTF8, b"[]\n", b'{"experiments": "depth"}\n')
    ),
    (
      sweep_lib.UNITS,
      lambda text: text.replace(b'"gpus": 1', b'"gpus": "1"'),
      r"units\.jsonl, line 1.gpus='1': give an integer",
    ),
    # Left out, jobs would be submitted a second time.
    *(
      (on_slurm.JOBS, lambda text, bad=bad: text + bad, "jobs.*mend the line")
      for bad in (DEEP, NOT_UTF8, b"[]\n", b'{"id": 1, "offset": 0}\n', b"\n")
    ),
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


def test_odd_files_of_a_unit_say_nothing(tmp_path):
  own = begun(tmp_path, answers=4)
  time.sleep(0.01)
  for count in ("-5", "1e3", "9" * 400, "9" * 9000):
    (own.folder / "COUNT").write_text(count)
    found = states.look(own)
    assert (found.expected, found.left) == (None, None)
    states.summary([found])
  paths = (own.folder / "items.jsonl", own.folder / "COUNT", own.log)
  for path in paths:  # pipes are not waited for
    path.unlink(missing_ok=True)
    os.mkfifo(path)
  tries.end(own.folder, 2)
  found = states.look(own)
  told = found.answers, found.expected, found.told
  assert told == (0, None, "it said nothing")


def test_what_is_not_there_is_a_line(tmp_path):
  for verb in verbs.VERBS:
    with pytest.raises(ValueError, match="no sweep was launched into it"):
      verbs.VERBS[verb](tmp_path)
  sweep = kept(tmp_path, [unit(tmp_path)])
  done = run(sweep.folder, 7, program="launch.task")
  assert done.returncode == 2
  assert done.stderr == f"launch.task: {sweep.folder} has 1 units, from 0\n"


def test_resume_makes_tables_that_are_missing(tmp_path):
  told = "--experiment=worked_example", f"--workdir={tmp_path}"
  assert run(*told, program="launch").returncode == 0
  table = tmp_path / "worked_example" / "worked_example.md"
  before = table.read_bytes()
  table.unlink()
  done = run("resume", tmp_path, program="launch")
  assert done.returncode == 0, done.stderr
  assert table.read_bytes() == before
