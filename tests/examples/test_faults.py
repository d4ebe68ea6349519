"""Every fault of the gallery is caught, and every mend is exact."""

import functools
import importlib
import pathlib

import pytest

from examples import faults
from examples.faults import __main__ as command
from examples.faults import measure, sound
from tests.lib import documents, quick
from tv_jax import certify

DOCUMENT = documents.DOCS / "faults.md"


@functools.cache
def row(name):
  return measure.row(importlib.import_module(f"examples.faults.{name}"))


def test_every_program_is_in_the_table():
  files = {one.stem for one in pathlib.Path(faults.__path__[0]).glob("*.py")}
  parts = {"__init__", "__main__", "common", "measure", "sound"}
  assert files - parts == {*faults.NAMES}


@pytest.mark.parametrize("name", quick.shorter([*faults.NAMES], keep=4))
def test_the_fault_is_caught_and_the_mend_is_exact(name):
  measured = row(name)
  assert measured.mended.lossless
  assert measured.mended.distance <= 1e-12
  if name != "closed_coin":
    assert measured.caught.verdict == "NOT LOSSLESS"
    assert measured.caught.smallest.distance > 1e-6


@pytest.mark.long
def test_a_coin_of_0_is_found():
  closed = row("closed_coin")
  assert closed.caught.lossless
  assert closed.caught.smallest_at_zero
  assert max(closed.distances) < 1e-12


@pytest.mark.long
def test_the_document_has_the_commands_table():
  _, between, _ = command.split(DOCUMENT.read_text())
  assert between == command.table({name: row(name) for name in faults.NAMES})


@pytest.mark.long
def test_the_document_says_what_is_measured():
  text = " ".join(DOCUMENT.read_text().split())
  hidden = row("length_in_hindsight")
  assert max(hidden.distances) < 1e-12
  assert len(hidden.caught.cases) == 7
  for name in ("shared_noise", "bfloat16_draft"):
    assert f"of `{name}` is {max(row(name).distances):.2g}" in text
  assert max(map(abs, row("shared_noise").gains)) < 1e-12
  for name in ("bonus_temperature", "row_of_a_cousin"):
    assert len(row(name).caught.smallest.prefix.tokens) > 1


@pytest.mark.parametrize(
  "cycle",
  quick.shorter(
    [sound.likeliest, sound.matched, sound.as_if_not_drawn, sound.cut_after]
  ),
)
def test_what_is_no_fault_is_certified(cycle):
  certify.assert_lossless(cycle, tolerance=1e-12)
