"""Three runs by every engine, through kills: the same bytes as in one process.

Ray and SLURM are real ones, on this machine, with GPUs that are none. A start
takes seconds, hence there are few.
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
COUNT, FEW = 3, 2
SEEDS, FEWER = (
  f"--config.seeds={','.join(map(str, range(count)))}" for count in (COUNT, FEW)
)


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


def done(folder):
  """The runs that are."""
  return [unit for unit in units(folder) if (unit / "DONE").exists()]


def same(folder, whole, count=COUNT):
  """Whether all is there, and the same to the byte."""
  found = units(folder)
  assert found == done(folder)
  assert len(found) == count
  paths = [unit / name for unit in found for name in ("cells.csv", "table.md")]
  paths += [unit / "config.json" for unit in found]
  if count == COUNT:
    ends = ("md", "tex", "csv")
    paths += [folder / "quality" / f"quality.{end}" for end in ends]
  for path in paths:
    theirs = whole / path.relative_to(folder)
    assert path.read_bytes() == theirs.read_bytes()
  for unit in found:  # in the order in which they came
    ours = (unit / "items.jsonl").read_bytes().splitlines()
    theirs = whole / unit.relative_to(folder) / "items.jsonl"
    assert sorted(ours) == sorted(theirs.read_bytes().splitlines())
    assert len(ours) == len({*ours})


def writing(folder):
  """A run that has answers and is at work: (folder, pid).

  Any: an engine may start the one that was killed after all others.
  """

  def look():
    for unit in units(folder):
      last, items = tries.last(unit), unit / "items.jsonl"
      if (unit / "DONE").exists() or not (last and last.alive):
        continue
      if items.exists() and items.stat().st_size:
        pid = json.loads((unit / "lock").read_bytes())["pid"]
        if not gone(pid):  # it is no longer the try's before
          return unit, pid
    return None

  return until(look, 300)


def nothing_is_left(folder):
  """Whether all are gone that ever ran or waited in the sweep's folders."""
  pids = {one.pid for unit in units(folder) for one in tries.read(unit)}
  locks = [unit / "lock" for unit in units(folder)]
  pids |= {json.loads(x.read_bytes())["pid"] for x in locks if x.exists()}
  for pid in pids:
    until(lambda pid=pid: gone(pid))


def statuses(unit):
  return [one.status for one in tries.read(unit)]


def through_kills(folder, *more):
  """A run, the launcher by Ctrl-C and by SIGKILL: then the same to the end."""
  sweep = [*SMALL, f"--workdir={folder}", SEEDS, *more]
  process = start(*sweep, program="launch")
  killed, pid = writing(folder)
  os.kill(pid, signal.SIGKILL)  # it is started again
  until(lambda: len(tries.read(killed)) > 1, 300)  # or after all others
  writing(folder)
  process.send_signal(signal.SIGINT)
  interrupted = ended(process)
  assert interrupted.returncode == 130, interrupted.stderr
  assert "the same command continues" in interrupted.stderr
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
  assert -signal.SIGKILL in statuses(killed)
  assert statuses(killed)[-1] == 0


def test_here(tmp_path, whole):
  through_kills(tmp_path)
  same(tmp_path, whole)


@pytest.mark.ray
def test_ray_on_one_machine(tmp_path, whole):
  through_kills(tmp_path, "--backend=ray", "--gpus=2", "--gpus-per-unit=1")
  same(tmp_path, whole)
  # Each had one of the two, and no two had the same at the same time.
  all_tries = [one for unit in units(tmp_path) for one in tries.read(unit)]
  assert {one.devices for one in all_tries} == {"0", "1"}
  finished = [one for one in all_tries if one.end is not None]
  for one in finished:
    for other in finished:
      overlap = one.begin < other.begin < one.end
      assert not (overlap and one.devices == other.devices)


@pytest.mark.ray
def test_ray_goes_on_when_a_machine_is_lost(tmp_path, whole):
  with start(program="tests.ray_cluster", stdin=subprocess.PIPE) as cluster:
    address = next(
      line.split()[1] for line in cluster.stdout if line.startswith("at ")
    )
    more = f"--workdir={tmp_path}", "--backend=ray", f"--address={address}"
    process = start(*SMALL, FEWER, *more, program="launch")
    until(lambda: sum(bool(tries.last(one)) for one in units(tmp_path)) > 1)
    cluster.stdin.write("lose one\n")
    cluster.stdin.flush()
    over = ended(process)
    cluster.communicate()
  assert over.returncode == 0, over.stdout + over.stderr
  assert "Ray: machines 2, GPUs 2" in over.stdout
  same(tmp_path, whole, FEW)
  assert any(len(tries.read(unit)) > 1 for unit in units(tmp_path))
  nothing_is_left(tmp_path)


@pytest.mark.slurm
def test_slurm(tmp_path, whole):
  """Split arrays; a sweep cancelled and resumed; a kill, and a pre-emption."""
  folder = tmp_path / "slurm"
  with slurm.running(tmp_path / "cluster", max_array=2):
    sweep = [*SMALL, f"--workdir={folder}", SEEDS]
    sweep += ["--backend=slurm", "--gpus-per-unit=1"]
    said = run(*sweep, program="launch")
    assert said.returncode == 0, said.stderr
    assert re.findall(r"^job \d+: (\d) units$", said.stdout, re.M) == ["2", "1"]
    writing(folder)
    assert run("cancel", folder, program="launch").returncode == 0
    until(lambda: not slurm.asked("squeue"), 60)
    nothing_is_left(folder)
    assert len(done(folder)) < COUNT
    assert run("resume", folder, program="launch").returncode == 0
    # One is killed, and started again; one is told to make room: by its
    # process, as scancel asks for a minute whether what has ended has ended.
    killed, pid = writing(folder)
    os.kill(pid, signal.SIGKILL)
    until(lambda: -signal.SIGKILL in statuses(killed))
    moved, _ = writing(folder)
    os.kill(tries.last(moved).pid, signal.SIGTERM)
    until(lambda: tries.last(moved).status == tries.STOPPED)
    assert not (moved / "DONE").exists()
    # The same command again submits nothing twice.
    said = run(*sweep, program="launch")
    assert "units are in SLURM's queue" in said.stdout
    assert not re.search(r"^job", said.stdout, re.M)
    told = run("status", folder, program="launch")
    assert re.search(rf"{moved.name} +queued +[1-3]", told.stdout)
    # What was put back into the queue waits there for two minutes.
    waiting = slurm.asked("squeue", "--array", "--states=PENDING", "-o", "%i")
    for job in waiting.split():
      slurm.asked("scontrol", "update", f"JobId={job}", "StartTime=now")
    until(lambda: not slurm.asked("squeue"), 600)
  same(folder, whole)
  last = [tries.last(unit) for unit in units(folder)]
  assert {one.devices for one in last} == {"0", "1"}
  assert statuses(moved)[-2:] == [tries.STOPPED, 0]
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
  "--gpus-per-unit=0",
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
      resources.enter_context(slurm.running(tmp_path / "cluster"))

    def launch(*more):
      told = (*OWN, f"--backend={backend}", *more)
      result = run(*told, program="launch", cwd=folder)
      if backend == "slurm":
        until(lambda: not slurm.asked("squeue"), 300)
      return result

    yield folder, launch


@pytest.mark.parametrize(
  "backend", ["here", pytest.param("slurm", marks=pytest.mark.slurm)]
)
def test_a_rule_of_one_s_own(tmp_path, backend):
  with own_folder(tmp_path, RULE, backend) as (folder, launch):
    first = launch()
    assert first.returncode == 0, first.stdout + first.stderr
    (unit,) = done(folder / "runs")
    assert '"my_rule:decide"' in (unit / "items.jsonl").read_text()
    table = folder / "runs" / "quality" / "quality.md"
    assert "my_rule:decide" in table.read_text()
    if backend == "slurm":
      return  # the rest is the run's, wherever it is
    # Another rule by that name does not go on in its place.
    (folder / "my_rule.py").write_text(RULE + "# changed\n")
    assert launch().returncode == 1
    assert statuses(unit) == [0, 2]
    assert "my_rule:decide" in (unit / "log.txt").read_text().splitlines()[-1]
