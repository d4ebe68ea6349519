"""One way to speak to all commands, and one to read values from outside."""

import dataclasses
import math
import re

import numpy as np
import pytest
from absl import flags

from tests import commands
from tv_jax.edge import checks, cli


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
  program, *others = arguments
  done = commands.run(*others, program=program)
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


@dataclasses.dataclass(frozen=True)
class Inner:
  rate: float
  names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Outer:
  inner: Inner
  count: int
  limit: int | None = None


def test_a_dataclass_is_built_of_an_object():
  raw = {"inner": {"rate": 1, "names": ["a"]}, "count": 2}
  assert checks.read(checks.build(Outer), raw) == Outer(Inner(1.0, ("a",)), 2)


@pytest.mark.parametrize(
  ("raw", "line"),
  [
    (
      {"inner": {"rate": "x"}, "count": True, "more": 1},
      "unknown field more; inner.rate='x': give a number; count=True: give an"
      " integer",
    ),
    (
      {"inner": {"rate": 1, "names": "ab"}, "count": 1, "limit": "x"},
      "inner.names='ab': give a list; limit='x': give an integer",
    ),
  ],
)
def test_all_that_is_wrong_is_named(raw, line):
  with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
    checks.read(checks.build(Outer), raw)


@pytest.mark.parametrize(
  ("check", "right", "wrong"),
  [
    (checks.integer(1, 3), [1, 3, np.int32(2)], [0, 4, 1.0, True, "1", None]),
    (
      checks.number(above=0, most=1),
      [1, 0.5, np.float32(0.5), np.float16(1)],
      [0, 2, math.nan, True, "1", 10**400, np.float16(math.inf)],
    ),
    (checks.either(checks.integer(), checks.text), [1, "a"], [1.0, None]),
    (checks.optional(checks.text), [None, "a"], [1]),
  ],
)
def test_limits_are_kept(check, right, wrong):
  for value in right:
    assert checks.read(check, value) == value
  for value in wrong:
    with pytest.raises(ValueError, match="give"):
      checks.read(check, value, "x")
