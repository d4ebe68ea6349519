"""Writes a run's report again: `python -m tv_jax.report runs/quickstart`."""

from tv_jax.edge import cli
from tv_jax.edge.errors import UserError
from tv_jax.runs import report


def main(arguments: list[str]) -> None:
  """Writes a run's tables and page, and prints the path of the page."""
  if len(arguments) != 1:
    raise UserError("give a run's folder: python -m tv_jax.report FOLDER")
  print(report.write(arguments[0]).page)


if __name__ == "__main__":
  cli.run("tv_jax.report", main, arguments=True)
