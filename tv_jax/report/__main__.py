"""Writes a run's report again: `python -m tv_jax.report runs/quickstart`."""

import sys

from tv_jax import endings, report


def main(arguments) -> int:
  """Writes the report; 2, and one line, for a folder that holds no run."""
  usage = "usage: python -m tv_jax.report FOLDER"
  if arguments in (["-h"], ["--help"]):
    print(f"{usage}\n\nWrites a run's tables, plots and page again.")
    return 0
  if len(arguments) != 1 or arguments[0].startswith("-"):
    print(usage, file=sys.stderr)
    return 2
  try:
    print(report.write(arguments[0]).page)
  except (ValueError, OSError) as error:
    print("tv_jax.report:", " ".join(str(error).split()), file=sys.stderr)
    return 2
  return 0


if __name__ == "__main__":
  endings.run(lambda heard: main(sys.argv[1:]))
