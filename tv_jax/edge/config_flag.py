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
_NAMED = re.compile(r"--?config=(.*)")
_FIELD = re.compile(r"--?(?:no)?config\.([^=]+)")
_line: list[str] = []  # where ml_collections looks for the fields


def define(help_text: str = HELP) -> flags.FlagHolder:
  """Defines the flag."""
  return config_flags.DEFINE_config_file(
    "config", help_string=help_text, sys_argv=_line
  )


def parse(argv: list[str]) -> list[str]:
  """Reads all flags; of several configs the first."""
  name, *_ = [*_names(argv), "quickstart"]
  _line[:] = _with(name, argv)
  try:
    return flags.FLAGS(_line)
  except AttributeError as error:
    error.add_note("Is there such a field for --config.field=?")
    raise


def several(argv: list[str], default: Sequence[str]) -> dict[str, ConfigDict]:
  """Returns the configs of a command line, or else those of some names.

  What the command line sets is set in each.
  """
  configs = {}
  for name in _names(argv) or default:
    line, values = _with(name, argv), flags.FlagValues()
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


def _names(argv: Sequence[str]) -> list[str]:
  return [match[1] for x in argv[1:] if (match := _NAMED.fullmatch(x))]


def _with(name: str, argv: Sequence[str]) -> list[str]:
  """Returns a command line with this config alone: a user's own comes first."""
  if str(FOLDER.parent) not in sys.path:
    sys.path.append(str(FOLDER.parent))  # bundled configs import `configs`
  file, *argument = name.split(":", 1)
  path = pathlib.Path(file)
  if not path.is_file() and str(path.parent) in (".", FOLDER.name):
    path = FOLDER / f"{path.stem}.py"
  if not path.is_file():
    names = {path.stem for path in FOLDER.glob("*.py")} - {"common"}
    known = ", ".join(sorted(names))
    raise flags.Error(f"--config={file}: no such file; bundled are {known}")
  others = [x for x in argv[1:] if not _NAMED.fullmatch(x)]
  return [argv[0], f"--config={':'.join([str(path), *argument])}", *others]
