"""Five runs by every engine, through kills: the same bytes as in one process.

Ray and SLURM are real ones, on this machine, with GPUs that are none. A start
takes seconds to import and to trace, though its programs are in the cache of
all processes: hence few starts.
"""

import contextlib
import json
import os
import re
import signal
import subprocess

import pytest

from launch import tries
from tests import slurm
from tests.commands import ended, run, start
from tests.test_launch import gone, until
from tv_jax.runs import report

pytestmark = pytest.mark.long

# A model pair that is loaded fast, a tree that is compiled fast.
SMALL = (
  "--experiments=quality",
  "--config=smoke",
  "--config.tasks=qa",
  "--config.per_task=2",
  "--config.trees=chain:2",
  "--config.max_new_tokens=16",
  "--config.batch_size=1",
)
COUNT, FEW = 5, 3
SEEDS, FEWER = (
  f"--config.seeds={','.join(map(str, range(count)))}" for count in (COUNT, FEW)
)
TABLES = ("quality.md", "quality.tex", "quality.csv")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """What one process makes of it, run by run."""
  folder = tmp_path_factory.mktemp("whole")
  made = run(
    *SMALL[1:], SEEDS, f"--workdir={folder}", program="experiments.quality"
  )
  assert made.returncode == 0, made.stderr
  for unit in units(folder):  # these are of a single run's report
    report.write(unit)
  return folder


def units(folder):
  """The folders of all runs."""
  return sorted((folder / "quality" / "smoke").glob("seed-*"))


def same(folder, whole, count=COUNT):
  """Whether all is there, and the same to the byte."""
  found = units(folder)
  assert len(found) == count
  for unit in found:
    assert (unit / "DONE").exists()
    for name in ("items.jsonl", "cells.csv", "table.md", "config.json"):
      expected = (whole / "quality" / "smoke" / unit.name / name).read_bytes()
      if name == "items.jsonl":  # in the order in which they came
        ours, theirs = (unit / name).read_bytes().splitlines(), expected
        assert sorted(ours) == sorted(theirs.splitlines())
        assert len(ours) == len({*ours})
      else:
        assert (unit / name).read_bytes() == expected
  if count == COUNT:
    for name in TABLES:
      ours = (folder / "quality" / name).read_bytes()
      assert ours == (whole / "quality" / name).read_bytes()


def command(folder, *more):
  """Of a sweep into this folder."""
  return [*SMALL, f"--workdir={folder}", *more]


def writing(folder):
  """A run that has answers and is at work: (folder, pid).

  Any: an engine may start the one that was killed after all others.
  """

  def look():
    for unit in units(folder):
      if (unit / "DONE").exists():
        continue
      last = tries.last(unit)
      items = unit / "items.jsonl"
      if last and last.alive and items.exists() and items.stat().st_size:
        pid = json.loads((unit / "lock").read_bytes())["pid"]
        if not gone(pid):  # it is no longer the try's before
          return unit, pid
    return None

  return until(look, 300)


def done(folder):
  """The runs that are."""
  return [unit for unit in units(folder) if (unit / "DONE").exists()]


def pids(folder):
  """Of all that ever ran or waited in the sweep's folders."""
  found = {one.pid for unit in units(folder) for one in tries.read(unit)}
  for unit in units(folder):
    if (unit / "lock").exists():
      found.add(json.loads((unit / "lock").read_bytes())["pid"])
  return found


def nothing_is_left(folder):
  for pid in pids(folder):
    until(lambda pid=pid: gone(pid))


def through_kills(folder, *more):
  """A run, the launcher by Ctrl-C and by SIGKILL: then the same to the end."""
  sweep = command(folder, SEEDS, *more)
  process = start(*sweep, program="launch")
  killed, pid = writing(folder)
  os.kill(pid, signal.SIGKILL)  # it is started again
  until(lambda: len(tries.read(killed)) > 1, 300)  # or after all others
  writing(folder)
  process.send_signal(signal.SIGINT)
  interrupted = ended(process)
  assert interrupted.returncode == 130, interrupted.stderr
  assert "the same command goes on" in interrupted.stderr
  nothing_is_left(folder)
  process = start(*sweep, program="launch")
  until(lambda: done(folder), 300)
  writing(folder)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  nothing_is_left(folder)
  assert len(done(folder)) < COUNT
  ended_well = run(*sweep, program="launch")
  assert ended_well.returncode == 0, ended_well.stderr
  assert f"of {COUNT} units are done" in ended_well.stdout
  nothing_is_left(folder)
  killed = [one.status for one in tries.read(killed)]
  assert -signal.SIGKILL in killed
  assert killed[-1] == 0


def test_here(tmp_path, whole):
  through_kills(tmp_path / "here")
  same(tmp_path / "here", whole)


@pytest.mark.ray
def test_ray_on_one_machine(tmp_path, whole):
  folder = tmp_path / "ray"
  through_kills(folder, "--backend=ray", "--gpus=2", "--gpus-per-unit=1")
  same(folder, whole)
  # Each had one of the two, and no two had the same at the same time.
  all_tries = [one for unit in units(folder) for one in tries.read(unit)]
  assert {one.devices for one in all_tries} == {"0", "1"}
  finished = [one for one in all_tries if one.end is not None]
  for one in finished:
    for other in finished:
      overlap = one.begin < other.begin < one.end
      assert not (overlap and one.devices == other.devices)


@pytest.mark.ray
def test_ray_goes_on_when_a_machine_is_lost(tmp_path, whole):
  folder = tmp_path / "cluster"
  with start(program="tests.ray_cluster", stdin=subprocess.PIPE) as cluster:
    address = next(
      line.split()[1] for line in cluster.stdout if line.startswith("at ")
    )
    sweep = command(folder, FEWER, "--backend=ray", f"--address={address}")
    process = start(*sweep, program="launch")
    until(
      lambda: sum(bool(tries.last(unit)) for unit in units(folder)) > 1, 300
    )
    cluster.stdin.write("lose one\n")
    cluster.stdin.flush()
    over = ended(process)
    cluster.communicate()
  assert over.returncode == 0, over.stdout + over.stderr
  assert "Ray: machines 2, GPUs 2" in over.stdout
  same(folder, whole, FEW)
  again = [tries.read(unit) for unit in units(folder)]
  assert any(len(own) > 1 for own in again)
  nothing_is_left(folder)


@pytest.mark.slurm
def test_slurm(tmp_path, whole):
  """Split arrays; a sweep cancelled and resumed; a kill, and a pre-emption."""
  folder = tmp_path / "slurm"
  (tmp_path / "cluster").mkdir()
  with slurm.running(tmp_path / "cluster", max_array=3):
    sweep = command(folder, SEEDS, "--backend=slurm", "--gpus-per-unit=1")
    said = run(*sweep, program="launch")
    assert said.returncode == 0, said.stderr
    assert re.findall(r"^job \d+: (\d) units$", said.stdout, re.M) == ["3", "2"]
    writing(folder)
    assert run("cancel", folder, program="launch").returncode == 0
    until(lambda: not queue(), 60)
    nothing_is_left(folder)
    assert len(done(folder)) < COUNT
    assert run("resume", folder, program="launch").returncode == 0
    # One is killed, and started again; one is told to make room.
    killed, pid = writing(folder)
    os.kill(pid, signal.SIGKILL)
    until(lambda: -signal.SIGKILL in [one.status for one in tries.read(killed)])
    moved, _ = writing(folder)
    signal_batch(moved)
    until(lambda: tries.last(moved).status == tries.STOPPED)
    assert not (moved / "DONE").exists()
    # The same command again submits nothing twice.
    said = run(*sweep, program="launch")
    assert "units are in SLURM's queue" in said.stdout
    assert not re.search(r"^job", said.stdout, re.M)
    told = run("status", folder, program="launch")
    assert re.search(rf"{moved.name} +queued +[1-5]", told.stdout)
    start_now()
    until(lambda: not queue(), 600)
  same(folder, whole)
  last = [tries.read(unit)[-1] for unit in units(folder)]
  assert {one.devices for one in last} == {"0", "1"}
  assert [one.status for one in tries.read(moved)][-2:] == [tries.STOPPED, 0]
  told = run("status", folder, program="launch")
  assert told.returncode == 0
  assert f"{COUNT} units: {COUNT} done" in told.stdout


# A user's own folder, with a rule in it.
OWN = (
  "--experiments=quality",
  "--config=smoke",
  "--smoke",
  "--config.tasks=qa",
  "--config.trees=chain:2",
  "--config.batch_size=1",
  "--config.verifiers=my_rule:decide",
  "--workdir=runs",
)
RULE = """
from tv_jax import verifiers

def decide(*given):
  return verifiers.VERIFIERS["token_level"].decide(*given)
"""


@contextlib.contextmanager
def own_folder(tmp_path, rule, backend):
  """A folder with a rule; what launches it to its end."""
  folder = tmp_path / "my folder"
  folder.mkdir()
  (folder / "my_rule.py").write_text(rule)
  with contextlib.ExitStack() as resources:
    if backend == "slurm":
      (tmp_path / "cluster").mkdir()
      resources.enter_context(slurm.running(tmp_path / "cluster"))

    def launch(*more):
      told = (*OWN, f"--backend={backend}", "--gpus-per-unit=0", *more)
      result = run(*told, program="launch", cwd=folder)
      if backend == "slurm":
        until(lambda: not queue(), 300)
      return result

    yield folder, launch


@pytest.mark.parametrize(
  "backend", ["here", pytest.param("slurm", marks=pytest.mark.slurm)]
)
def test_a_rule_of_one_s_own(tmp_path, backend):
  with own_folder(tmp_path, RULE, backend) as (folder, launch):
    first = launch()
    assert first.returncode == 0, first.stdout + first.stderr
    (unit,) = units(folder / "runs")
    assert (unit / "DONE").exists()
    assert '"my_rule:decide"' in (unit / "items.jsonl").read_text()
    table = folder / "runs" / "quality" / "quality.md"
    assert "my_rule:decide" in table.read_text()
    # Another rule by that name does not go on in its place.
    (folder / "my_rule.py").write_text(RULE + "# changed\n")
    assert launch().returncode == (1 if backend == "here" else 0)
    assert [one.status for one in tries.read(unit)] == [0, 2]
    assert "my_rule:decide" in (unit / "log.txt").read_text().splitlines()[-1]


@pytest.mark.parametrize(
  "backend", ["here", pytest.param("ray", marks=pytest.mark.ray)]
)
def test_a_run_that_always_crashes_has_failed(tmp_path, backend):
  rule = "import os\n\nos.kill(os.getpid(), 9)\n"
  with own_folder(tmp_path, rule, backend) as (folder, launch):
    over = launch("--retries=1")
    assert over.returncode == 1, over.stderr
    assert "FAILED (SIGKILL" in over.stdout
    (unit,) = units(folder / "runs")
    assert [one.status for one in tries.read(unit)] == [-signal.SIGKILL] * 2
    told = run("status", "runs", program="launch", cwd=folder)
    assert told.returncode == 1
    assert "1 units: 1 failed" in told.stdout


def signal_batch(unit):
  """As SLURM does before a time limit, and to make room: the shell's process.

  Not by scancel: it asks for a minute whether what has ended has ended.
  """
  os.kill(tries.last(unit).pid, signal.SIGTERM)


def start_now():
  """What was put back into the queue waits there for two minutes."""
  asked = ["squeue", "--noheader", "--array", "--states=PENDING", "-o", "%i"]
  waiting = subprocess.run(asked, capture_output=True, text=True)
  for job in waiting.stdout.split():
    update = ["scontrol", "update", f"JobId={job}", "StartTime=now"]
    subprocess.run(update, capture_output=True, check=True)


def queue():
  asked = ["squeue", "--noheader", "--array"]
  done = subprocess.run(asked, capture_output=True, text=True)
  return done.stdout or done.stderr
