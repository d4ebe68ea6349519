"""The flag --config, of ml_collections: a file, or a bundled one's name."""

import pathlib
import re
import sys
from collections.abc import Iterator, Sequence

from absl import flags
from ml_collections import config_flags
from ml_collections.config_dict import ConfigDict

flags.disclaim_key_flags()  # --help shows them with the command that has them

HELP = (
  "A file with get_config(), or the name of a bundled one, and after a colon"
  " what this is given. Its fields are set by --config.some.field=value."
)
# In a wheel the configs are in the package, else beside it.
FOLDER = next(
  above / "configs"
  for above in pathlib.Path(__file__).parents[1:]
  if (above / "configs").is_dir()
)
_GIVEN = re.compile(r"--?config=(.*)")
_FIELD = re.compile(r"--?(?:no)?config\.([^=]+)")
_line: list[str] = []  # where ml_collections looks for the fields


def define(help_text: str = HELP) -> flags.FlagHolder:
  """Defines the flag."""
  return config_flags.DEFINE_config_file(
    "config", help_string=help_text, sys_argv=_line
  )


def parse(argv: list[str], default: str = "quickstart") -> list[str]:
  """Reads all flags; of several configs the first."""
  named, rest = _split(argv)
  _line[:] = [argv[0], f"--config={_place((named or [default])[0])}", *rest]
  try:
    return flags.FLAGS(_line)
  except AttributeError as error:
    error.add_note("Is there such a field for --config.field=?")
    raise


def several(argv: list[str], default: Sequence[str]) -> dict[str, ConfigDict]:
  """Returns the configs of a command line, or else those of some names.

  What the command line sets is set in each.
  """
  named, rest = _split(argv)
  configs = {}
  for name in named or default:
    line = [argv[0], f"--config={_place(name)}", *rest]
    values = flags.FlagValues()
    flag = config_flags.DEFINE_config_file(
      "config", flag_values=values, sys_argv=line
    )
    values(line, known_only=True)
    configs[name] = flag.value
  return configs


def fields(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
  """Yields the fields that a command line sets, each with what sets it."""
  for argument in argv:
    if match := _FIELD.match(argument):
      yield match[1], argument


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
  """Splits a command line into its configs' names and the other arguments."""
  named, rest = [], []
  for argument in argv[1:]:
    match = _GIVEN.fullmatch(argument)
    (named if match else rest).append(match[1] if match else argument)
  return named, rest


def _place(name: str) -> str:
  """Returns where a config is: a user's own file comes first."""
  if str(FOLDER.parent) not in sys.path:
    sys.path.append(str(FOLDER.parent))  # bundled configs import `configs`
  name, *argument = name.split(":", 1)
  path = pathlib.Path(name)
  bundled = FOLDER / f"{path.stem}.py"
  if not path.is_file() and str(path.parent) in (".", FOLDER.name):
    path = bundled
  if not path.is_file():
    names = {path.stem for path in FOLDER.glob("*.py")} - {"common"}
    known = ", ".join(sorted(names))
    raise flags.Error(f"--config={name}: no such file; bundled are {known}")
  return ":".join([str(path), *argument])
