"""Sweeps: what is run, and that it is what the experiment itself would run."""

import ast
import contextlib
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import pytest

from configs import common, quickstart
from experiments import experiment, names
from launch import attempt, on_ray, on_slurm, tries, units
from launch.sweep import Sweep
from launch.units import Pair, Unit
from tests.commands import run
from tests.stores import ROOT
from tv_jax import runs
from tv_jax.runs import sources, store

CONFIGS = {
  f"quickstart:{arg}".removesuffix(":"): quickstart.get_config(arg)
  for arg in common.DRAFTS
}


def overridden(config, command):
  """What a command line sets, read as ml_collections reads it."""
  for argument in command:
    if argument.startswith("--config."):
      field, _, text = argument.removeprefix("--config.").partition("=")
      old = config
      for part in field.split("."):
        old = old[part]
      value = text if type(old) is str else type(old)(ast.literal_eval(text))
      config.update_from_flattened_dict({field: value})
  return config


def test_a_unit_is_the_one_of_before_draft_stop():
  old, new = (
    CONFIGS["quickstart"].copy_and_resolve_references() for _ in range(2)
  )
  with old.unlocked():
    del old["draft_stop"]
  ids = [
    [
      unit.id
      for unit in units.expand(
        names.find("temperature"),
        [Pair("quickstart", config, ())],
        pathlib.Path("runs"),
        True,
      )
    ]
    for config in (old, new)
  ]
  assert ids[0] == ids[1]


@pytest.mark.parametrize("name", names.NAMES)
@pytest.mark.parametrize("smoke", [False, True])
def test_units_are_what_the_experiment_runs(name, smoke):
  one = names.find(name)
  asked = experiment.asked_of(one, smoke)
  pairs = [Pair(key, CONFIGS[key], ()) for key in asked]
  found = units.expand(one, pairs, pathlib.Path("runs"), smoke)
  wanted = [
    (pair, shard)
    for pair in pairs
    for shard in experiment.shards(one, pair.config, smoke)
  ]
  assert len(found) == len(wanted)
  for (unit, own), (pair, shard) in zip(found.items(), wanted, strict=True):
    assert own == shard.of(pair.config)
    config = pair.config.copy_and_resolve_references()
    ours = runs.from_config(overridden(config.unlock(), unit.command))
    assert ours == runs.from_config(own)
    assert unit.folder == pathlib.Path("runs", unit.name)
    assert shlex.split(unit.line)[1:] == unit.command[1:]


def test_flags_of_a_unit():
  """ml_collections adds a tuple to the same flag's before it."""
  told = ("--config.seeds=0,1", "--config.per_task=2")
  pair = Pair("quickstart", CONFIGS["quickstart"], told)
  one, place = names.find("main_table"), pathlib.Path("runs")
  usual = units.expand(one, [pair], place)
  split = units.expand(one, [pair], place, gpus=2)
  for two, own in zip(split, usual, strict=True):
    assert sum(flag.startswith("--config.seeds=") for flag in own.flags) == 1
    assert "--config.per_task=2" in own.flags
    assert two.flags == (*own.flags, "--config.models.devices=2")
    assert (own.gpus, two.gpus) == (1, 2)
  with pytest.raises(ValueError, match=r"main_table/quickstart/.* is 2 units"):
    units.expand(one, [pair, pair], place)


def unit(folder, body):
  """A unit that does something else."""

  class Other(Unit):
    @property
    def command(self):
      return [sys.executable, "-c", body]

  return Other(folder.name, "", (), folder, "0")


KILLED = "FAILED (SIGKILL"


@pytest.mark.parametrize(
  ("body", "said"),
  [
    # One that cannot work is tried once.
    ("sys.exit(2)", ["FAILED (status 2"]),
    # One that was killed is tried again.
    (
      "os.kill(os.getpid(), 9) if not os.path.exists(folder / 'x') and"
      " (folder / 'x').touch() is None else (folder / 'DONE').touch()",
      [KILLED, "again, 2 tries are left", "done, 0 answers"],
    ),
    # But not for ever.
    (
      "os.kill(os.getpid(), 9)",
      [KILLED, "again, 2", KILLED, "again, 1", KILLED],
    ),
  ],
)
def test_tries(body, said, tmp_path):
  folder = tmp_path / "one"
  head = f"import os, pathlib, sys; folder = pathlib.Path({str(folder)!r}); "
  lines, own = [], unit(folder, head + body)
  failed = attempt.run_all([own], 2, lines.append)
  assert lines[0] == "1/1 one"
  for line, wanted in zip(lines[1:], said, strict=True):
    assert line.startswith("one: ")
    assert wanted in line
  assert failed == ([] if "done" in said[-1] else [own])
  assert tries.last(folder).given_up == (said[-1] == KILLED)


def test_a_folder_is_waited_for(tmp_path):
  """The child of a launcher that was killed may still close its store."""
  one = unit(tmp_path / "one", "")
  one.folder.mkdir()
  body = (
    "import fcntl, sys, time; lock = open(sys.argv[1], 'ab'); "
    "fcntl.flock(lock, fcntl.LOCK_EX); print(flush=True); time.sleep(1.5)"
  )
  command = [sys.executable, "-c", body, one.folder / "lock"]
  holder = subprocess.Popen(command, stdout=subprocess.PIPE)
  holder.stdout.readline()
  assert attempt.once(one) == 0
  assert holder.poll() == 0
  holder.communicate()


def test_what_is_done_is_left_out_if_it_is_the_same(tmp_path):
  one = unit(tmp_path / "one", "")
  assert not one.done
  one.folder.mkdir()
  (one.folder / "DONE").touch()
  assert not one.done  # nobody knows with which config
  tries.begin(one.folder, "0", 0, None)
  assert not one.done  # its report may be missing
  tries.end(one.folder, 0)
  assert one.done
  assert not one._replace(id="1").done
  (one.folder / "COUNT").write_text("1\n")
  assert not one.done  # an answer was taken out, to be made again
  (one.folder / "items.jsonl").write_text("{}\n")
  assert one.done


def test_what_is_made_of_something_else_by_now_is_left(tmp_path):
  """All that can change is in tests/test_sources.py."""
  tree, folder = tmp_path / "tree.json", tmp_path / "one"
  tree.write_text("[-1, 0]")
  config = CONFIGS["quickstart"].copy_and_resolve_references().unlock()
  config.trees = str(tree)
  settings = runs.from_config(config)
  with store.Store(folder, runs.to_dict(settings), {}) as results:
    asked = runs.read_questions(settings)
    results.keep_sources(sources.hashes(settings, asked))
    results.finish()
  tries.begin(folder, "0", 0, None)
  tries.end(folder, 0)
  one = unit(folder, "")
  assert units.left([one]) == []
  tree.write_text("[-1, 0, 0]")
  assert units.left([one]) == [one]


DEEP = b"[" * 100_000


def test_tries_are_read_as_they_are_written(tmp_path):
  tries.begin(tmp_path, "a", 3, "0,1")
  assert tries.last(tmp_path).alive
  tries.end(tmp_path, -9)
  with (tmp_path / tries.FILE).open("ab") as file:
    for odd in (DEEP, b"[1]", b'{"begin": "x"}'):
      file.write(odd + b"\n")
    file.write(b'{"id": "a", "be')  # torn
  tries.begin(tmp_path, "a", 5, None)
  first, second = tries.read(tmp_path)
  assert (first.id, first.answers, first.devices) == ("a", 3, "0,1")
  assert (first.status, first.alive) == (-9, False)
  assert (second.answers, second.devices, second.status) == (5, None, None)
  # A process that is gone, as far as can be seen from here.
  child = subprocess.Popen([sys.executable, "-c", ""])
  child.wait()
  assert not second._replace(pid=child.pid).alive
  lost = second._replace(pid=child.pid, host="elsewhere")
  assert lost.alive  # nobody hears how it ended
  assert not lost._replace(given_up=True).alive


def test_an_engine_that_is_not_here_is_a_line(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "ray", None)
  given = {"workdir": tmp_path, "retries": 0, "say": print, "listen": print}
  with pytest.raises(ValueError, match=r"pip install 'tv-jax\[ray\]"):
    on_ray.run([], on_ray.Asked(), **given)
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(ValueError, match="there is no squeue here"):
    on_slurm.queue(Sweep(tmp_path, None, ()))
  # Ray would try for minutes to reach nobody.
  with pytest.raises(ValueError, match=r"127.0.0.1:1: .*refused"):
    on_ray.check_address("127.0.0.1:1")


@pytest.mark.parametrize(
  ("arguments", "says"),
  [
    (["--experiment=nothing"], "'nothing' is not one of"),
    (["--experiment=depth", "--config.trees=x"], "by the experiment itself"),
    (["--experiment=depth", "--cpus-per-unit=inf"], "=inf: give a number"),
  ],
)
def test_what_is_wrong_is_a_line(arguments, says):
  done = run(*arguments, program="launch")
  assert done.returncode == 2
  assert done.stderr.count("\n") == 1
  assert says in done.stderr


def until(look, seconds=120):
  """What is seen, once it is there."""
  limit = time.monotonic() + seconds
  while time.monotonic() < limit:
    with contextlib.suppress(OSError, ValueError):  # half written
      if seen := look():
        return seen
    time.sleep(0.01)
  raise AssertionError("it was waited for in vain")


def gone(pid):
  """Whether there is no such process, or nothing of it but its number."""
  try:
    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
  except OSError:
    return True
  return state.split()[0] == "Z"


def test_a_unit_is_told_of_a_signal_and_waited_for():
  body = (
    "import signal, time; signal.signal(15, lambda *_: exit(print('well')))\n"
    "print('up', flush=True); time.sleep(99)"
  )
  program = f"""
import sys
from tv_jax.edge import cli
cli.until_told(lambda heard: cli.run_child([sys.executable, "-c", {body!r}]))
"""
  process = subprocess.Popen(
    [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
  )
  assert process.stdout.readline() == "up\n"
  process.send_signal(signal.SIGTERM)  # of the background SIGINT is ignored
  out, _ = process.communicate(timeout=60)
  assert out == "well\n"
  assert process.returncode == 143


def test_several_configs_are_a_sweep_and_no_run():
  pairs = "--config=smoke", "--config=quickstart:eagle", "--config.per_task=3"
  told = "--experiments=drafts", "--backend=print"
  done = run(*told, *pairs, program="launch")
  assert done.returncode == 0, done.stderr
  lines = done.stdout.splitlines()
  for name in ("smoke", "quickstart:eagle"):
    (line,) = (one for one in lines if f"--config={name} " in one)
    assert "--config.per_task=3 " in line
  done = run(*pairs)
  assert done.returncode == 2
  assert done.stderr == "tv_jax.main: --config is given 2 times: give one\n"
