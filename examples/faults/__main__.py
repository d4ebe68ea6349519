"""Print the gallery's table: what each fault does, and that its mend is exact.

    python -m examples.faults
    python -m examples.faults --write=docs/lossless.md

The second puts the table into the document, between its two marks.
"""

import argparse
import dataclasses
import importlib
import pathlib
import sys
import types

from examples.faults import NAMES
from examples.faults import measure as measuring
from examples.faults.measure import EXACT, Measured

BEGIN, END = "<!-- python -m examples.faults -->", "<!-- end -->"
HEADER = (
  "fault",
  "system, report",
  "TV",
  "first wrong token",
  "tokens a cycle",
  "mended",
)


@dataclasses.dataclass(frozen=True)
class Row:
  """One program, measured.

  Attributes:
    program: The module.
    faulty: What its fault does, by pair: the random ones, then the hard ones.
    fixed: What its mend does, likewise.
  """

  program: types.ModuleType
  faulty: list[Measured]
  fixed: list[Measured]

  def worst(self) -> Measured:
    """Give the random pair where it is worst; a hard one if none shows it."""
    drawn = len(measuring.random_pairs())
    shown = [one for one in self.faulty[:drawn] if one.wrong]
    return max(shown or self.faulty, key=lambda one: one.distance)

  def gain(self) -> float:
    """Give the tokens a cycle that the fault is ahead, over random pairs."""
    drawn = len(measuring.random_pairs())
    both = zip(self.faulty[:drawn], self.fixed, strict=False)
    return sum(one.tokens - other.tokens for one, other in both) / drawn

  def error(self) -> float:
    """Give the mend's largest distance; infinite if it has edges."""
    if any(one.edges for one in self.fixed):
      return float("inf")
    return max(one.distance for one in self.fixed)


def row(name: str) -> Row:
  """Measure a program with all laws."""
  program = importlib.import_module(f"examples.faults.{name}")
  laws = measuring.random_pairs() + measuring.hard_pairs()
  kind = program.KIND
  return Row(
    program,
    [measuring.measure(program.faulty, kind, p, q) for p, q in laws],
    [measuring.measure(program.fixed, kind, p, q) for p, q in laws],
  )


def line(name: str, one: Row) -> str:
  """Write a row of the table."""
  worst, program = one.worst(), one.program
  cells = [
    f"[{name}](../examples/faults/{name}.py)",
    f"[{program.SYSTEM}]({program.REPORT})",
    told(worst.distance) if worst.wrong else "0",
    first(worst, one),
    ahead(one.gain()),
    "exact" if one.error() <= EXACT else f"NO: {told(one.error())}",
  ]
  return f"| {' | '.join(cells)} |"


def told(distance: float) -> str:
  """Write a distance with two digits."""
  return f"{distance:.2g}" if distance >= 1e-4 else f"{distance:.0e}"


def ahead(tokens: float) -> str:
  """Write a gain."""
  if abs(tokens) <= EXACT:
    return "0"
  return f"{tokens:+.3f}" if abs(tokens) >= 1e-3 else f"{tokens:+.0e}"


def first(worst: Measured, one: Row) -> str:
  """Say which token of which prefix comes too often."""
  if worst.wrong:
    prefix, token, excess, right = worst.wrong
    return f"{place(prefix, token)}: {right:.3f} + {told(excess)}"
  edges = [out for made in one.faulty for out in made.edges]
  return f"forbidden ones, if u = 0: {len(edges)} texts"


def place(prefix: tuple[int, ...], token: int) -> str:
  """Say where a token stands."""
  if not prefix:
    return f"`{token}` first"
  return f"`{token}` after `{' '.join(map(str, prefix))}`"


def table(rows: dict[str, Row]) -> str:
  """Write the whole table, in Markdown."""
  lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
  return "\n".join([*lines, *(line(name, one) for name, one in rows.items())])


def measured() -> dict[str, Row]:
  """Measure all."""
  return {name: row(name) for name in NAMES}


def split(document: str) -> tuple[str, str, str]:
  """Split a document into what is before, between and after its marks."""
  before, _, rest = document.partition(BEGIN)
  between, end, after = rest.partition(END)
  if not end:
    raise ValueError(f"give a document with a line {BEGIN} and a line {END}")
  return before, between.strip(), after


def main(arguments: list[str] | None = None) -> int:
  """Print the table, or write it."""
  parser = argparse.ArgumentParser(
    prog="python -m examples.faults",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--write", type=pathlib.Path, help="a document to write")
  given = parser.parse_args(arguments)
  if given.write is None:
    print(table(measured()))
    return 0
  try:
    before, _, after = split(given.write.read_text())
    made = table(measured())
    given.write.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")
  except (OSError, ValueError) as error:
    print(f"--write={given.write}: {error}", file=sys.stderr)
    return 2
  return 0


if __name__ == "__main__":
  sys.exit(main())
