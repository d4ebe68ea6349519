"""A run on two processes: the bytes of one, one writer, one end for both."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests import quick, slurm, stores
from tests.commands import ended, run, start
from tests.test_main_crashes import lines_in, wait
from tv_jax.runs import hosts

TINY = (
  "--config.models.target=bundled/target",
  "--config.models.draft=bundled/draft_weak",
  "--config.tasks=qa",
  "--config.per_task=3",
  "--config.trees=chain:2",
  "--config.verifiers=token_level",
  "--config.max_new_tokens=12",
  "--config.batch_size=2",
  "--config.padded_to=16",
  "--config.timing.per_task=0",
  "--config.explorer.cycles=2",
)
TWO = "--config.models.devices=2"
BOTH = "--config.temperatures=(0.0, 1.0)"
LINES = 12  # of three questions, with and without a draft, at both temperatures


@pytest.fixture(autouse=True)
def port(monkeypatch):
  """A free one, on this machine alone."""
  with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
  monkeypatch.setenv("JAX_COORDINATOR_BIND_ADDRESS", f"127.0.0.1:{port}")
  return port


def begin(port, *arguments, own=((), ()), limits=("", "")):
  """Both processes of a run.

  Args:
    port: The first one's.
    *arguments: Of both.
    own: Of either alone.
    limits: Bytes that no file of either may outgrow.
  """
  return [
    start(
      f"--distributed=127.0.0.1:{port},2,{index}",
      *arguments,
      *own[index],
      limit=limits[index],
    )
    for index in range(2)
  ]


def both(port, *arguments, **options):
  """What they did."""
  return [*map(ended, begin(port, *arguments, **options))]


def refused(done):
  """What both are told; the second, if need be, that it was the first's."""
  first, second = (one.stderr for one in done)
  assert [one.returncode for one in done] == [2, 2], (first, second)
  assert "Traceback" not in first
  line = first.splitlines()[-1].removeprefix("tv_jax.main: ")
  told = second.replace("process 0: ", "")
  assert told == f"tv_jax.main: {line}\n"
  return line


@pytest.fixture(scope="module")
def one(cache, tmp_path_factory):
  """The items of one process with two devices."""
  folder = tmp_path_factory.mktemp("one") / "run"
  done = run(f"--workdir={folder}", cache, *TINY, TWO, BOTH, devices=2)
  assert done.returncode == 0, done.stderr
  assert lines_in(folder) == LINES
  return (folder / "items.jsonl").read_bytes()


@pytest.mark.parametrize(
  "told", ["here", "here,2,0", "here:1,2", "here:1,2,2", "here:1,0,0"]
)
def test_a_flag_that_names_no_process_is_refused(told):
  with pytest.raises(ValueError, match=rf"--distributed={told}: give") as error:
    hosts.join(told, bool)
  stores.one_line(error)


def test_a_port_that_is_taken_is_refused():
  with socket.create_server(("", 0)) as server:
    told = f"127.0.0.1:{server.getsockname()[1]},2,0"
    with pytest.raises(ValueError, match=r"cannot be had .*in use"):
      hosts.join(told, bool)


def test_a_folder_that_is_taken_ends_both(tmp_path, port):
  with stores.enter(tmp_path / "run"):
    done = both(port, f"--workdir={tmp_path / 'run'}", *TINY, TWO)
  assert "is being written by process" in refused(done)


@pytest.mark.long
def test_what_is_not_the_same_in_both_is_refused(tmp_path, port):
  more = "--config.max_new_tokens=13"
  done = both(port, f"--workdir={tmp_path}", *TINY, TWO, own=((), (more,)))
  assert [one.returncode for one in done] == [2, 2]
  line = "not as in process 0: config.max_new_tokens: 12 there, 13 now\n"
  assert done[0].stderr == f"tv_jax.main: process 1: {line}"
  assert done[1].stderr == f"tv_jax.main: {line}"
  assert not [*tmp_path.iterdir()]


@pytest.mark.long
def test_all_devices_are_used_or_none(tmp_path, port, monkeypatch):
  """Of processes that SLURM, or what speaks like it, has started."""
  job = {"JOB_ID": 1, "STEP_NODELIST": "127.0.0.1", "NTASKS": 2}
  for name, value in job.items():
    monkeypatch.setenv(f"SLURM_{name}", str(value))
  monkeypatch.setenv("JAX_COORDINATOR_PORT", str(port))
  processes = []
  for index in "01":
    monkeypatch.setenv("SLURM_PROCID", index)
    monkeypatch.setenv("SLURM_LOCALID", index)
    told = "--distributed=auto", f"--workdir={tmp_path}", *TINY
    processes.append(start(*told))
  line = refused([*map(ended, processes)])
  assert line.startswith("models.devices=1: the 2 processes have 2 devices")


@pytest.mark.long
def test_auto_without_a_launcher_is_refused(monkeypatch):
  for name in [name for name in os.environ if name.startswith("SLURM_")]:
    monkeypatch.delenv(name)
  done = run("--distributed=auto")
  assert done.returncode == 2
  assert done.stderr.startswith("tv_jax.main: --distributed=auto: ")
  assert done.stderr.endswith(" Or give HOST:PORT,COUNT,INDEX\n")
  assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_two_processes_write_the_bytes_of_one(one, cache, tmp_path, port):
  folder = tmp_path / "run"
  command = f"--workdir={folder}", cache, *TINY, TWO, BOTH
  first, second = both(port, *command)
  assert (first.returncode, second.returncode) == (0, 0), first.stderr
  assert (folder / "items.jsonl").read_bytes() == one
  assert json.loads((folder / "env.json").read_text())[0]["processes"] == 2
  assert (folder / "DONE").exists()
  assert (folder / "report.html").exists()
  assert second.stderr == ""
  assert f"report: {folder / 'report.html'}" in first.stdout
  assert "report" not in second.stdout
  first, second = both(port, *command)
  assert (first.returncode, second.returncode) == (0, 0)
  assert first.stderr.endswith(f"{LINES} answers are all there\n")


@pytest.mark.long
@pytest.mark.slurm
def test_srun_starts_them_and_jax_finds_them(one, cache, tmp_path, monkeypatch):
  folder, cluster = tmp_path / "run", tmp_path / "cluster"
  cluster.mkdir()
  monkeypatch.delenv("JAX_COORDINATOR_BIND_ADDRESS")
  monkeypatch.setenv("JAX_PLATFORMS", "cpu")
  monkeypatch.setenv("XLA_FLAGS", quick.flags())
  command = ["srun", "--ntasks=2", "--overcommit", sys.executable]
  command += ["-m", "tv_jax.main", "--distributed=auto", cache]
  with slurm.running(cluster):
    done = subprocess.run(
      [*command, f"--workdir={folder}", *TINY, TWO, BOTH],
      cwd=stores.ROOT,
      capture_output=True,
      text=True,
    )
  assert done.returncode == 0, done.stderr
  assert (folder / "items.jsonl").read_bytes() == one


@pytest.mark.long
@pytest.mark.parametrize("which", [(0, 1), (1,)], ids=["all", "the-second"])
def test_pre_emption_ends_both_and_the_command_goes_on(
  which, one, cache, tmp_path, port
):
  folder = tmp_path / "run"
  command = f"--workdir={folder}", cache, *TINY, TWO, BOTH
  processes = begin(port, *command)
  wait(processes[0], lambda: lines_in(folder) >= 1)
  for index in which:
    processes[index].send_signal(signal.SIGTERM)
  first, second = map(ended, processes)
  assert second.returncode == 128 + signal.SIGTERM, second.stderr
  line = "interrupted by SIGTERM: the same command continues\n"
  assert second.stderr == line
  if 0 in which:
    assert first.returncode == 128 + signal.SIGTERM, first.stderr
    assert line in first.stderr
    assert "THE RUN IS NOT FINISHED" in first.stdout
  else:
    assert first.returncode == 2
    assert first.stderr.endswith("tv_jax.main: process 1: interrupted\n")
  there = lines_in(folder)
  assert 1 <= there < LINES
  if 0 not in which:
    return  # there is as much to go on with
  first, second = both(port, *command)
  assert (first.returncode, second.returncode) == (0, 0), first.stderr
  assert first.stderr.startswith(f"{LINES} answers in 4 cells, {there} are")
  assert (folder / "items.jsonl").read_bytes() == one


@pytest.mark.long
@pytest.mark.parametrize("index", [0, 1])
def test_a_process_that_is_killed_takes_the_other_with_it(
  index, cache, tmp_path, port
):
  folder = tmp_path / "run"
  processes = begin(port, f"--workdir={folder}", cache, *TINY, TWO, BOTH)
  wait(processes[0], lambda: lines_in(folder) >= 1)
  processes[index].kill()
  done = [*map(ended, processes)]
  assert done[index].returncode == -signal.SIGKILL
  # Its own line, or jax was faster.
  assert done[1 - index].returncode in (2, -signal.SIGABRT)
  assert lines_in(folder) >= 1


@pytest.mark.long
def test_a_full_disk_ends_both(tmp_path, port):
  folder = tmp_path / "run"
  command = f"--workdir={folder}", "--compilation_cache=", *TINY, TWO
  line = refused(both(port, *command, limits=(1500, "")))
  assert "items before it are safe, and the same command" in line
  assert lines_in(folder) >= 1
