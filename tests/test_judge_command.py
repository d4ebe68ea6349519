"""The judge's command: kills, Ctrl-C, and one line for what a user can mend."""

import collections
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.judge import command, grades
from experiments.judge.client import endpoint
from experiments.judge.grades import Exam
from tests.commands import ended, start
from tests.judges import (
  KEY,
  MODEL,
  NAME,
  at_once,
  double,
  finished_run,
  reply,
  trouble,
)
from tests.stores import ROOT
from tests.test_judge_client import unused
from tests.test_main_crashes import wait
from tv_jax.edge import cli
from tv_jax.runs import store

PROGRAM = "experiments.judge"
GRADES = 2 * 12  # runs of the judge, and answers
# With pauses that are none.
QUICK = f"""
import runpy
from experiments.judge import client
client.FIRST = 0.001
runpy.run_module("{PROGRAM}", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(autouse=True, scope="module")
def environment():
  patch = pytest.MonkeyPatch()
  patch.setenv(NAME, KEY)
  patch.setenv("no_proxy", "*")
  yield
  patch.undo()


@pytest.fixture
def folder(tmp_path):
  return finished_run(tmp_path / "runs" / "one")


def flags(folder, url, *more):
  key = f"--judge_key={NAME}"
  return (
    str(folder),
    f"--judge_url={url}",
    f"--judge_model={MODEL}",
    key,
    "--judge_runs=2",
    *more,
  )


def run(*arguments):
  return ended(start(*arguments, program=PROGRAM))


def quickly(*arguments):
  return subprocess.run(
    [sys.executable, "-c", QUICK, *arguments],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": str(ROOT)},
    capture_output=True,
    text=True,
  )


def unseen(folder, *done):
  """Whether the key is in no file and in no output."""
  files = [path for path in folder.parent.rglob("*") if path.is_file()]
  texts = [path.read_text() for path in files]
  texts += [text for one in done for text in (one.stdout, one.stderr)]
  assert len(texts) > 4
  return not any(KEY in text for text in texts)


def one_line(done):
  """What a command was refused with."""
  assert done.returncode == 2, done.stderr
  assert "Traceback" not in done.stderr
  line = done.stderr.splitlines()[-1]
  assert line.startswith(f"{PROGRAM}: ")
  assert done.stdout == ""
  return line


def lines(folder):
  path = folder / grades.FILE
  return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


GIVEN = ["runs", "--judge_url=http://h", f"--judge_model={MODEL}"]
# What is wrong with an endpoint is in tests/test_judge_client.py.
BAD = [
  (["--judge_model=m", "--judge_url=http://h"], "give the folder of a run"),
  ([*GIVEN, f"--judge_key={KEY}"], "there is no such variable"),
  ([*GIVEN, "--workdir=other"], "give the folder of a run"),
  ([*GIVEN, "--judge_runs=0"], "--judge_runs=0: give 1 or more"),
  ([*GIVEN, "--judge_kee=x"], "Unknown command line flag 'judge_kee'"),
]


def test_a_bad_command_is_one_line():
  with concurrent.futures.ThreadPoolExecutor(2) as pool:
    found = pool.map(lambda case: run(*case[0]), BAD)
    for done, (_, told) in zip(found, BAD, strict=True):
      line = one_line(done)
      assert told in line
      assert done.stderr.count("\n") == 1
      assert KEY not in line


def test_help_has_all_flags():
  done = run("--help")
  names = ("url", "model", "key", "runs", "workers", "timeout", "tasks")
  assert all(f"--judge_{name}:" in done.stdout for name in names)


@pytest.mark.judge
def test_names_that_other_commands_have_are_taken(folder):
  with double() as server:
    _, *given = flags(folder, server.url)
    done = run(f"--workdir={folder}", "--tasks=qa", *given)
  assert done.returncode == 0, done.stderr
  assert len(server.asked) == len(lines(folder)) == 2 * 3


def test_a_damaged_file_is_one_line(folder):
  for text, told in (
    ("[" * 100_000, "no JSON: it is nested too deeply"),
    ('{"task": "mt_bench"}', "question is missing"),
  ):
    (folder / grades.FILE).write_text(f"{text}\n")
    line = one_line(run(*flags(folder, "http://h")))
    assert f"{grades.FILE}, line 1: {told}" in line


def test_a_bad_flag_is_answered_before_anything_slow_is_imported():
  body = (
    "import sys, experiments.judge.__main__; sys.exit('jax' in sys.modules)"
  )
  assert subprocess.run([sys.executable, "-c", body], cwd=ROOT).returncode == 0


def inside(folder, url="http://127.0.0.1", **options):
  """The command's exit status, in this process."""
  place = endpoint(url, MODEL, NAME, 10.0)
  own = {"runs": 2, "sleep": at_once} | options
  return command.run(cli.Heard(), folder, place, **own)


def test_a_folder_with_nothing_to_grade(tmp_path):
  (tmp_path / "empty").mkdir()
  finished_run(tmp_path / "other" / "run", tasks="qa")
  for name, told in (
    ("nowhere", "nowhere cannot be read: No such file"),
    ("empty", "empty: there is no run in it"),
    ("other", "no answers of mt_bench, but of qa: give --judge_tasks"),
  ):
    with pytest.raises((ValueError, OSError), match=told):
      inside(tmp_path / name)


@pytest.mark.judge
def test_a_wrong_key_is_one_line(folder):
  with double(lambda body, number: trouble(401, f"bad: {KEY}")) as server:
    done = run(*flags(folder, server.url))
  assert "(HTTP 401): give --judge_key=NAME, of the" in one_line(done)
  assert len(server.asked) <= 4
  assert unseen(folder, done)


@pytest.mark.judge
def test_nobody_there_is_one_line(folder):
  url = f"http://127.0.0.1:{unused()}"
  done = quickly(*flags(folder, url))
  assert one_line(done) == (
    f"{PROGRAM}: {url}/v1/chat/completions cannot be reached: Connection"
    " refused (6 attempts)"
  )
  assert unseen(folder, done)


@pytest.mark.judge
def test_grades_that_are_missing_are_told(folder, capsys):
  def respond(body, number):
    hard = "(81, 1)" in body["messages"][0]["content"]
    return trouble(502, f"no {KEY}") if hard else reply(f"I saw {KEY}: [[6]]")

  (folder / "DONE").unlink()
  with double(respond) as server:
    assert inside(folder.parent, server.url, workers=1) == 1
  told = capsys.readouterr()
  first, *_, last = told.err.splitlines()
  assert first == f"{folder}: THE RUN IS NOT FINISHED"
  assert last == (
    "6 GRADES ARE MISSING: the same command asks for them again; the last one"
    " because: HTTP 502: no [key] (6 attempts)"
  )
  assert "bundled/target by a-judge, without_replacement, T = 1" in told.out
  (row,) = [x for x in told.out.splitlines() if "traversal" in x]
  cells = [cell.strip() for cell in row.strip("│").split("│")]
  assert cells == [
    *("chain:5", "traversal", "6.00 ± 0.00", "+0.00 ± 0.00"),
    *("2", "6", "0", "2", "0", "6.77"),
  ]
  assert KEY not in told.out + told.err
  assert unseen(folder)


def slowly(body, number):
  time.sleep(0.05)
  return reply()


def asked_of(folder):
  """How often each prompt has been answered, as the file has it."""
  chats = Exam.of(store.read(folder)).prompts
  return collections.Counter(
    chats[key.answer][0]["content"] for key in grades.read(folder)
  )


@pytest.mark.judge
def test_a_kill_asks_nothing_twice_that_was_answered(folder):
  with double(slowly) as server:
    given = flags(folder, server.url)
    process = start(*given, program=PROGRAM)
    wait(process, lambda: len(lines(folder)) >= 5)
    process.kill()
    assert ended(process).returncode == -signal.SIGKILL
    time.sleep(0.2)  # what it sent at the very last has arrived
    there, before = lines(folder), asked_of(folder)
    assert 5 <= len(there) < GRADES
    assert len(server.asked) <= len(there) + 4
    # A kill may tear the last line, too.
    path = folder / grades.FILE
    path.write_bytes(path.read_bytes() + b'{"task": "mt_be')
    server.asked.clear()
    done = run(*given)
    assert done.returncode == 0, done.stderr
    assert len(server.asked) == GRADES - len(there)
    every = asked_of(folder)
    assert {*every.values()} == {2}
    assert server.prompts == every - before
    assert lines(folder)[: len(there)] == there
    assert f"{GRADES} grades by {MODEL}" in done.stderr
    assert f"2 each; {len(there)} are there" in done.stderr
    assert "7.00 ± 0.00" in done.stdout
    assert unseen(folder, done)


@pytest.mark.judge
@pytest.mark.parametrize(
  ("number", "word"),
  [
    pytest.param(
      signal.SIGINT,
      "interrupted: the same command goes on",
      marks=pytest.mark.long,
    ),
    (signal.SIGTERM, "interrupted by SIGTERM: the same command goes on"),
  ],
)
def test_a_signal_ends_it_at_once_and_loses_nothing(folder, number, word):
  def respond(body, count):
    # The last ones would be waited for.
    return reply() if count < 6 else server.ending.wait() and reply()

  with double(respond) as server:
    process = start(*flags(folder, server.url), program=PROGRAM)
    wait(process, lambda: len(server.asked) == 6 + 4)
    wait(process, lambda: len(lines(folder)) == 6)
    begin = time.monotonic()
    process.send_signal(number)
    done = ended(process)
    assert time.monotonic() - begin < 60  # half of the time-out
  assert done.returncode == 128 + number
  assert done.stderr.splitlines()[-1] == word
  assert "Traceback" not in done.stderr
  assert done.stdout == ""
  for line in lines(folder):
    json.loads(line)
  assert len(lines(folder)) == 6
