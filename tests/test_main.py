"""The command: what it says to mistakes, and of finished runs."""

import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.commands import SMALL, contents, ended, refused, run, start
from tests.stores import ROOT
from tests.test_main_crashes import is_progress, lines_in, told, wait
from tv_jax.edge.reading import BUNDLED


def one_line(done):
  """What a command was refused with, before it did anything."""
  assert done.stderr.count("\n") == 1, done.stderr
  return refused(done)


BAD_FLAGS = [
  (["--confg=x"], "Unknown command line flag 'confg'"),
  (["--config.nn=1"], "unknown field config.nn: there are baseline, batch_"),
  (["--config.models.taget=x"], "did you mean config.models.target?"),
  (["--config.max_new_tokens=few"], "--config.max_new_tokens=few: invalid"),
  (["--config=nowhere.py"], "directory): give a file, or one of llama2_"),
  (["--workdir=/proc/nowhere"], "/proc/nowhere cannot be made: No such"),
  (["--config=smoke:no-such"], "argument 'no-such': smoke takes weak, eagle,"),
]


BAD_FILES = [
  ("x = 1", "config.py: there is no get_config() in it"),
  ("def get_config():\n  return 1 / 0", "line 2: ZeroDivisionError: division"),
  ("def get_config():\n  raise ValueError('no\\nsuch')", "line 2: no such"),
  ("def get_config(:", "config.py: invalid syntax (config.py, line 1)"),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
  """What bad commands are told, by their arguments; some at a time."""
  folder = tmp_path_factory.mktemp("bad")
  commands = {str(arguments): arguments for arguments, _ in BAD_FLAGS}
  for body, _ in BAD_FILES:
    (path := folder / str(len(commands)) / "config.py").parent.mkdir()
    path.write_text(body + "\n")
    commands[body] = [f"--config={path}"]

  def answer(arguments):
    return run(f"--workdir={folder / 'run'}", *arguments)

  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    done = pool.map(answer, commands.values())
    yield dict(zip(commands, done, strict=True))
  assert not (folder / "run").exists()


@pytest.mark.parametrize(("arguments", "message"), BAD_FLAGS)
def test_a_bad_flag_is_one_line(arguments, message, answers):
  assert message in one_line(answers[str(arguments)])


@pytest.mark.parametrize(("body", "message"), BAD_FILES)
def test_a_bad_config_file_is_one_line(body, message, answers):
  assert message in one_line(answers[body])


def test_bad_values_are_all_told(tmp_path):
  workdir = tmp_path / "run"
  line = one_line(
    run(
      f"--workdir={workdir}",
      "--config.trees=chain:x",
      "--config.verifiers=traversal tranversal",
      "--config.seeds=-1,",
      "--config.batch_size=0",
    )
  )
  assert not workdir.exists()
  for part in (
    "trees: tree 'chain:x': write",
    "verifier 'tranversal': not one of token_level",
    "seeds=-1: give an integer from 0",
    "batch_size=0: give an integer of at least 1",
  ):
    assert part in line
  values = "--config.temperatures=hot", "--config.seeds=one"
  line = one_line(run(f"--workdir={workdir}", *values))
  assert (
    "temperatures='hot': give 0, or a number from 1e-30 to 1e+30; seeds='one'"
    in line
  )


def test_questions_are_not_written_over(tmp_path):
  path = tmp_path / "table.md"
  path.write_text('{"question_id": 1, "category": "qa", "turns": ["Why?"]}\n')
  (tmp_path / "link").symlink_to(".")
  told = f"--workdir={tmp_path / 'link'}", f"--config.questions={path}"
  assert "the run's files are written there" in refused(
    run(*told, *SMALL, "--config.tasks=qa")
  )
  assert "Why?" in path.read_text()


def test_a_bad_flag_is_answered_before_anything_slow_is_imported():
  body = """
import sys
from tv_jax import main
sys.exit("jax" in sys.modules)
"""
  assert subprocess.run([sys.executable, "-c", body], cwd=ROOT).returncode == 0


# A Ctrl-C amid an import.
AMID = """
import os, runpy, signal, sys
class Finder:
  def find_spec(self, name, *_):
    if name == MODULE:
      os.kill(os.getpid(), signal.SIGINT)
      print("on")  # else it would be in the middle of what is imported
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
sys.argv[0] = "tv_jax.main"
runpy.run_module("tv_jax.main", run_name="__main__")
"""


def interrupted(module, *arguments):
  """A command that is interrupted while it imports a module."""
  done = subprocess.run(
    [sys.executable, "-c", f"MODULE = {module!r}\n{AMID}", *arguments],
    cwd=ROOT,
    env={k: v for k, v in os.environ.items() if k != "XLA_FLAGS"},
    capture_output=True,
    text=True,
  )
  assert done.returncode == 130, done.stderr
  return done


def test_a_ctrl_c_while_jax_is_imported(tmp_path):
  done = interrupted("jaxlib._jax", f"--workdir={tmp_path / 'run'}")
  assert (done.stdout, done.stderr) == ("on\n", "interrupted\n")
  assert not (tmp_path / "run").exists()


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
  assert is_progress(told(done))
  (above / "pair").rename(above / "gone")
  return command, folder, done.stdout


def test_a_finished_run_is_shown_again_without_its_models(finished):
  command, folder, shown = finished
  before = contents(folder), (folder / "report.html").read_bytes()
  done = run(*command)
  assert done.returncode == 0
  assert done.stdout == shown
  assert told(done) == ["18 answers are all there"]
  assert before == (contents(folder), (folder / "report.html").read_bytes())


def test_the_report_comes_again_from_the_items(finished):
  _, folder, _ = finished
  page = folder / "report.html"
  before = contents(folder), page.read_bytes()
  kinds = (".csv", ".md", ".tex", ".svg", ".html")
  made = [path for path in folder.iterdir() if path.suffix in kinds]
  assert len(made) == 9
  for path in made:
    path.unlink()
  done = run(folder, program="tv_jax.report")
  assert (done.returncode, done.stdout) == (0, f"{page}\n")
  assert (contents(folder), page.read_bytes()) == before


def test_another_config_is_refused_by_its_difference(finished):
  command, folder, _ = finished
  before = contents(folder)
  line = one_line(run(*command, "--config.max_new_tokens=25"))
  assert "max_new_tokens: 24 there, 25 now: give the config that" in line
  assert contents(folder) == before


def test_a_kill_changes_nothing(finished, cache, tmp_path):
  whole, folder = contents(finished[1]), tmp_path / "run"
  command = f"--workdir={folder}", cache, *SMALL
  process = start(*command)
  wait(process, lambda: lines_in(folder) >= 4)
  process.kill()
  assert ended(process).returncode == -signal.SIGKILL
  there = (folder / "items.jsonl").read_bytes()
  there = there[: there.rfind(b"\n") + 1]
  assert there
  assert whole["items.jsonl"].startswith(there)
  done = run(*command)
  assert done.returncode == 0, done.stderr
  assert contents(folder) | {"config.json": whole["config.json"]} == whole
