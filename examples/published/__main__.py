"""Print the table of verdicts on published samplers.

python -m examples.published --checkouts=FOLDER
"""

import argparse
import importlib
import os
import subprocess
import time

from examples import published
from tv_jax import certify

HEADER = (
  *("system", "file: function", "version", "tree", "verdict", "TV"),
  *("seconds", "what is wrong"),
)


def main() -> None:
  """Certify all samplers that are there."""
  # Random draws of compiled code are not followed.
  os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
  parser = argparse.ArgumentParser(
    prog="python -m examples.published", description=published.__doc__
  )
  parser.add_argument("--checkouts", help="the folder of all checkouts")
  parser.add_argument("names", nargs="*", help="adapters (default: all)")
  arguments = parser.parse_args()
  if arguments.checkouts:
    os.environ[published.CHECKOUTS] = arguments.checkouts
  print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
  for name in arguments.names or published.NAMES:
    try:
      adapter = importlib.import_module(f"examples.published.{name}")
    except ImportError as error:
      print(f"| {name} | not installed: {error} |")
    except FileNotFoundError as error:
      print(f"| {name} | {error} |")
    else:
      for setting in adapter.PROGRAMS:
        print(row(adapter, setting), flush=True)


def row(adapter, setting: str) -> str:
  """Certify one of an adapter's programs; return its row of the table."""
  started = time.process_time()
  program = adapter.PROGRAMS[setting]
  found = certify.check_program(program, **adapter.SETTINGS)
  cells = (
    f"[{adapter.SYSTEM}](https://github.com/{adapter.REPOSITORY})"
    + (f", {setting}" if setting else ""),
    adapter.SOURCE,
    getattr(adapter, "VERSION", None) or commit(adapter.REPOSITORY),
    adapter.SETTINGS.get("tree", "two drafts, the whole cycle"),
    found.told.lower(),
    f"{found.distance:.1g}",
    f"{time.process_time() - started:.0f}",
    getattr(adapter, "WRONG", {}).get(setting, ""),
  )
  return f"| {' | '.join(cells)} |"


def commit(repository: str) -> str:
  """Return the commit of a checkout, or "a copy" for a folder without git."""
  folder = published.checkout(repository)
  if not (folder / ".git").exists():
    return "a copy"
  command = ["git", "-C", folder, "rev-parse", "--short", "HEAD"]
  return subprocess.check_output(command, text=True).strip()


if __name__ == "__main__":
  main()
