"""Reads the files, commands and printed output in a tutorial."""

import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

from tests.lib import quick
from tests.lib.stores import ROOT

DOCS = ROOT / "docs"


class Command(NamedTuple):
  """A command of a document, and the output below it."""

  text: str
  printed: str


def files_of(text):
  """{name: content} of the fenced blocks, which begin with their names."""
  blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
  return {re.match(r"# (\w+)\.py\n", block)[1]: block for block in blocks}


def write_files(text, folder):
  """The document's files, in a folder, and the configs that it names."""
  for name, content in files_of(text).items():
    (folder / f"{name}.py").write_text(content)
  (folder / "configs").symlink_to(ROOT / "configs")


def commands_of(text, begin=r"\$ "):
  """All that begin so, in order; by default those after a dollar sign."""
  commands, lines = [], text.splitlines()
  while lines:
    line = lines.pop(0)
    if not (begun := re.match(f"    {begin}", line)):
      continue
    command = line[begun.end() :]
    while command.endswith("\\"):
      command = command[:-1] + lines.pop(0).strip()
    printed = []
    while lines and not re.match(rf"    {begin}|\S", lines[0]):
      printed.append(lines.pop(0))
    commands.append(Command(command, "\n".join(printed)))
  return commands


def run(command, folder, path=ROOT):
  """The command as it stands, by the shell; `path` is where tv_jax lies."""
  environment = os.environ | {
    "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": str(path),
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": quick.flags(),
    "COLUMNS": "300",
  }
  return subprocess.run(
    ["bash", "-c", command.text],
    cwd=folder,
    env=environment,
    capture_output=True,
    text=True,
    check=False,
  )


def missing(command, done, *, numbers=True):
  """Returns documented output that a command did not print.

  Args:
    command: The command and its documented output.
    done: The finished process.
    numbers: Whether numbers must agree. A model's numbers differ between
      processors.

  Returns:
    Missing lines; of a line with dots, the missing parts.
  """
  printed = _plain(done.stdout + "\n" + done.stderr, numbers)
  parts = re.split(r"\.\.\.|\n", command.printed)
  plain = (_plain(part, numbers) for part in parts)
  return [part for part in plain if part not in printed]


def _plain(text, numbers):
  """As one line; the seconds that it took are anyone's."""
  text = re.sub(r", \d+ s\b", ", some s", " ".join(text.split()))
  return text if numbers else re.sub(r"[+-]?\d+\.\d+|\b\d+ new", "N", text)
