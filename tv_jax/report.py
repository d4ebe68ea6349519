"""Writes a run's report again: `python -m tv_jax.report runs/quickstart`."""

from absl import flags

from tv_jax.edge import cli
from tv_jax.runs import report

_BASELINE = flags.DEFINE_string(
  "baseline", None, "The rule that gains are over; by default the config's."
)


def main(arguments: list[str]) -> None:
  """Writes a run's tables and page, and says where that is."""
  if len(arguments) != 1:
    raise ValueError("give a run's folder: python -m tv_jax.report FOLDER")
  print(report.write(arguments[0], _BASELINE.value).page)


if __name__ == "__main__":
  cli.run("tv_jax.report", main, arguments=True)
