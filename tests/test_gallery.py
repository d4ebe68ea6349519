"""Every fault of the gallery is caught, and every mend is exact."""

import pathlib

import numpy as np
import pytest

from examples import faults
from examples.faults import __main__ as command
from examples.faults import length_in_hindsight, measure, sound
from tests.documents import DOCS
from tv_jax import certify

DOCUMENT = DOCS / "lossless.md"
SMALL = ("closed_coin", "clamped_residual")  # as their docstrings say
DRAWN = len(measure.random_pairs())


@pytest.fixture(scope="module")
def rows():
  return command.measured()


def test_every_program_is_in_the_table():
  files = {one.stem for one in pathlib.Path(faults.__path__[0]).glob("*.py")}
  parts = {"__init__", "__main__", "common", "measure", "sound"}
  assert files - parts == {*faults.NAMES}


@pytest.mark.parametrize("name", [*faults.NAMES])
def test_the_fault_is_caught_and_the_mend_is_exact(rows, name):
  one = rows[name]
  assert one.error() <= measure.EXACT
  assert not any(each.wrong or each.edges for each in one.fixed)
  if name not in SMALL:
    assert one.worst().distance > 1e-6
    assert one.worst() in one.faulty[:DRAWN]


def test_what_is_small_is_named(rows):
  closed, clamped = (rows[name] for name in SMALL)
  assert all(each.distance < measure.EXACT for each in closed.faulty)
  p = measure.hard_pairs()[0][0]
  edges = closed.faulty[DRAWN].edges
  assert edges
  for out in edges:
    assert any(p(out[:i])[token] == 0 for i, token in enumerate(out))
  assert 1e-10 < clamped.worst().distance < clamped.program.SMALL


def test_the_document_has_the_commands_table(rows):
  _, between, _ = command.split(DOCUMENT.read_text())
  assert between == command.table(rows)


def test_the_document_says_what_is_measured(rows):
  text = " ".join(DOCUMENT.read_text().split())
  hidden = rows["length_in_hindsight"].faulty[:DRAWN]
  assert sum(each.wrong is None for each in hidden) == 3
  assert "exact in three of the four pairs" in text
  for name in ("shared_noise", "bfloat16_draft"):
    distance = rows[name].worst().distance
    assert f"is {distance:.1g} away" in text
  assert abs(rows["shared_noise"].gain()) < measure.EXACT
  for name in ("bonus_temperature", "row_of_a_cousin"):
    for each in rows[name].faulty:
      assert each.wrong is not None
      assert each.wrong[0] != ()


def test_dsparks_counterexample():
  laws = {
    (): ([0.7, 0.3], [0.5, 0.5]),
    (0,): ([0.9, 0.1], [1.0, 0.0]),
    (1,): ([1.0, 0.0], [0.0, 1.0]),
  }
  same = [0.5, 0.5], [0.5, 0.5]
  p, q = (
    lambda prefix, i=i: np.array(laws.get(prefix, same)[i]) for i in (0, 1)
  )
  for program, right in (
    (length_in_hindsight.faulty, 0.85),
    (length_in_hindsight.fixed, 0.7),
  ):
    law = certify.explore(lambda rng, run=program: run(p, q, (), rng)[0])
    assert float(law.chances[0]) == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize(
  "cycle", [sound.matched, sound.likeliest, sound.as_if_not_drawn]
)
def test_what_is_no_fault_is_certified(cycle):
  for p, q in measure.random_pairs() + measure.hard_pairs():
    found = measure.measure(cycle, "cycle", p, q)
    assert found.distance <= measure.EXACT
    assert found.wrong is None
    assert found.edges == ()


@pytest.mark.parametrize("content", [None, "no marks\n"])
def test_a_document_that_cannot_be_written_is_told(content, tmp_path, capsys):
  path = tmp_path / "page.md"
  if content is not None:
    path.write_text(content)
  assert command.main([f"--write={path}"]) == 2
  said = capsys.readouterr().err
  assert str(path) in said
  assert len(said.splitlines()) == 1
