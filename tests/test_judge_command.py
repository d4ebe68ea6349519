"""The judge's command: kills, Ctrl-C, and one line for what a user can mend."""

import collections
import json
import signal
import socket
import time

import pytest

from experiments.judge import client, command, grades
from experiments.judge.client import endpoint
from experiments.judge.grades import Exam
from tests.commands import ended, start
from tests.judges import KEY, MODEL, NAME, double, finished_run, reply, trouble
from tests.test_main_crashes import wait
from tv_jax.edge import cli
from tv_jax.runs import store

PROGRAM = "experiments.judge"
GRADES = 2 * 12  # runs of the judge, and answers


@pytest.fixture(autouse=True)
def environment(monkeypatch):
  monkeypatch.setenv(NAME, KEY)
  monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def folder(tmp_path):
  return finished_run(tmp_path / "runs" / "one")


def flags(folder, url):
  return (
    str(folder),
    f"--judge_url={url}",
    f"--judge_model={MODEL}",
    f"--judge_key={NAME}",
    "--judge_runs=2",
  )


def run(*arguments):
  return ended(start(*arguments, program=PROGRAM))


def unseen(folder, *texts):
  """Whether the key is in no file and in no output."""
  files = [path for path in folder.parent.rglob("*") if path.is_file()]
  texts = [*texts, *(path.read_text() for path in files)]
  assert len(texts) > 4
  return not any(KEY in text for text in texts)


def one_line(done):
  """What a command was refused with."""
  assert done.returncode == 2, done.stderr
  assert "Traceback" not in done.stderr
  line = done.stderr.splitlines()[-1]
  assert line.startswith(f"{PROGRAM}: ")
  assert done.stdout == ""
  assert KEY not in done.stderr
  return line


def lines(folder):
  path = folder / grades.FILE
  return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


GIVEN = ["runs", "--judge_url=http://h", f"--judge_model={MODEL}"]


# What is wrong with an endpoint is in tests/test_judge.py.
@pytest.mark.parametrize(
  ("given", "told"),
  [
    (GIVEN[1:], "give the folder of a run"),
    ([*GIVEN, f"--judge_key={KEY}"], "there is no such variable"),
    ([*GIVEN, "--workdir=other"], "give the folder of a run"),
    ([*GIVEN, "--judge_runs=0"], "--judge_runs=0: "),
  ],
)
def test_a_bad_command_is_one_line(given, told):
  done = run(*given)
  assert told in one_line(done)
  assert done.stderr.count("\n") == 1


@pytest.mark.judge
def test_names_that_other_commands_have_are_taken(folder):
  with double() as server:
    _, *given = flags(folder, server.url)
    done = run(f"--workdir={folder}", "--tasks=qa", *given)
  assert done.returncode == 0, done.stderr
  assert len(server.asked) == len(lines(folder)) == 2 * 3


def inside(folder, url="http://127.0.0.1", **options):
  """The command's exit status, in this process."""
  place = endpoint(url, MODEL, NAME, 10.0)
  return command.run(cli.Heard(), folder, place, **{"runs": 2} | options)


def test_a_folder_with_nothing_to_grade(tmp_path):
  (tmp_path / "empty").mkdir()
  finished_run(tmp_path / "other" / "run", tasks="qa")
  damaged = finished_run(tmp_path / "damaged")
  (damaged / grades.FILE).write_text('{"task": "mt_bench"}\n')
  for name, told in (
    ("nowhere", "nowhere cannot be read: No such file"),
    ("empty", "empty: there is no run in it"),
    ("other", "no answers of mt_bench, but of qa: give --judge_tasks"),
    ("damaged", f"{grades.FILE}, line 1: question is missing"),
  ):
    with pytest.raises((ValueError, OSError), match=told):
      inside(tmp_path / name)


@pytest.mark.judge
def test_an_endpoint_of_no_use_is_one_line(folder, monkeypatch):
  with double(lambda body, number: trouble(401, f"bad: {KEY}")) as server:
    done = run(*flags(folder, server.url))
  assert "(HTTP 401): give --judge_key=NAME, of the" in one_line(done)
  assert len(server.asked) <= 4
  assert unseen(folder, done.stdout, done.stderr)
  with socket.create_server(("127.0.0.1", 0)) as nobody:
    url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
  monkeypatch.setattr(client, "RETRIES", 0)
  with pytest.raises(client.EndpointError, match="in a row no reply, the last"):
    inside(folder, url)
  assert lines(folder) == []


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
    " because: HTTP 502: no [key]"
  )
  assert "bundled/target by a-judge, without_replacement, T = 1" in told.out
  (row,) = [x for x in told.out.splitlines() if "traversal" in x]
  cells = [cell.strip() for cell in row.strip("│").split("│")]
  assert cells == [
    *("chain:5", "traversal", "6.00 ± 0.00", "+0.00 ± 0.00"),
    *("2", "6", "0", "2", "0", "6.77"),
  ]
  assert unseen(folder, told.out, told.err)
  with double() as server:  # they are asked for again, and nothing else
    assert inside(folder.parent, server.url) == 0
  assert len(server.asked) == 6


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
    assert unseen(folder, done.stdout, done.stderr)


@pytest.mark.judge
@pytest.mark.parametrize(
  ("number", "word"),
  [
    pytest.param(signal.SIGINT, "interrupted", marks=pytest.mark.long),
    (signal.SIGTERM, "interrupted by SIGTERM"),
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
  assert done.stderr.splitlines()[-1] == f"{word}: the same command goes on"
  assert "Traceback" not in done.stderr
  assert done.stdout == ""
  assert len([json.loads(line) for line in lines(folder)]) == 6
