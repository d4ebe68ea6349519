"""One way to speak to all commands."""

import re
import subprocess
import sys

import pytest
from absl import flags

from tests.stores import ROOT
from tv_jax import __main__ as commands
from tv_jax.edge import cli, config_flag


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
  ],
)
def test_names_stand_with_spaces_or_commas_between(given, wanted):
  assert cli.split(given) == wanted


def test_the_commands_are_listed():
  done = run("tv_jax", "--help")
  assert done.returncode == 0
  for name in commands.COMMANDS:
    assert f"python -m tv_jax.{name} " in done.stdout


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
      for name in ("main", "certify", "replay", "tune", "audit")
    ),
  ],
)
def test_all_complain_alike(arguments, told):
  done = run(*arguments)
  assert (done.returncode, done.stdout) == (2, "")
  assert done.stderr.startswith(told)
  assert len(done.stderr.splitlines()) == 1


def test_no_escape_of_a_name_reaches_the_terminal(capsys):
  assert cli.complain("x", ValueError("a\33[2J\x9b1m\nb: \udcff é")) == 2
  assert capsys.readouterr().err == "x: a\\x1b[2J\\x9b1m b: \\udcff é\n"


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
    ("--verifiers=a", "--verifiers=a"),
    ("--verifier=a-b", "--verifiers=a-b"),
    ("-verifier=a", "--verifiers=a"),
    ("--verifier", "--verifiers"),
    ("--budget=8,16", "--budgets=8,16"),
    ("--gpus-per-unit=2", "--gpus_per_unit=2"),
    ("--seeds=3", "--seed=3"),
    ("--config.tree=x", "--config.tree=x"),
    ("--mem-per-cpu=4", "--mem-per-cpu=4"),
    ("--verify=a", "--verify=a"),
    ("verifier", "verifier"),
  ],
)
def test_a_flag_is_found_by_its_other_names(given, read):
  assert cli.own_names(["x", given], own_flags()) == ["x", read]


def test_also_where_flags_are_in_a_file(tmp_path):
  (tmp_path / "told").write_text("--verifier=block\n")
  values = own_flags()
  asked = cli.own_names(["x", f"--flagfile={tmp_path / 'told'}"], values)
  values(asked)
  assert cli.only(values["verifiers"]) == "block"


@pytest.mark.parametrize("given", ["8,64", "8 64", " 8, 64,"])
def test_numbers_stand_as_names_do(given):
  values = own_flags()
  values(["x", f"--budgets={given}", "--budgets=1"])
  assert cli.numbers(values["budgets"], int, least=1) == [8, 64, 1]


@pytest.mark.parametrize("given", ["0.5 1", "0.5,1", "(0.5, 1)"])
def test_so_do_those_of_a_config(given, monkeypatch):
  argv = ["x", f"--config.temperatures={given}"]
  monkeypatch.setattr(sys, "argv", argv)
  (config,) = config_flag.several(argv, ["smoke"]).values()
  assert config.temperatures == (0.5, 1)


@pytest.mark.parametrize("given", ["", "0", "a few", "8 nan", "1e999", "2.5"])
def test_what_are_no_numbers_is_told(given):
  values = own_flags()
  values(["x", f"--budgets={given}"])
  told = re.escape(f"--budgets={given}: give whole numbers of 1 or more")
  with pytest.raises(ValueError, match=told):
    cli.numbers(values["budgets"], int, least=1)


def test_one_name_is_one():
  values = own_flags()
  assert cli.only(values["verifiers"]) is None
  values(["x", "--verifiers=a,b"])
  with pytest.raises(ValueError, match="--verifiers=a b: give one"):
    cli.only(values["verifiers"])


@pytest.mark.parametrize(
  ("name", "told"),
  [
    ("rule.py", "rule.py: give a name that ends in .md"),
    ("", "--out=: give a name that ends in .md"),
    ("a.md", "a.md: it is a folder"),
    ("absent/b.md", "absent/b.md: there is no folder absent"),
    ("read.md", "read.md: it is read here"),
    ("link.md", "it is read here"),
    ("hard.md", "it is read here"),
  ],
)
def test_a_file_is_not_written_where_it_cannot_or_must_not(
  name, told, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "a.md").mkdir()
  (tmp_path / "read.md").write_text("mine")
  (tmp_path / "link.md").symlink_to("read.md")
  (tmp_path / "hard.md").hardlink_to("read.md")
  values = own_flags()
  cli.check_place(values["out"], ".md", ["read.md"])
  values(["x", f"--out={name}"])
  with pytest.raises(ValueError, match=re.escape(told)):
    cli.check_place(values["out"], ".md", ["read.md"])


# Where one command means another thing by a plural than others by its singular.
APART = {
  "seed",  # of a program's own numbers; `seeds` are a grid's, and pooled
  "draft",  # a checkpoint
  "time",  # a job's; with `times` an experiment takes times
  "gpu",  # whether to compile for one; `gpus` are a machine's
}


def test_all_commands_have_one_set_of_names():
  """What is taken by another name, or in another form, is an alias."""
  defined = re.compile(
    r"(?:DEFINE_(?!alias)\w+|define_names|add_argument)\(\s*[\"'](?:--)?(\w\S*)[\"']"
  )
  found = {}
  for room in ("tv_jax", "benchmarks", "experiments", "launch", "bundled"):
    for path in (ROOT / room).rglob("*.py"):
      text = path.read_text()
      assert "DEFINE_list" not in text, f"{path}: cli.define_names"
      for name in defined.findall(text):
        found.setdefault(name, path)
  assert {"verifiers", "trees", "proposals", "temperatures", "out"} <= {*found}
  assert not [name for name in found if "-" in name]
  both = {name for name in found if f"{name}s" in found}
  assert both <= APART, {name: found[name] for name in both}
