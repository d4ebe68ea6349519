"""The paper's numbers agree with each other, as far as rounding lets them."""

import itertools
import math

import pytest

from bundled import tasks
from experiments import paper
from tv_jax import tree, verifiers

TABLES = {table.label: table for table in (paper.LLAMA3, paper.LLAMA2)}


def rows():
  """(name, half of the last digit of its cells, row) of every row."""
  for label, table in TABLES.items():
    for task, row in table.acceptance.items():
      yield f"{label} {task}", 0.005, row
    yield f"{label} average", 0.005, table.average_acceptance
    yield f"{label} speed", 0.05, table.tokens_per_second
  for temperature, row in paper.TEMPERATURES.items():
    yield f"temperature {temperature}", 0.005, row


def deltas(cells, half):
  """The least and the largest delta in percent, before its own rounding."""
  low, high = (
    (cells.traversal.mean + sign * half)
    / (cells.token_level.mean - sign * half)
    for sign in (-1, 1)
  )
  return 100 * (low - 1), 100 * (high - 1)


def odd(cells, half):
  """Whether no numbers behind the rounded cells can give the delta."""
  low, high = deltas(cells, half)
  return not low - 0.05 - 1e-9 <= cells.delta <= high + 0.05 + 1e-9


def test_the_tables_are_whole():
  assert tuple(tasks.TASKS) == paper.TASKS
  assert set(paper.VERIFIERS) <= set(verifiers.VERIFIERS)
  assert paper.Comparison._fields[:2] == paper.VERIFIERS
  for name in paper.TREES:
    tree.parse(name)
  for table in TABLES.values():
    assert tuple(table.acceptance) == paper.TASKS
  assert len(list(rows())) == 2 * (6 + 2) + 5
  for _, _, row in rows():
    assert tuple(row) == paper.TREES
  for table in (paper.STATISTICS, paper.QUALITY):
    assert tuple(table) == paper.TREES
    assert all(tuple(row) == paper.VERIFIERS for row in table.values())


def test_printed_deltas_are_those_of_the_cells():
  found = [
    (name, shape)
    for name, half, row in rows()
    for shape, cells in row.items()
    if odd(cells, half)
  ]
  assert not found


def test_a_wrong_digit_is_seen():
  cells = paper.LLAMA3.acceptance["qa"]["chain:5"]
  assert not odd(cells, 0.005)
  assert odd(cells._replace(delta=3.7), 0.005)
  assert odd(cells._replace(traversal=paper.Cell(3.86, 0.03)), 0.005)


@pytest.mark.parametrize("label", TABLES)
def test_averages_are_those_of_the_tasks(label):
  table = TABLES[label]
  for shape, verifier in itertools.product(paper.TREES, paper.VERIFIERS):

    def mean(row, shape=shape, verifier=verifier):
      return getattr(row[shape], verifier).mean

    average = math.fsum(map(mean, table.acceptance.values())) / 6
    # Both are rounded: each by half of a hundredth at most.
    assert abs(average - mean(table.average_acceptance)) <= 0.01 + 1e-9


def test_the_claimed_range():
  gains = [
    cells.delta
    for table in TABLES.values()
    for cells in table.average_acceptance.values()
  ]
  assert (min(gains), max(gains)) == (2.2, 5.7)


def test_temperature_one_is_in_the_main_table():
  assert paper.TEMPERATURES[1.0] == paper.LLAMA3.average_acceptance
