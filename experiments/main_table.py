"""The paper's Tables 2 and 3 from a finished run, the paper's numbers beside.

  python -m experiments.main_table runs/llama3_1b_8b

prints the table and writes main_table.md, .csv and .tex into the run's folder.
The run must hold temperature 1, drawn without replacement; what it lacks of the
table is a dash. Which of the paper's two tables stands beside it follows from
the target's name, or from --paper; with other models than the paper's, its
numbers are there for their pattern alone.
"""

import argparse
import dataclasses
import pathlib
import sys

import rich.console

from experiments import paper
from tv_jax import cli, metrics, store
from tv_jax.records import Method
from tv_jax.report import formats, tables
from tv_jax.report.tables import ALL, NOTHING, TASKS, Table
from tv_jax.store import runs

PAPER = {"llama3": paper.LLAMA3, "llama2": paper.LLAMA2}
PAPERS = Method(proposal="without_replacement", temperature=1.0)
HEADER = ("task", "Tok.V", "Tra.V", "Delta", "same drafts")
BESIDE = ("Tok.V", "Tra.V", "Delta")


def main(arguments) -> int:
  """Makes the table; 2, and one line, for a folder without a run."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.main_table",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("folder", type=pathlib.Path, help="a run's folder")
  parser.add_argument("--paper", choices=[*PAPER], help="which of its tables")
  given = parser.parse_args(arguments)
  try:
    unit = runs.read(given.folder)
    beside = PAPER[given.paper or closest(unit.config["models"]["target"])]
    made = make(unit, beside)
    write(given.folder, unit, beside, made)
  except (ValueError, OSError) as error:
    return cli.complain("experiments.main_table", error)
  console = rich.console.Console(
    width=None if sys.stdout.isatty() else 150, highlight=False
  )
  for table in made:
    for part in formats.terminal(table, console.width):
      console.print(part)
  print("\n".join(notes(unit, beside)))
  return 0


def closest(target: str) -> str:
  """The table whose target this is, or else the first."""
  return "llama2" if "llama-2" in target.lower() else "llama3"


def make(unit: store.Unit, beside: paper.MainTable) -> list[Table]:
  """A table for each of the paper's trees."""
  found = tables.cells(unit.items, unit.config)
  if not any(method.tree in paper.TREES for method in found[ALL]):
    raise ValueError(
      f"the run has none of the paper's trees: {', '.join(paper.TREES)}"
    )
  return [_table(unit, found, tree, beside) for tree in paper.TREES]


def _table(unit, found, tree, beside) -> Table:
  rows = []
  for task in paper.TASKS:
    printed = beside.acceptance[task][tree]
    rows.append([TASKS[task], *_ours(found, task, tree), *_theirs(printed, 2)])
  average = _theirs(beside.average_acceptance[tree], 2)
  rows.append(["Avg. accept.", *_ours(found, ALL, tree), *average])
  rows += _speeds(unit.timing, tree, beside)
  groups = [("", 1), ("this run", len(HEADER) - 1)]
  groups.append(("the paper", len(BESIDE)))
  return Table(tree, groups, [*HEADER, *BESIDE], rows)


def _methods(tree) -> list[Method]:
  """The paper's two rules, as it drew trees for them."""
  return [
    dataclasses.replace(PAPERS, tree=tree, verifier=rule)
    for rule in paper.VERIFIERS
  ]


def _ours(found, task, tree) -> list[str]:
  """Both rules of separate runs, their difference, and the paired gain."""
  own = [found.get(task, {}).get(one) for one in _methods(tree)]
  cells = [tables.estimate(cell and cell.by_item) for cell in own]
  delta = gain = NOTHING
  if all(cell and cell.items for cell in own):
    base, best = (cell.by_item.mean for cell in own)
    delta = f"{best / base - 1:+.1%}"
  if own[1] and own[1].gain and own[1].expected:
    base = own[1].expected.mean - own[1].gain.mean
    gain = f"{own[1].gain.mean / base:+.1%} ± {own[1].gain.error / base:.1%}"
  return [*cells, delta, gain]


def _theirs(printed: paper.Comparison, digits: int) -> list[str]:
  return [
    *(
      f"{cell.mean:.{digits}f} ± {cell.error:.{digits}f}"
      for cell in (printed.token_level, printed.traversal)
    ),
    f"{printed.delta:+.1f}%",
  ]


def _speeds(timing, tree, beside) -> list[list[str]]:
  """Tokens a second, and times plain decoding's."""
  printed = beside.tokens_per_second[tree]
  theirs = [printed.token_level.mean, printed.traversal.mean]
  ups = [f"{value / beside.plain.mean:.2f}x" for value in theirs]
  speeds = {
    Method.of(one): metrics.speeds(one["tokens"], one["seconds"])[0]
    for one in (timing or {"methods": []})["methods"]
  }
  methods = _methods(tree)
  own = [speeds.get(method) for method in methods]
  plain = speeds.get(methods[0].undrafted)
  ours = [NOTHING if value is None else f"{value:.1f}" for value in own]
  delta = f"{own[1] / own[0] - 1:+.1%}" if all(own) else NOTHING
  speedups = [f"{x / plain:.2f}x" if x and plain else NOTHING for x in own]
  return [
    ["Avg. token/s", *ours, delta, NOTHING, *_theirs(printed, 1)],
    ["Speed-up", *speedups, NOTHING, NOTHING, *ups, NOTHING],
  ]


def notes(unit: store.Unit, beside: paper.MainTable) -> list[str]:
  """What the numbers are of."""
  models = unit.config["models"]
  seeds = len(unit.config["seeds"])
  lines = [
    f"This run: {models['target']} with {models['draft']}, {seeds}"
    f" seed{'s' if seeds > 1 else ''}; ± is the standard error over questions"
    " (ddof 1). Same drafts: the traversal's expected length over"
    " token-level's, on the drafts of the traversal's run.",
    f"The paper (arXiv 2505.12398, {beside.label}): {beside.target} with"
    f" {beside.draft}, averages of three runs with their standard errors; plain"
    f" decoding {beside.plain.mean} ± {beside.plain.error} tokens/s on an RTX"
    " A6000.",
  ]
  if not unit.done:
    lines.insert(0, "THE RUN IS NOT FINISHED.")
  return lines


def write(folder, unit, beside, made) -> None:
  """The table as Markdown, CSV and LaTeX."""
  text = "\n".join([*map(formats.markdown, made), *notes(unit, beside), ""])
  store.write_atomic(folder / "main_table.md", text)
  header = ["tree", *formats.names(made[0])]
  rows = [[table.title, *row] for table in made for row in table.rows]
  store.write_atomic(
    folder / "main_table.csv", formats.comma_separated(header, rows)
  )
  text = "\n".join(map(formats.latex, made))
  store.write_atomic(folder / "main_table.tex", text)


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
