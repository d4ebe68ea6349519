"""Print the gallery's table: each fault, and that the fixed program is exact.

    python -m examples.faults
    python -m examples.faults --write=docs/faults.md

The second puts the table into the document, between its two marks.
"""

import argparse
import importlib
import pathlib

import numpy as np

from examples.faults import NAMES, measure
from examples.faults.measure import SETTINGS, Row
from tv_jax.certify import words
from tv_jax.io.errors import UserError

BEGIN, END = "<!-- python -m examples.faults -->", "<!-- end -->"
HEADER = (
  "fault",
  "system, report",
  "TV",
  "smallest case: a text that is too likely",
  "tokens a cycle",
  "fixed",
)


def measured() -> dict[str, Row]:
  """Measure all faults."""
  modules = {x: importlib.import_module(f"examples.faults.{x}") for x in NAMES}
  return {name: measure.row(module) for name, module in modules.items()}


def table(rows: dict[str, Row]) -> str:
  """Write the whole table, in Markdown."""
  lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
  return "\n".join([*lines, *(line(name, row) for name, row in rows.items())])


def line(name: str, row: Row) -> str:
  """Write a row of the table."""
  distance, gain = max(row.distances), float(np.mean(row.gains))
  if distance <= SETTINGS.allowed:  # only the certificate's cases show it
    distance = row.caught.distance
  cells = [
    f"[{name}](../examples/faults/{name}.py)",
    f"[{row.program.SYSTEM}]({row.program.REPORT})",
    small(distance),
    smallest(row),
    small(gain, "+"),
    row.mended.verdict.lower(),
  ]
  return f"| {' | '.join(cells)} |"


def smallest(row: Row) -> str:
  """Write the prefix that is too likely in the smallest failing case."""
  if case := row.caught.smallest_at_zero:
    prefix = words.word(case.at_zero).replace("'", "`")
    return f"{prefix}: 0, but not if a coin is 0"
  assert row.caught.smallest
  assert row.caught.smallest.prefix
  tokens, chance, wanted = row.caught.smallest.prefix
  prefix = words.word(tokens).replace("'", "`")
  excess = small(chance - wanted, "+").replace("+", "+ ")
  return f"{prefix}: {wanted:.3g} {excess}"


def small(number: float, sign: str = "") -> str:
  """Write a number with two digits; rounding errors become 0."""
  if abs(number) <= SETTINGS.allowed:
    return "0"
  return f"{number:{sign}.{'2g' if abs(number) >= 1e-4 else '0e'}}"


def split(document: str) -> tuple[str, str, str]:
  """Split a document into the parts before, between and after its marks."""
  before, _, rest = document.partition(BEGIN)
  between, end, after = rest.partition(END)
  if not end:
    raise UserError(f"give a document with a line {BEGIN} and a line {END}")
  return before, between.strip(), after


def main() -> None:
  """Print the table, or write it."""
  parser = argparse.ArgumentParser(
    prog="python -m examples.faults",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--write", type=pathlib.Path, help="a document to write")
  arguments = parser.parse_args()
  if not arguments.write:
    print(table(measured()))
    return
  before, _, after = split(arguments.write.read_text())
  arguments.write.write_text(
    f"{before}{BEGIN}\n{table(measured())}\n{END}{after}"
  )


if __name__ == "__main__":
  main()
