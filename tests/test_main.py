"""The command, of finished runs."""

import random
import re
import shutil
import signal
import time

import pytest

from tests.commands import SMALL, contents, run
from tests.test_main_crashes import is_progress
from tv_jax.edge.reading import BUNDLED
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
  """The folder of an undisturbed run, and what it printed."""
  above = tmp_path_factory.mktemp("finished")
  # From another folder: configs are found, and what they import.
  done = run(f"--workdir={above / 'run'}", *flags, cwd=above)
  assert done.returncode == 0, done.stderr
  # Nothing else is said: no warnings of anybody's.
  known = r"12 answers in 2 cells|[12]/2 |answers, \d+ of 12"
  assert all(re.match(known, line) for line in done.stderr.splitlines())
  assert lines_in(above / "run") == LINES
  return above / "run", done.stdout


@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory):
  """A finished run whose models are gone: its command, folder and output."""
  above = tmp_path_factory.mktemp("finished")
  shutil.copytree(BUNDLED, above / "pair")
  pair = [
    f"--config.models.{name}={above}/pair/{name}"
    for name in ("target", "draft")
  ]
  folder = above / "run"
  # From another folder: configs are found, and what they import.
  command = f"--workdir={folder}", cache, *SMALL, *pair
  done = run(*command, cwd=above)
  assert done.returncode == 0, done.stderr
  assert is_progress(done.stderr.splitlines())
  (above / "pair").rename(above / "gone")
  return command, folder, done.stdout


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
  """To the byte, though that was another process."""
  folder, _ = finished
  kinds = (".csv", ".md", ".tex", ".html")
  before = {x: x.read_bytes() for x in folder.iterdir() if x.suffix in kinds}
  assert len(before) == 4
  for path in before:
    path.unlink()
  assert report.write(folder).page in before
  for path, content in before.items():
    assert path.read_bytes() == content
