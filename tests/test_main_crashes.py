"""Kills, Ctrl-C, torn lines, full disks: the same bytes at the end."""

import concurrent.futures
import random
import re
import signal
import time

import pytest

from tests.commands import SMALL, contents, ended, refused, run, start

pytestmark = pytest.mark.long  # tests/test_evaluate.py has a torn line

KILLS = 4  # of each of two runs
LINES = 12


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
  """What an undisturbed run leaves, and what a second process was told."""
  folder = tmp_path_factory.mktemp("undisturbed") / "run"
  command = f"--workdir={folder}", cache, *SMALL
  first = start(*command)
  wait(first, lambda: (folder / "env.json").exists())
  second = run(*command)
  assert first.poll() is None
  done = ended(first)
  assert done.returncode == 0, done.stderr
  left = contents(folder)
  assert left["items.jsonl"].count(b"\n") == LINES
  assert len([name for name in left if name.endswith(".svg")]) == 1
  return left, second, first.pid


def wait(process, condition, seconds=600.0):
  """Until something holds, or the process has ended."""
  limit = time.monotonic() + seconds
  while process.poll() is None and not condition():
    assert time.monotonic() < limit
    time.sleep(0.001)


def told(done):
  return done.stderr.splitlines()


def is_progress(lines):
  """Whether nothing else was told: no warnings of anybody's."""
  known = r"12 answers in 2 cells|[12]/2 |answers, \d+ of 12"
  return all(re.match(known, line) for line in lines)


def lines_in(folder):
  path = folder / "items.jsonl"
  return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_second_process_is_refused_and_harms_nothing(whole):
  _, second, pid = whole
  assert second.stderr.count("\n") == 1
  assert f"is being written by process {pid} on host" in refused(second)


def kill_often(folder, command, seed):
  """Kills a run again and again; what was left each time.

  The first comes at any moment, the others while answers are written.

  Returns:
    Items' bytes after each kill, and as the next process was to find them: from
    some a piece of the last line is cut.
  """
  rng, kills = random.Random(seed), []
  while len(kills) < KILLS:
    there = lines_in(folder)
    # At least one line is left to be made after the last kill.
    wanted = min(there + rng.randint(1, 3), LINES - 1)
    with open(folder.with_suffix(".log"), "ab") as log:
      process = start(*command, stdout=log, stderr=log)
    if kills and there < wanted:
      wait(process, lambda wanted=wanted: lines_in(folder) >= wanted)
    else:
      time.sleep(rng.uniform(0, 4))
    process.kill()
    if process.wait() != -signal.SIGKILL:
      break
    path = folder / "items.jsonl"
    left = path.read_bytes() if path.exists() else b""
    torn = left
    if left and rng.random() < 0.4:
      last = len(left) - (left.rfind(b"\n", 0, -1) + 1)
      torn = left[: len(left) - rng.randint(1, last - 1)]
      path.write_bytes(torn)
    kills.append((left, torn))
  return kills


def test_kills_at_any_moment_change_nothing(whole, cache, tmp_path):
  expected, _, _ = whole
  folders = [tmp_path / "first" / "run", tmp_path / "second" / "run"]
  commands = [(f"--workdir={folder}", cache, *SMALL) for folder in folders]
  for folder in folders:
    folder.parent.mkdir()
  with concurrent.futures.ThreadPoolExecutor() as pool:
    found = [*pool.map(kill_often, folders, commands, (0, 1))]
    done = [*pool.map(lambda command: run(*command), commands)]
  partly = 0
  for folder, kills, last in zip(folders, found, done, strict=True):
    assert len(kills) == KILLS, folder.with_suffix(".log").read_text()
    assert "Traceback" not in folder.with_suffix(".log").read_text()
    assert (last.returncode, "Traceback" in last.stderr) == (0, False)
    before = b""
    for left, torn in kills:
      # No line that was there is lost, changed or made again.
      assert left.startswith(before)
      before = torn[: torn.rfind(b"\n") + 1]
      # Batches are of 3 rows and 1, then of 2.
      partly += before.count(b"\n") % 6 not in (0, 3, 4)
    assert contents(folder)["items.jsonl"].startswith(before)
    assert contents(folder) == expected
  # Some batches were answered in two parts.
  assert partly > 0
  assert sum(left != torn for kills in found for left, torn in kills) > 0


def test_lines_that_are_missing_anywhere_come_again(whole, cache, tmp_path):
  """Rows of every place in a batch are padding, second turns come first."""
  expected, _, _ = whole
  folder = tmp_path / "run"
  folder.mkdir()
  (folder / "config.json").write_bytes(expected["config.json"])
  rng = random.Random(0)
  lines = expected["items.jsonl"].splitlines(keepends=True)
  kept = rng.sample(lines, LINES // 2)
  (folder / "items.jsonl").write_bytes(b"".join(kept))
  done = run(f"--workdir={folder}", cache, *SMALL)
  assert done.stderr.splitlines()[0].endswith(f", {LINES // 2} are there")
  left = contents(folder)
  again = left.pop("items.jsonl").splitlines(keepends=True)
  assert again[: LINES // 2] == kept
  assert sorted(again) == sorted(expected["items.jsonl"].splitlines(True))
  assert left == {k: v for k, v in expected.items() if k != "items.jsonl"}


def interrupt(command, ready, number=signal.SIGINT):
  """Ctrl-C, or its like, once `ready`."""
  process = start(*command)
  wait(process, ready)
  process.send_signal(number)
  done = ended(process)
  assert (done.returncode, done.stdout) == (130, "")
  assert told(done)[-1] == "tv_jax.main: interrupted"


def test_ctrl_c_and_pre_emption_lose_nothing(whole, cache, tmp_path):
  expected, _, _ = whole
  folder = tmp_path / "run"
  command = f"--workdir={folder}", cache, *SMALL
  interrupt(command, (folder / "items.jsonl").exists)
  # In the middle, and of a cell; by what pre-emption sends.
  interrupt(command, lambda: lines_in(folder) >= 8, signal.SIGTERM)
  there = lines_in(folder)
  assert 8 <= there < LINES
  assert not (folder / "DONE").exists()
  written = (folder / "items.jsonl").read_bytes()
  done = run(folder, program="tv_jax.report")
  assert done.returncode == 0, done.stderr
  unfinished = f"THE RUN IS NOT FINISHED: {there} answers are there; the same"
  assert unfinished in (folder / "table.md").read_text()
  assert unfinished in (folder / "report.html").read_text()
  done = run(*command)
  assert done.returncode == 0, done.stderr
  assert "NOT FINISHED" not in done.stdout
  assert contents(folder)["items.jsonl"].startswith(written)
  assert contents(folder) == expected
