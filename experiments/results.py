"""All artefacts on one page: `python -m experiments.results`.

Reads the folders that the experiments left (--workdir) and writes
docs/results.md (--out) with the figures beside it: every table and figure with
its command, its date and its machine. It says which experiments were not run.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator

from experiments import command, names
from experiments.experiment import Experiment, Group
from tv_jax.edge import cli, disk
from tv_jax.runs.report import formats

HEAD = """# Results

The paper's tables and figures, and a few more. `make experiments` runs them,
and `python -m experiments.results` makes this page of the runs: no number is
written by hand. Seeds are pooled by question, and errors are over questions.
"""


def main(arguments: list[str]) -> int:
  """Writes the page; returns 2, after one line, if something cannot be read."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.results",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  path = pathlib.Path
  parser.add_argument("--workdir", type=path, default=path(command.WORKDIR))
  parser.add_argument("--out", type=path, default=path("docs", "results.md"))
  given = parser.parse_args(arguments)
  try:
    if given.out.suffix != ".md":  # it may be one of a run's own files
      raise ValueError(f"--out={given.out}: give a name that ends in .md")
    parts = [HEAD]
    for one in names.all_of_them():
      parts += _section(one, given.workdir / one.name, given.out)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    disk.write_atomic(given.out, "\n".join(parts))
  except (ValueError, OSError) as error:
    return cli.complain("experiments.results", error)
  print(given.out)
  return 0


def _section(
  one: Experiment, folder: pathlib.Path, out: pathlib.Path
) -> Iterator[str]:
  """Makes an experiment's part of the page, and writes its figures."""
  yield f"## {one.title}\n\n    python -m experiments.{one.name}\n"
  if one.configs and not folder.is_dir():
    yield "Not run.\n"
    return
  groups = command.there(one, folder)
  made = one.render(groups)
  yield from map(_where, groups)
  figures = out.parent / out.stem
  if made.figures:
    figures.mkdir(parents=True, exist_ok=True)
  for name, svg in made.figures.items():
    disk.write_atomic(figures / f"{name}.svg", svg)
  yield command.markdown(made, f"{out.stem}/")


def _where(group: Group) -> str:
  """Says when a group was run, and on what."""
  seen = [one for unit in group.units for one in unit.environments]
  dates = sorted({one.get("date", "?") for one in seen})
  devices, versions = set(), set()
  for one in seen:
    versions.add(f"jax {one.get('jax', '?')}")
    if one.get("device") == "cpu":
      devices.add(f"{one.get('cores', '?')} cores of {one.get('cpu', '?')}")
    else:
      devices.add(f"{one.get('devices', '?')} {one.get('device', '?')}")
  when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
  told = ", ".join([when, *sorted(devices), *sorted(versions)])
  return f"{formats.markdown_text(f'{group.name}: {told}.')}\n"


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
