"""One way to speak to all commands."""

import subprocess
import sys

import pytest

from tests.stores import ROOT
from tv_jax import __main__ as commands
from tv_jax import cli


def run(*arguments):
  return subprocess.run(
    [sys.executable, "-m", *arguments],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )


@pytest.mark.parametrize(
  ("given", "wanted"),
  [
    (None, None),
    ([], []),
    (["chain:5 kary:2x5"], ["chain:5", "kary:2x5"]),
    (["chain:5,kary:2x5"], ["chain:5", "kary:2x5"]),
    (["branching:4,2,1, eagle", "a:b"], ["branching:4,2,1", "eagle", "a:b"]),
    (["block,a:b\ttraversal"], ["block", "a:b", "traversal"]),
  ],
)
def test_names_stand_with_spaces_or_commas_between(given, wanted):
  assert cli.split(given) == wanted


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_the_commands_are_listed(arguments):
  done = run("tv_jax", *arguments)
  assert done.returncode == 0
  for name in commands.COMMANDS:
    assert f"python -m tv_jax.{name} " in done.stdout


def test_a_command_is_run_by_its_name():
  done = run("tv_jax", "certify", "--vocab=1")
  assert (done.returncode, done.stdout) == (2, "")
  assert done.stderr == "tv_jax.certify: --vocab=1: give 2 or more\n"
  done = run("tv_jax", "audit", "--rows=0")
  assert done.returncode == 2
  assert len(done.stderr.splitlines()) == 1
  done = run("tv_jax", "report", "--help")
  assert "Writes a run's report again" in done.stdout
  done = run("tv_jax", "bake")
  assert done.returncode == 2
  assert done.stderr.startswith("tv_jax: 'bake' is none of main, report,")


def test_no_escape_of_a_name_reaches_the_terminal(capsys):
  assert cli.complain("x", ValueError("a\33[2J\x9b1m\nb: \udcff é")) == 2
  assert capsys.readouterr().err == "x: a\\x1b[2J\\x9b1m b: \\udcff é\n"


@pytest.mark.parametrize("name", ["main", "certify", "replay", "tune", "audit"])
def test_all_complain_alike(name):
  done = run(f"tv_jax.{name}", "--speed=3")
  assert done.returncode == 2
  assert done.stderr.startswith(f"tv_jax.{name}: Unknown command line flag")
  assert len(done.stderr.splitlines()) == 1
