"""The judge's command: kills, Ctrl-C, and one line for what a user can mend."""

import collections
import json
import signal
import socket
import time

import pytest

from experiments.judge import client, command, grades
from experiments.judge.client import endpoint
from tests.commands import ended, run, start
from tests.judges import KEY, MODEL, NAME, double, finished_run, reply, trouble
from tests.test_main_crashes import wait
from tv_jax.edge import cli

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


def lines(folder):
  path = folder / grades.FILE
  return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


# What is wrong with an endpoint is in tests/test_judge.py.
@pytest.mark.parametrize(
  ("given", "told"),
  [
    ([], "give the folder of a run"),
    (["runs", f"--judge_key={KEY}"], "there is no such variable"),
  ],
)
def test_a_bad_command_is_one_line(given, told):
  place = "--judge_url=http://h", f"--judge_model={MODEL}"
  done = run(*given, *place, program=PROGRAM)
  assert done.returncode == 2
  assert told in done.stderr
  assert done.stderr.count("\n") == 1
  assert KEY not in done.stderr


def inside(folder, url="http://127.0.0.1", **options):
  """The command's exit status, in this process."""
  place = endpoint(url, MODEL, NAME, 10.0)
  return command.run(cli.Heard(), folder, place, **{"runs": 2} | options)


def test_a_folder_with_nothing_to_grade(tmp_path):
  (tmp_path / "empty").mkdir()
  finished_run(tmp_path / "other" / "run", tasks="qa")
  for name, told in (
    ("empty", "empty: there is no run in it"),
    ("other", "no answers of mt_bench, but of qa: give --judge_tasks"),
  ):
    with pytest.raises(ValueError, match=told):
      inside(tmp_path / name)


@pytest.mark.judge
def test_an_endpoint_of_no_use_is_one_line(folder, monkeypatch):
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
  assert last.startswith("6 GRADES ARE MISSING: ")
  assert last.endswith("because: HTTP 502: no [key]")
  assert "6.00 ± 0.00" in told.out
  with double() as server:  # they are asked for again, and nothing else
    assert inside(folder.parent, server.url) == 0
  assert len(server.asked) == 6


def slowly(body, number):
  time.sleep(0.05)
  return reply()


@pytest.mark.judge
def test_a_kill_asks_nothing_twice_that_was_answered(folder):
  with double(slowly) as server:
    given = flags(folder, server.url)
    process = start(*given, program=PROGRAM)
    wait(process, lambda: len(lines(folder)) >= 5)
    process.kill()
    assert ended(process).returncode == -signal.SIGKILL
    time.sleep(0.2)  # what it sent at the very last has arrived
    there = lines(folder)
    assert 5 <= len(there) < GRADES
    assert len(server.asked) <= len(there) + 4
    # A kill may tear the last line, too.
    path = folder / grades.FILE
    path.write_bytes(path.read_bytes() + b'{"task": "mt_be')
    server.asked.clear()
    done = run(*given, program=PROGRAM)
    assert done.returncode == 0, done.stderr
    assert len(server.asked) == GRADES - len(there)
    times = collections.Counter(key.answer for key in grades.read(folder))
    assert {*times.values()} == {2}
    assert lines(folder)[: len(there)] == there
    assert "7.00 ± 0.00" in done.stdout
    texts = [path.read_text() for path in folder.iterdir() if path.is_file()]
    assert not any(KEY in text for text in (done.stdout, done.stderr, *texts))


@pytest.mark.judge
def test_a_signal_ends_it_at_once_and_loses_nothing(folder):
  def respond(body, count):
    # The last ones would be waited for.
    return reply() if count < 6 else server.ending.wait() and reply()

  with double(respond) as server:
    process = start(*flags(folder, server.url), program=PROGRAM)
    wait(process, lambda: len(server.asked) == 6 + 4)
    wait(process, lambda: len(lines(folder)) == 6)
    process.send_signal(signal.SIGTERM)
    done = ended(process)
  assert done.returncode == 128 + signal.SIGTERM
  assert done.stderr.endswith("by SIGTERM: the same command continues\n")
  assert len([json.loads(line) for line in lines(folder)]) == 6
