"""Reads pages: their files, programs, commands, printed output and links."""

import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

from tests.lib import quick
from tests.lib.stores import ROOT

DOCS = ROOT / "docs"
GENERATED = ("results.md",)
PAGES = [
  ROOT / "README.md",
  *(path for path in sorted(DOCS.glob("*.md")) if path.name not in GENERATED),
]
# How a line of a block begins that is a command, with or without a dollar.
COMMAND = r"(?:[A-Z_]+=\w+ )?(?:\S*python|make|curl|hf|pip|git|ray) "
# Numbers that differ between runs: times, and rounding in float64.
TIME = r"\d+(?:\\\.\d+)?(?=\\ (?:s|tokens/s)\b)"
ROUNDING = r"\d\\\.\de\\-1\d"
NUMBER = r"(?:\\[+-])?(?<!\w)\d+(?:\\\.\d+)?(?!\w)"


class Command(NamedTuple):
  """A command of a page, and the output below it (None: none is shown)."""

  text: str
  printed: str | None = None


def files_of(text):
  """{name: content} of the fenced blocks that begin with their names."""
  return {
    begun[1]: block
    for block in fenced(text)
    if (begun := re.match(r"# (\w+)\.py\n", block))
  }


def programs_of(text):
  """Returns (program, printed or None) for the other fenced blocks."""
  found = re.findall(
    r"^```python\n(.*?)^```$\n?((?:\n|    [^\n]*\n)*)", text, re.M | re.S
  )
  return [
    (block, None if re.match(rf"\s*(\$|{COMMAND}|$)", below) else clean(below))
    for block, below in found
    if not re.match(r"# \w+\.py\n", block)
  ]


def fenced(text):
  """All blocks of Python."""
  return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def write_files(text, folder):
  """Writes a page's files into a folder."""
  for name, content in files_of(text).items():
    (folder / f"{name}.py").write_text(content)


def blocks_of(text):
  """Returns the commands of each indented block that has any."""
  text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
  found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", text, re.M)
  return [commands for block in found if (commands := commands_of(block))]


def commands_of(text):
  """Returns the commands of a text, in order."""
  commands, lines = [], text.splitlines()
  while lines:
    begun = re.match(rf"    (\$ )?(?={COMMAND})", line := lines.pop(0))
    if not begun:
      continue
    command = re.sub(r"\s+# .*", "", line[begun.end() :])
    while command.endswith("\\"):
      command = command[:-1] + lines.pop(0).strip()
    printed = []
    while begun[1] and lines and re.match(r"    (?!\$ )|$", lines[0]):
      printed.append(lines.pop(0))
    shown = clean("\n".join(printed)) if begun[1] else None
    commands.append(Command(command, shown))
  return commands


def clean(block):
  """The lines of an indented block, without the indent."""
  return re.sub(r"^    ", "", block.rstrip(), flags=re.M).lstrip("\n")


def run(command, folder, path=ROOT):
  """Runs a command by the shell, as it stands; `path` is where tv_jax lies."""
  environment = os.environ | {
    "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": str(path),
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": quick.flags(),
    "MPLBACKEND": "svg",
  }
  return subprocess.run(
    ["bash", "-c", command],
    cwd=folder,
    env=environment,
    capture_output=True,
    text=True,
    check=False,
  )


def difference(shown, printed, *, numbers=True):
  """Compares a page's output with a command's, line by line.

  A line of three dots stands for any lines, three dots in a line for any text.
  Times and rounding errors may differ.

  Args:
    shown: The output on the page.
    printed: What the command printed.
    numbers: Whether numbers must agree. A model's differ between processors.

  Returns:
    The first line that differs, in words; "" if none does.
  """
  lines = [line.rstrip() for line in printed.rstrip().splitlines()]
  skipping = False
  for line in shown.splitlines():
    if line.strip() == "...":
      skipping = True
      continue
    pattern = _pattern(line.rstrip(), numbers)
    while skipping and lines and not re.fullmatch(pattern, lines[0]):
      lines.pop(0)
    if not lines or not re.fullmatch(pattern, lines.pop(0)):
      return f"{line!r} was not printed, in order:\n{printed}"
    skipping = False
  return "" if skipping or not lines else f"{lines[0]!r} is not on the page"


def _pattern(line, numbers):
  """A pattern of a line of output; a model's numbers change columns' widths."""
  pattern = re.escape(line).replace(r"\.\.\.", ".*")
  if not numbers:
    pattern = re.sub(NUMBER, r"[+-]?\\d+(?:\\.\\d+)?", pattern)
  pattern = re.sub(TIME, r"\\d+(?:\\.\\d+)?", pattern)
  pattern = re.sub(ROUNDING, r"(?:0|\\d\\.\\de-\\d+)", pattern)
  return pattern if numbers else re.sub(r"(?:\\ )+", " *", pattern)


def links_of(text):
  """Returns the targets of all links that are not on the web."""
  prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
  found = re.findall(r"\]\(([^)\s]+)\)", prose)
  return [link for link in found if not re.match(r"https?:", link)]


def anchors_of(text):
  """Returns the anchors that GitHub gives to the headings."""
  prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
  titles = re.findall(r"^#+ (.*)$", prose, re.M)
  return {
    re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
  }
