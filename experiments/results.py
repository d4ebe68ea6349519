"""All artefacts on one page: `python -m experiments.results`.

Reads the folders that the experiments left (--workdir) and writes
docs/results.md (--out) with the figures beside it: every table and figure with
its command, and when and on which machine it was made. What was not run is so
said.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator

from experiments import command, names, writing
from experiments.experiment import Experiment, Group
from tv_jax.edge import cli, disk
from tv_jax.runs.report import formats

HEAD = """# Results

The paper's tables and figures, and what goes beyond them, made by
`make experiments`; this page by `python -m experiments.results` from the same
runs. Nothing here is written by hand. Seeds are pooled by question, errors are
over questions.
"""


def main(arguments: list[str]) -> int:
  """Writes the page; 2, and one line, for what cannot be read."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.results",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    "--workdir", type=pathlib.Path, default=pathlib.Path(command.WORKDIR)
  )
  parser.add_argument(
    "--out", type=pathlib.Path, default=pathlib.Path("docs", "results.md")
  )
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
  """An experiment's part of the page."""
  yield f"## {one.title}\n\n    python -m experiments.{one.name}\n"
  if one.configs and not folder.is_dir():
    yield "Not run.\n"
    return
  groups = command.there(one, folder)
  made = one.render(groups)
  for group in groups:
    yield _where(group)
  figures = out.parent / out.stem
  if made.figures:
    figures.mkdir(parents=True, exist_ok=True)
  for name, svg in made.figures.items():
    disk.write_atomic(figures / f"{name}.svg", svg)
  yield writing.markdown(made, f"{out.stem}/")


# Of an environment; an older version may not have told all of it.
_TOLD = ("date", "devices", "device", "cores", "cpu", "jax")


def _where(group: Group) -> str:
  """When a group was run, and on what."""
  seen = [one for unit in group.units for one in unit.environments]
  seen = [dict.fromkeys(_TOLD, "?") | one for one in seen]
  dates = sorted({one["date"] for one in seen})
  devices = {
    f"{one['devices']} {one['device']}"
    if one["device"] != "cpu"
    else f"{one['cores']} cores of {one['cpu']}"
    for one in seen
  }
  versions = {f"jax {one['jax']}" for one in seen}
  when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
  told = ", ".join([when, *sorted(devices), *sorted(versions)])
  return f"{formats.markdown_text(f'{group.name}: {told}.')}\n"


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
