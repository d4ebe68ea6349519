"""Experiments as they are run: commands, kills, and several at once."""

import signal
import time

import pytest

from experiments import __main__ as launcher
from experiments import names
from tests.commands import run, start

# Two shards of two questions: one temperature each, by the same programs.
SMALL = ("--smoke", "--config=configs/smoke.py", "--config.trees=chain:2")
PROGRAM = "experiments.temperature"


def contents(folder):
  """What is the same to the byte wherever and whenever it was run."""
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob("*"))
    if path.is_file() and path.name not in ("env.json", "lock")
  }


@pytest.mark.parametrize(
  ("arguments", "says"),
  [
    (["experiments", "nothing"], "'nothing' is not one of worked_example"),
    (["experiments", "--jobs=0"], "--jobs=0: give a number of processes"),
    (["experiments.depth", "--config=no_such.py"], "no_such.py"),
    (["experiments.temperature", "--config.trees=a"], "tree 'a': write"),
    (
      ["experiments.depth", "--config.trees=eagle"],
      "config.trees is set by the experiment itself",
    ),
    (["experiments.depth", "no/folder"], "no/folder"),
    (["experiments.results", "--workdir=no", "--out=/dev/null/x"], "/dev/null"),
  ],
  ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_a_line(arguments, says):
  program, *others = arguments
  done = run(*others, program=program)
  assert done.returncode == 2, done.stderr
  assert done.stderr.count("\n") == 1
  assert says in done.stderr


@pytest.mark.long
def test_a_kill_in_the_middle_changes_no_byte(tmp_path):
  cache = f"--compilation_cache={tmp_path / 'programs'}"
  whole, killed = tmp_path / "whole", tmp_path / "killed"
  done = run(*SMALL, cache, f"--workdir={whole}", program=PROGRAM)
  assert done.returncode == 0, done.stderr
  told = "temperature.md, temperature.tex, temperature.csv"
  assert f"{told}, temperature-smoke.svg" in done.stdout
  command = *SMALL, cache, f"--workdir={killed}"
  second = killed / "temperature" / "smoke" / "temperature-1" / "items.jsonl"
  process = start(*command, program=PROGRAM)
  while not (second.exists() and second.stat().st_size):
    assert process.poll() is None
    time.sleep(0.01)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  before = contents(killed)
  assert not any(name.endswith(".md") for name in before)
  stopped = start(*command, program=PROGRAM)
  assert stopped.stderr.readline().startswith("1/2 ")
  stopped.send_signal(signal.SIGTERM)
  stopped.communicate()
  assert stopped.returncode == 143
  done = run(*command, program=PROGRAM)
  assert done.returncode == 0, done.stderr
  assert contents(killed) == contents(whole)
  again = run(*command, program=PROGRAM)
  assert "answers are all there" in again.stderr
  assert contents(killed) == contents(whole)


class Machine:
  """Runs nothing: keeps what is told to run, and what alone."""

  def __init__(self, monkeypatch, failing=None):
    self.failing, self.running, self.told = failing, [], []
    monkeypatch.setattr(launcher.cli, "start_child", self.start)
    monkeypatch.setattr(launcher.cli, "run_child", self.alone)
    monkeypatch.setattr(launcher, "_show", lambda *_: None)

  def start(self, command, **_):
    self.told.append(command[2:])
    self.running.append(command)
    return Process(self, command)

  def alone(self, command):
    assert not self.running
    self.told.append([*command[2:], "alone"])
    return 0


class Process:
  def __init__(self, machine, command):
    self.machine, self.command = machine, command

  def poll(self):
    self.machine.running.remove(self.command)
    name = self.command[2]
    self.returncode = int(name == f"experiments.{self.machine.failing}")
    return self.returncode


@pytest.mark.parametrize("failing", [None, "statistics"])
def test_times_are_taken_when_nothing_else_runs(failing, monkeypatch):
  machine = Machine(monkeypatch, failing)
  status = launcher.main(["--jobs=2", "--workdir=a"])
  assert status == int(failing is not None)
  timed = ["main_table", "statistics", "frontier", "drafts"]
  together = machine.told[: len(names.NAMES)]
  # The longest begins first: else a core waits for it in the end.
  assert [one[0] for one in together[:2]] == [
    "experiments.frontier",
    "experiments.main_table",
  ]
  assert sorted(together) == sorted(
    [f"experiments.{name}", "--workdir=a", *["--notimes"] * (name in timed)]
    for name in names.NAMES
  )
  assert machine.told[len(names.NAMES) :] == [
    [f"experiments.{name}", "--workdir=a", "alone"]
    for name in timed
    if name != failing
  ]


@pytest.mark.long
def test_a_page_says_what_was_not_run(tmp_path):
  """SMOKE=1 make experiments, in .ci/run, makes one of all."""
  page = tmp_path / "results.md"
  told = f"--workdir={tmp_path / 'nothing'}", f"--out={page}"
  done = run(*told, program="experiments.results")
  assert done.returncode == 0, done.stderr
  wanting = [one for one in names.all_of_them() if one.configs]
  assert page.read_text().count("Not run.") == len(wanting) > 5
