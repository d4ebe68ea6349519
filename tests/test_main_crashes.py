"""Kills, Ctrl-C, torn lines: the same bytes at the end."""

import random
import re
import signal
import time

import pytest

from tests.commands import SMALL, contents, ended, refused, run, start

pytestmark = pytest.mark.long  # tests/test_evaluate.py has a torn line

KILLS = 8
LINES = 12


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
  """The files of an undisturbed run, what a second process said, and its id."""
  folder = tmp_path_factory.mktemp("undisturbed") / "run"
  command = f"--workdir={folder}", cache, *SMALL
  first = start(*command)
  wait(first, lambda: (folder / "env.json").exists())
  second = run(*command)
  assert first.poll() is None
  done = ended(first)
  assert done.returncode == 0, done.stderr
  assert lines_in(folder) == LINES
  return contents(folder), second, first.pid


def wait(process, condition, seconds=600.0):
  """Until something holds, or the process has ended."""
  limit = time.monotonic() + seconds
  while process.poll() is None and not condition():
    assert time.monotonic() < limit
    time.sleep(0.001)


def is_progress(lines):
  """Whether nothing else was said: no warnings of anybody's."""
  known = r"12 answers in 2 cells|[12]/2 |answers, \d+ of 12"
  return all(re.match(known, line) for line in lines)


def lines_in(folder):
  path = folder / "items.jsonl"
  return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_second_process_is_refused_and_harms_nothing(whole):
  _, second, pid = whole
  assert second.stderr.count("\n") == 1
  assert f"is being written by process {pid} on host" in refused(second)


def test_kills_at_any_moment_change_nothing(whole, cache, tmp_path):
  expected, _, _ = whole
  folder = tmp_path / "run"
  path, command = folder / "items.jsonl", (f"--workdir={folder}", cache, *SMALL)
  rng, before, torn = random.Random(0), b"", 0
  for number in range(KILLS):
    # At least one line is left to be made after the last kill.
    wanted = min(lines_in(folder) + rng.randint(0, 2), LINES - 1)
    process = start(*command)
    if number % 4:
      wait(process, lambda wanted=wanted: lines_in(folder) >= max(1, wanted))
    else:
      time.sleep(rng.uniform(0, 4))
    process.kill()
    assert ended(process).returncode == -signal.SIGKILL
    left = path.read_bytes() if path.exists() else b""
    # No line that was there is lost, changed or made again.
    assert left.startswith(before)
    if left and number % 2:
      torn += 1
      last = len(left) - (left.rfind(b"\n", 0, -1) + 1)
      left = left[: len(left) - rng.randint(1, last - 1)]
      path.write_bytes(left)
    before = left[: left.rfind(b"\n") + 1]
  assert torn
  done = run(*command)
  assert done.returncode == 0, done.stderr
  assert path.read_bytes().startswith(before)
  assert contents(folder) == expected


def test_pre_emption_loses_nothing(whole, cache, tmp_path):
  """Ctrl-C is the same: tests/test_cli.py."""
  expected, _, _ = whole
  folder = tmp_path / "run"
  command = f"--workdir={folder}", cache, *SMALL
  process = start(*command)
  wait(process, lambda: lines_in(folder) >= LINES // 2)
  process.send_signal(signal.SIGTERM)
  done = ended(process)
  assert (done.returncode, done.stdout) == (130, "")
  assert done.stderr.splitlines()[-1] == "tv_jax.main: interrupted"
  assert LINES // 2 <= lines_in(folder) < LINES
  assert not (folder / "DONE").exists()
  written = (folder / "items.jsonl").read_bytes()
  done = run(*command)
  assert done.returncode == 0, done.stderr
  assert contents(folder)["items.jsonl"].startswith(written)
  assert contents(folder) == expected
