"""All experiments on one page: `python -m experiments.results`.

Reads the experiments' folders, and writes every table and figure with its
command, its date, its machine and its commit, but no speeds: these have pages
of their own. Experiments without runs say "Not run".
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from absl import flags

from experiments import running
from experiments.experiment import NAMES, Experiment, Group, find, read_all
from tv_jax.io import cli, disk
from tv_jax.runs.tables import markdown_text

_WORKDIR = flags.DEFINE_string(
  "workdir", running.WORKDIR, "The folder with a folder for each experiment."
)
_OUT = flags.DEFINE_string("out", "docs/results.md", "The page to write.")

HEAD = """# Results

The paper's tables and figures, and a few more. `make experiments` runs them,
and `python -m experiments.results` makes this page of the runs: no number is
written by hand. Seeds are pooled by question, and errors are over questions.
"""


def write(workdir: pathlib.Path, out: pathlib.Path) -> None:
  """Writes the page, and its figures in a folder of the same name."""
  parts = [HEAD]
  for name in NAMES:
    parts += _section(find(name), workdir / name, out)
  out.parent.mkdir(parents=True, exist_ok=True)
  disk.write_atomic(out, "\n".join(parts))


def _section(
  experiment: Experiment, folder: pathlib.Path, out: pathlib.Path
) -> Iterator[str]:
  """Makes an experiment's part of the page, and writes its figures."""
  title, name = experiment.title, experiment.name
  yield f"## {title}\n\n    python -m experiments {name}\n"
  if not folder.is_dir():
    yield "Not run.\n"
    return
  groups = [_untimed(group) for group in read_all(folder)]
  report = experiment.render(groups)
  yield from map(_where, groups)
  figures = out.parent / out.stem
  figures.mkdir(parents=True, exist_ok=True)
  for name, svg in report.figures.items():
    disk.write_atomic(figures / f"{name}.svg", svg)
  yield running.markdown(report, f"{out.stem}/")


def _untimed(group: Group) -> Group:
  """Returns a group without its times."""
  units = (dataclasses.replace(unit, timing=None) for unit in group.units)
  return dataclasses.replace(group, units=tuple(units))


def _where(group: Group) -> str:
  """Says when a group was run, and on what."""
  environments = [entry for unit in group.units for entry in unit.environments]
  dates = sorted({entry["date"] for entry in environments})
  versions = {f"jax {entry['jax']}" for entry in environments}
  versions |= {
    f"commit {entry['revision']}"
    for entry in environments
    if entry.get("revision")
  }
  devices = {
    "{cores} cores of {cpu}".format_map(entry)
    if entry["device"] == "cpu"
    else "{devices} {device}".format_map(entry)
    for entry in environments
  }
  when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
  where = ", ".join([when, *sorted(devices), *sorted(versions)])
  return f"{markdown_text(f'{group.name}: {where}.')}\n"


def main() -> None:
  """Writes the page."""
  write(pathlib.Path(_WORKDIR.value), pathlib.Path(_OUT.value))
  print(_OUT.value)


if __name__ == "__main__":
  cli.run("experiments.results", main)
