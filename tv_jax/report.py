"""Writes a run's report again: `python -m tv_jax.report runs/quickstart`.

With --csv=FILE it writes a line for each cycle of the run into a file instead.
"""

import os

from absl import flags

from tv_jax import runs
from tv_jax.io import cli
from tv_jax.io.errors import UserError
from tv_jax.runs import report

_CSV = flags.DEFINE_string(
  "csv", None, "A file to write, with the columns of tv_jax.frame."
)


def main(arguments: list[str]) -> None:
  """Writes a run's tables and page, or its cycles, and prints the path."""
  if len(arguments) != 1:
    raise UserError("give a run's folder: python -m tv_jax.report FOLDER")
  if _CSV.value:
    runs.frame(arguments[0]).to_csv(_CSV.value, index=False)
  else:
    report.write(arguments[0])
  print(_CSV.value or os.path.join(arguments[0], report.PAGE))


if __name__ == "__main__":
  cli.run("tv_jax.report", main, arguments=True)
