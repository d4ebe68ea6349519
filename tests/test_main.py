"""The command as users run it: finished runs, mistakes, kills, pre-emption."""

import random
import re
import shutil
import signal
import time

import pytest

from tests.lib.commands import (
  SMALL,
  contents,
  ended,
  refused,
  run,
  start,
  until,
)
from tv_jax.io.reading import BUNDLED
from tv_jax.runs import report

KILLS = 8
LINES = 12


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
  folder = tmp_path_factory.mktemp("models") / "pair"
  shutil.copytree(BUNDLED, folder)
  return folder


@pytest.fixture(scope="module")
def flags(cache, pair):
  names = "target", "draft"
  return (
    cache,
    *SMALL,
    *(f"--config.models.{name}={pair}/{name}" for name in names),
  )


@pytest.fixture(scope="module")
def finished(flags, tmp_path_factory):
  """The folder of an undisturbed run, and its printed output."""
  above = tmp_path_factory.mktemp("finished")
  # From another folder: configs and their imports are found.
  done = run(f"--workdir={above / 'run'}", *flags, cwd=above)
  assert done.returncode == 0, done.stderr
  # Nothing else is printed, such as warnings of libraries.
  known = r"12 answers in 2 cells|[12]/2 |answers, \d+ of 12"
  assert all(re.match(known, line) for line in done.stderr.splitlines())
  assert lines_in(above / "run") == LINES
  return above / "run", done.stdout


def one_line(done):
  """Returns the only line of a command that refused to start."""
  assert done.stderr.count("\n") == 1, done.stderr
  return refused(done)


def lines_in(folder):
  path = folder / "items.jsonl"
  return path.read_bytes().count(b"\n") if path.exists() else 0


def wait(process, condition):
  """Waits until a condition holds, or the process has ended."""
  until(lambda: process.poll() is not None or condition())


def test_a_finished_run_is_shown_again_without_its_models(
  finished, flags, pair
):
  folder, shown = finished
  before = contents(folder), (folder / "report.html").read_bytes()
  gone = pair.rename(pair.with_name("gone"))
  done = run(f"--workdir={folder}", *flags)
  gone.rename(pair)
  assert done.returncode == 0
  assert done.stdout == shown
  assert done.stderr == "12 answers are all there\n"
  assert before == (contents(folder), (folder / "report.html").read_bytes())


def test_the_report_comes_again_from_the_items(finished):
  """Another process writes the same bytes."""
  folder, _ = finished
  kinds = (".csv", ".md", ".tex", ".html")
  before = {x: x.read_bytes() for x in folder.iterdir() if x.suffix in kinds}
  assert len(before) == 4
  for path in before:
    path.unlink()
  report.write(folder)
  for path, content in before.items():
    assert path.read_bytes() == content


@pytest.mark.long  # tests/runs/test_running.py has a torn line
def test_kills_at_any_moment_change_nothing(finished, flags, tmp_path):
  folder = tmp_path / "run"
  path, command = folder / "items.jsonl", (f"--workdir={folder}", *flags)
  rng, before, torn = random.Random(0), b"", 0
  for number in range(KILLS):
    # At least one line is left to be made after the last kill.
    wanted = min(lines_in(folder) + rng.randint(0, 2), LINES - 1)
    process = start(*command)
    if number == 0:  # a second process is refused and harms nothing
      wait(process, (folder / "env.json").exists)
      said = one_line(run(*command))
      assert f"is being written by process {process.pid} on host" in said
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
  assert contents(folder) == contents(finished[0])


@pytest.mark.long
def test_lines_that_are_missing_anywhere_come_again(finished, flags, tmp_path):
  """Rows of every place in a batch are padding, second turns come first."""
  expected = contents(finished[0])
  (folder := tmp_path / "run").mkdir()
  (folder / "config.json").write_bytes(expected["config.json"])
  lines = expected["items.jsonl"].splitlines(keepends=True)
  kept = random.Random(0).sample(lines, LINES // 2)
  (folder / "items.jsonl").write_bytes(b"".join(kept))
  done = run(f"--workdir={folder}", *flags)
  assert done.returncode == 0, done.stderr
  left = contents(folder)
  again = left.pop("items.jsonl").splitlines(keepends=True)
  assert again[: LINES // 2] == kept
  assert sorted(again) == sorted(lines)
  assert left == {k: v for k, v in expected.items() if k != "items.jsonl"}


@pytest.mark.long
def test_pre_emption_loses_nothing(finished, flags, tmp_path):
  """Ctrl-C is the same: tests/io/test_cli.py."""
  folder = tmp_path / "run"
  command = f"--workdir={folder}", *flags
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
  assert contents(folder) == contents(finished[0])
