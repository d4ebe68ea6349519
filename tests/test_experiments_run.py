"""Experiments as they are run: commands, kills, and the paper's pairs."""

import signal
import time

import pytest

from experiments import __main__ as launcher
from experiments import names
from tests.commands import run, start

# Two shards of two questions: one temperature each, by the same programs.
SMALL = ("--smoke", "--config=configs/smoke.py")
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
    (["experiments.depth", "--no_such_flag"], "no_such_flag"),
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


def test_the_longest_begins_first():
  """With the one that takes longest last, a core waits for it at the end."""
  found = launcher._longest_first(names.NAMES)
  assert found[:2] == ["frontier", "main_table"]
  assert sorted(found) == sorted(names.NAMES)
  assert set(launcher._LONG) < set(names.NAMES)


@pytest.mark.parametrize("failing", [None, "statistics"])
def test_times_are_taken_when_nothing_else_runs(failing, monkeypatch):
  running, told = [], []

  class Process:
    returncode = None

    def __init__(self, command, **_):
      self.name, *self.flags = command[2:]
      told.append((self.name, *self.flags))
      running.append(self)

    def poll(self):
      self.returncode = int(f"experiments.{failing}" == self.name)
      running.remove(self)
      return self.returncode

  def alone(command):
    assert not running
    told.append((*command[2:], "alone"))
    return 0

  monkeypatch.setattr(launcher.cli, "start_child", Process)
  monkeypatch.setattr(launcher.cli, "run_child", alone)
  monkeypatch.setattr(launcher, "_show", lambda one: None)
  status = launcher.main(["--jobs=2", "--workdir=a"])
  assert status == int(failing is not None)
  timed = ["main_table", "statistics", "frontier"]
  assert {*told[: len(names.NAMES)]} == {
    (f"experiments.{name}", "--workdir=a", *["--notimes"] * (name in timed))
    for name in names.NAMES
  }
  assert told[len(names.NAMES) :] == [
    (f"experiments.{name}", "--workdir=a", "alone")
    for name in timed
    if name != failing
  ]


@pytest.mark.parametrize(
  "told", [["frontier", "depth", "--jobs=1"], ["frontier", "--jobs=2"]]
)
def test_what_runs_alone_takes_its_times_itself(told, monkeypatch):
  run = []
  monkeypatch.setattr(
    launcher.cli, "run_child", lambda command: run.append(command[2:]) or 0
  )
  assert launcher.main(told) == 0
  assert run == [[f"experiments.{name}"] for name in told[:-1]]


@pytest.mark.parametrize("flag", ["--render", "--smoke", "--notimes"])
def test_where_no_times_are_taken_all_run_once(flag, monkeypatch):
  given = []
  monkeypatch.setattr(
    launcher, "_at_once", lambda wanted, jobs: given.append(wanted) or {}
  )
  monkeypatch.setattr(launcher.cli, "run_child", None)
  assert launcher.main([flag, "--jobs=2"]) == 0
  assert given == [{name: [flag] for name in names.NAMES}]


@pytest.mark.long
def test_two_of_them_as_little_as_shows_that_they_work(tmp_path):
  """As SMOKE=1 make experiments, which takes longer than a test may."""
  place, some = tmp_path / "runs", ("worked_example", "temperature")
  told = (*some, "--smoke", "--jobs=2", f"--workdir={place}")
  done = run(*told, program="experiments")
  assert done.returncode == 0, done.stderr
  for name in some:  # both begin before what one of them prints
    begin = done.stdout.index(f"python -m experiments.{name}")
    assert begin < done.stdout.index("\nexperiments.")
    assert f"{place / name}: {name}.md" in done.stdout
  page = tmp_path / "results.md"
  done = run(
    f"--workdir={place}", f"--out={page}", program="experiments.results"
  )
  assert done.returncode == 0, done.stderr
  text = page.read_text()
  for one in names.all_of_them():
    assert f"python -m experiments.{one.name}" in text
    made = (place / one.name / f"{one.name}.md").exists()
    assert made == (one.name in some)
  assert text.count("Not run.") == len(names.NAMES) - len(some)
  (figure,) = (tmp_path / "results").iterdir()
  assert figure.name == "temperature-quickstart.svg"
