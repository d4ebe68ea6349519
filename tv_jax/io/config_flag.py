"""The flag --config, of ml_collections: a file, or a bundled one's name."""

import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags
from ml_collections import config_flags

from tv_jax.io.errors import UserError

flags.disclaim_key_flags()  # --help shows them with the command that has them

HELP = (
  "A file with get_config(), or the name of a bundled one, and after a colon"
  " what this is given. Its fields are set by --config.some.field=value."
)
# Bundled configs import each other from `configs`, so the folder above it has
# to be on sys.path. In a wheel this is a separate folder, not the package.
_PACKAGE = pathlib.Path(__file__).parents[1]
_WHEEL = _PACKAGE / "assets" / "configs"
FOLDER = (_WHEEL if _WHEEL.is_dir() else _PACKAGE.parent) / "configs"
_NAMED = re.compile(r"--?config=(.*)")
_argv: list[str] = []  # where ml_collections looks for the fields


def define(help_text: str = HELP) -> flags.FlagHolder:
  """Defines the flag."""
  holder = config_flags.DEFINE_config_file(
    "config", help_string=help_text, sys_argv=_argv
  )
  flags.FLAGS["config"].default_as_str = None  # help would say 'None'
  return holder


def parse(argv: list[str], default: str | None = "quickstart") -> list[str]:
  """Parses all flags; if several configs are given, only the first.

  Args:
    argv: The command line.
    default: The config to use if none is given; None: one is required.
  """
  name = next(iter(_names(argv)), default)
  if name:
    _argv[:] = _with(name, argv)
  elif any(x.lstrip("-").startswith("help") for x in argv[1:]):
    _argv[:] = argv
  else:
    raise flags.Error(f"give --config: a file, or one of {_bundled()}")
  return _parse(flags.FLAGS, _argv)


def several(
  argv: Sequence[str], default: Sequence[str]
) -> dict[str, tuple[Any, dict[str, Any]]]:
  """Returns the configs of a command line, or else the default configs.

  Fields that the command line sets are set in each config, and are returned
  beside it, by dotted name.
  """
  configs = {}
  for name in _names(argv) or default:
    line, values = _with(name, argv), flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    _parse(values, line, known_only=True)
    flag = values["config"]
    configs[name] = flag.value, config_flags.get_override_values(flag)
  return configs


def _parse(values: flags.FlagValues, line: list[str], **options) -> list[str]:
  """Parses a command line; mistakes become one line."""
  try:
    return values(line, **options)
  except (AttributeError, KeyError) as error:
    # An AttributeError of a KeyError: "'name'", then "Did you mean .." or not.
    reason = getattr(error.args[0], "args", error.args)[0]
    reason = " ".join(str(reason).split())
    raise flags.Error(f"a config has no field {reason}") from None
  except flags.IllegalFlagValueError as error:
    # ml_collections replaces a UserError of get_config() by its traceback.
    cause: BaseException | None = error
    while cause := cause.__context__:
      if isinstance(cause, UserError) and "\n" not in str(cause):
        raise cause from None
    raise


def _bundled() -> str:
  """Returns the names of the bundled configs."""
  return ", ".join(sorted({x.stem for x in FOLDER.glob("*.py")} - {"common"}))


def _names(argv: Sequence[str]) -> list[str]:
  return [match[1] for x in argv[1:] if (match := _NAMED.fullmatch(x))]


def _with(name: str, argv: Sequence[str]) -> list[str]:
  """Returns a command line with this config only.

  A user's file comes before a bundled config of the same name.
  """
  if str(FOLDER.parent) not in sys.path:
    sys.path.append(str(FOLDER.parent))
  file, *argument = name.split(":", 1)
  path = pathlib.Path(file)
  if not path.is_file() and str(path.parent) in (".", FOLDER.name):
    path = FOLDER / f"{path.stem}.py"
  if not path.is_file():
    raise flags.Error(
      f"--config={file}: no such file; bundled are {_bundled()}"
    )
  others = [x for x in argv[1:] if not _NAMED.fullmatch(x)]
  return [argv[0], f"--config={':'.join([str(path), *argument])}", *others]
