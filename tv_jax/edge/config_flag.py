"""The flag --config: a file, with what is wrong in it told in one line.

A user's own file is looked for first, then the bundled ones: configs/smoke.py
and smoke are the same, wherever the command is given.
"""

import contextlib
import difflib
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags
from ml_collections import config_dict, config_flags
from ml_collections.config_flags import tuple_parser

from tv_jax.edge import reading

HELP = (
  "A file with get_config(), or the name of a bundled one, and after a colon"
  " what this is given; experiments take several. Its fields"
  " are set one by one: --config.some.field=value, a list as 0,1 or '0 1'."
)
_MODULE = "tv_jax_config_file"
_PACKAGE = "configs"
_NUMBERS = re.compile(r"[\d\s.eE+-]+")
_CONFIG = re.compile(r"--?config(?:=(.*))?", re.DOTALL)
_OVERRIDE = re.compile(r"--?(?:no)?config\.([^=\[]+)")


def folder() -> pathlib.Path:
  """Returns the folder of the bundled configs, in the package or beside it."""
  here = pathlib.Path(__file__).parents[1]
  inside = here / _PACKAGE
  return inside if inside.is_dir() else here.parent / _PACKAGE


def parse(
  argv: list[str], default: str | None = None, *, many: bool = False
) -> list[str]:
  """Reads all flags; "config" is one, defined without a default.

  A config file runs as it is read. Hence the default is read here, and not
  where the flag is defined: whoever calls this can catch what it raises.

  Args:
    argv: The command line.
    default: The config file if none is given.
    many: Whether several may be given: the first is read here, all by
      `several`.

  Returns:
    What is left of the command line.
  """
  flags.FLAGS["config"].parser = _Parser()
  given = _apart(argv)
  if len(given) > 1 and not many:
    raise flags.Error(f"--config is given {len(given)} times: give one")
  argv = next(iter(given.values()), argv)
  if default is not None:
    flags.FLAGS.set_default("config", default)
  return flags.FLAGS(argv)


def several(
  argv: list[str], names: Sequence[str]
) -> dict[str, config_dict.ConfigDict]:
  """Returns the configs that are asked for, or else those of these names.

  Args:
    argv: The command line; what it sets is set in each.
    names: Of bundled ones.

  Returns:
    By name, as --config takes it.
  """
  found = {}
  for name, own in (_apart(argv) or dict.fromkeys(names, argv)).items():
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, HELP, flag_values=values)
    values["config"].parser = _Parser()
    values.set_default("config", name)
    values(own, known_only=True)
    flag: Any = values["config"]
    found[name] = flag.value
  return found


def _apart(argv: Sequence[str]) -> dict[str, list[str]]:
  """Splits a line with several configs: for each, the line with it alone."""
  program, *told = argv
  left = iter(flags.FLAGS.read_flags_from_files(told, force_gnu=False))
  given, rest = [], []
  for argument in left:
    if argument == "--":
      rest += [argument, *left]
    elif match := _CONFIG.fullmatch(argument):
      name = next(left, "") if match[1] is None else match[1]
      if not name:
        raise flags.Error("--config: give a file, or a name")
      given.append(name)
    else:
      rest.append(argument)
  return {name: [program, f"--config={name}", *rest] for name in given}


class _Parser(flags.ArgumentParser):
  """Runs a config file, and checks that overridden fields are there."""

  def parse(self, argument: str) -> config_dict.ConfigDict:
    """Returns the config, locked."""
    name, *rest = argument.split(":", 1)
    config_flags.register_flag_parser_for_type(tuple, _Numbers())
    try:
      config = _run(_place(name), rest)
      for field in overridden():
        _check_field(config, field)
    except ValueError as error:
      # A ValueError would come out with the flag before what says it all.
      raise flags.Error(str(error)) from error
    config.lock()
    return config

  def flag_type(self) -> str:
    """For help."""
    return "config file"


class _Numbers(tuple_parser.TupleParser):
  """Reads a field's numbers, as flags': with spaces between, or commas."""

  def parse(self, argument) -> tuple:
    """Returns them."""
    if isinstance(argument, str) and _NUMBERS.fullmatch(argument):
      argument = ",".join(argument.split())
    return super().parse(argument)


def overridden() -> Iterator[str]:
  """Yields the fields that the command line sets."""
  argv = flags.FLAGS.read_flags_from_files(sys.argv[1:], force_gnu=False)
  for argument in argv:
    if field := field_of(argument):
      yield field


def told() -> Iterator[str]:
  """Yields what sets them, as it was given."""
  argv = flags.FLAGS.read_flags_from_files(sys.argv[1:], force_gnu=False)
  for argument, after in zip(argv, [*argv[1:], "-"], strict=True):
    if field_of(argument):
      alone = "=" in argument or after.startswith("-")
      yield argument if alone else f"{argument}={after}"


def field_of(argument: str) -> str | None:
  """Returns the field that an argument of a command line sets, if any."""
  found = _OVERRIDE.match(argument)
  return found and found[1]


def _place(name: str) -> str:
  """Returns a config file's path: one's own, or else a bundled one's."""
  path = pathlib.Path(name)
  bundled = folder() / f"{path.name.removesuffix('.py')}.py"
  is_short = str(path.parent) in (".", _PACKAGE)
  if is_short and not path.is_file() and bundled.is_file():
    return str(bundled)
  return name


def _run(path: str, arguments: list[str]) -> config_dict.ConfigDict:
  """Returns what a file's get_config returns."""
  module = types.ModuleType(_MODULE)
  module.__file__ = path
  sys.modules[_MODULE] = module  # for dataclasses in it
  try:
    source = reading.data(path, reading.LARGEST)
  except ValueError as error:
    names = sorted(one.stem for one in folder().glob("*.py"))
    names = ", ".join(one for one in names if one != "common")
    raise ValueError(f"{error}: give a file, or one of {names}") from None
  try:
    with _configs(path):
      exec(compile(source, path, "exec"), vars(module))
      if not hasattr(module, "get_config"):
        raise ValueError("there is no get_config() in it")
      config = module.get_config(*arguments)
    if not isinstance(config, config_dict.ConfigDict):
      raise ValueError(
        f"get_config() returns no ConfigDict, but {type(config).__name__}"
      )
  except Exception as error:
    raise ValueError(_told(path, error)) from error
  return config


@contextlib.contextmanager
def _configs(path: str):
  """Sets what config files import as `configs`: their own folder, the bundled.

  A bundled one must not find what a user happens to call `configs`, nor the
  other way round; but one's own may import from the bundled ones.
  """
  package = types.ModuleType(_PACKAGE)
  own = pathlib.Path(path).absolute().parent
  places = [own if own.name == _PACKAGE else own / _PACKAGE, folder()]
  package.__path__ = [str(place) for place in dict.fromkeys(places)]

  def take():
    names = [name for name in sys.modules if name.split(".")[0] == _PACKAGE]
    return {name: sys.modules.pop(name) for name in names}

  before = take()
  sys.modules[_PACKAGE] = package
  try:
    yield
  finally:
    take()
    sys.modules.update(before)


def _told(path, error) -> str:
  """Returns the error of a config file, with its line."""
  if isinstance(error, SyntaxError):
    return f"{path}: {error}"
  frames = traceback.extract_tb(error.__traceback__)
  lines = [frame.lineno for frame in frames if frame.filename == path]
  where = f"{path}, line {lines[-1]}" if lines else path
  kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
  return f"{where}: {kind}{error}"


def _check_field(config: config_dict.ConfigDict, field: str) -> None:
  """Refuses an override of what is not there, and says what may be meant."""
  value, above = config, "config"
  for part in field.split("."):
    if not isinstance(value, config_dict.ConfigDict):
      raise ValueError(
        f"unknown field config.{field}: {above} is a value, and has no fields"
      )
    if part not in value:
      raise ValueError(f"unknown field config.{field}: {_meant(config, field)}")
    value, above = value[part], f"{above}.{part}"


def _meant(config, field) -> str:
  """Returns the nearest fields; if nothing is near, those there are."""
  fields = [*_fields(config)]
  last = field.rpartition(".")[2]
  near = [one for one in fields if one.rpartition(".")[2] == last]
  near = near or difflib.get_close_matches(field, fields, n=1)
  if near:
    return f"did you mean {' or '.join(f'config.{one}' for one in near)}?"
  return f"there are {', '.join(fields)}"


def _fields(config, above: str = "") -> Iterator[str]:
  """Yields all fields, by dotted path."""
  for field, value in config.items():
    if isinstance(value, config_dict.ConfigDict):
      yield from _fields(value, f"{above}{field}.")
    else:
      yield above + field
