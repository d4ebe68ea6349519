"""One way to speak to all commands."""

import re
import subprocess
import sys

import pytest
from absl import flags

from tests.stores import ROOT
from tv_jax.edge import cli


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
    (["chain:5,kary:2x5"], ["chain:5", "kary:2x5"]),
    (["branching:4,2,1, eagle", "a:b"], ["branching:4,2,1", "eagle", "a:b"]),
  ],
)
def test_names_stand_with_spaces_or_commas_between(given, wanted):
  assert cli.split(given) == wanted


@pytest.mark.parametrize(
  ("arguments", "told"),
  [
    (
      ("tv_jax", "certify", "--vocab=1"),
      "tv_jax.certify: --vocab=1: give 2 or",
    ),
    (("tv_jax", "bake"), "tv_jax: 'bake' is none of main, report,"),
    *(
      ((f"tv_jax.{name}", "--speed=3"), f"tv_jax.{name}: Unknown command line")
      for name in ("main", "audit")
    ),
  ],
)
def test_all_complain_alike(arguments, told):
  done = run(*arguments)
  assert (done.returncode, done.stdout) == (2, "")
  assert done.stderr.startswith(told)
  assert len(done.stderr.splitlines()) == 1


def own_flags():
  """Some, of one command."""
  values = flags.FlagValues()
  cli.define_names("verifiers", None, "Rules.", values)
  cli.define_names("budgets", "8 16", "Nodes.", values)
  for name in ("gpus_per_unit", "seed", "out"):
    flags.DEFINE_string(name, None, "Of one thing.", values)
  return values


@pytest.mark.parametrize(
  ("given", "read"),
  [
    ("--verifier=a-b", "--verifiers=a-b"),
    ("--budget=8,16", "--budgets=8,16"),
    ("--gpus-per-unit=2", "--gpus_per_unit=2"),
    ("--seeds=3", "--seed=3"),
    ("--config.tree=x", "--config.tree=x"),
    ("--verify=a", "--verify=a"),
  ],
)
def test_a_flag_is_found_by_its_other_names(given, read):
  assert cli.own_names(["x", given], own_flags()) == ["x", read]


def test_numbers_stand_as_names_do():
  values = own_flags()
  values(["x", "--budgets= 8,64", "--budgets=1"])
  assert cli.numbers(values["budgets"], int, least=1) == [8, 64, 1]


@pytest.mark.parametrize("given", ["", "0", "8 nan", "2.5"])
def test_what_are_no_numbers_is_told(given):
  values = own_flags()
  values(["x", f"--budgets={given}"])
  told = re.escape(f"--budgets={given}: give whole numbers of 1 or more")
  with pytest.raises(ValueError, match=told):
    cli.numbers(values["budgets"], int, least=1)


@pytest.mark.parametrize(
  ("name", "told"),
  [
    ("rule.py", "rule.py: give a name that ends in .md"),
    ("a.md", "a.md: it is a folder"),
    ("absent/b.md", "absent/b.md: there is no folder absent"),
    ("read.md", "read.md: it is read here"),
    ("link.md", "it is read here"),
  ],
)
def test_a_file_is_not_written_where_it_cannot_or_must_not(
  name, told, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "a.md").mkdir()
  (tmp_path / "read.md").write_text("mine")
  (tmp_path / "link.md").symlink_to("read.md")
  values = own_flags()
  cli.check_place(values["out"], ".md", ["read.md"])
  values(["x", f"--out={name}"])
  with pytest.raises(ValueError, match=re.escape(told)):
    cli.check_place(values["out"], ".md", ["read.md"])
