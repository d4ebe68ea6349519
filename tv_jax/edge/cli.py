"""How all commands read flags, complain and end: in one way.

What things are called is called so in all commands, in the plural where one of
them takes several; the singular will do. A list of them, or of numbers, is one
text, with spaces between, or commas. What a user can mend is one line, that
begins with the command, and the exit status 2. A signal is one line, too, and
128 and its number.
"""

import functools
import math
import os
import pathlib
import re
import sys
from collections.abc import Callable, Sequence

from absl import app, flags

from tv_jax.edge import names, reading
from tv_jax.edge.endings import Heard, tell, unread
from tv_jax.edge.endings import run as until_told

__all__ = [
  "Heard",
  "check_place",
  "complain",
  "define_folder",
  "define_names",
  "no_arguments",
  "numbers",
  "only",
  "own_names",
  "run",
  "split",
  "tell",
  "until_told",
]


_FLAG = re.compile(r"--?([a-z][\w-]*)(=.*)?", re.DOTALL)


def run(
  name: str,
  main: Callable[[Heard, list[str]], int | None],
  parse: Callable[[list[str]], list[str]] = flags.FLAGS,
) -> None:
  """Runs a command, and exits.

  Args:
    name: As it is called after `python -m`.
    main: Of what is heard of signals, and what is left of the command line, to
      the exit status. Its ValueErrors and OSErrors are the user's to mend.
    parse: Reads the flags.
  """

  def read(argv):
    try:
      return parse(own_names(argv))
    except Exception as error:  # a config file runs as it is read
      if unread(error):
        raise
      # What it raised comes with its traceback for a message.
      while "Traceback" in str(error) and error.__context__:
        error = error.__context__
      sys.exit(complain(name, error))

  def command(heard, argv):
    try:
      return main(heard, argv[1:])
    except (ValueError, OSError) as error:
      if heard.status or unread(error):
        raise
      return complain(name, error)

  until_told(
    lambda heard: app.run(functools.partial(command, heard), flags_parser=read)
  )


def complain(name: str, error) -> int:
  """Prints one line, and returns the exit status of a bad command."""
  print(f"{name}: {reading.line(error)}", file=sys.stderr)
  return 2


def no_arguments(arguments: list[str]) -> None:
  """Refuses what is no flag."""
  if arguments:
    raise ValueError(
      f"unexpected argument {arguments[0]!r}; flags start with --"
    )


def own_names(
  argv: Sequence[str], values: flags.FlagValues = flags.FLAGS
) -> list[str]:
  """Returns a command line, with each flag under the name that it has here.

  Nobody has to know where a word is set off by a dash, and what takes one thing
  where: --verifier is --verifiers, --gpus-per-unit is --gpus_per_unit.
  """
  program, *rest = argv
  rest = values.read_flags_from_files(rest, force_gnu=False)
  return [program, *(_own_name(one, values) for one in rest)]


def _own_name(argument, values):
  if found := _FLAG.fullmatch(argument):
    name, value = found.groups("")
    name = name.replace("-", "_")
    for known in (name, f"{name}s", name.removesuffix("s")):
      if known in values:
        return f"--{known}{value}"
  return argument


def define_folder(
  name: str, default: str | None, told: str
) -> flags.FlagHolder:
  """A flag that holds a folder: an empty one would be the current one."""
  flags.disclaim_key_flags()
  found = flags.DEFINE_string(name, default, told)
  flags.register_validator(name, lambda text: text != "", "give a folder")
  return found


def define_names(
  name: str,
  default: str | None,
  told: str,
  values: flags.FlagValues = flags.FLAGS,
) -> flags.FlagHolder:
  """A flag that holds names or numbers; given again, it holds those as well."""
  flags.disclaim_key_flags()  # --help shows those of the module that calls
  return flags.DEFINE_multi_string(name, default, told, flag_values=values)


def split(texts: list[str] | None) -> list[str] | None:
  """Returns the names in such a flag's value; None: none was given."""
  return texts if texts is None else names.split(" ".join(texts))


def only(flag: flags.FlagHolder | flags.Flag) -> str | None:
  """Returns the name in such a flag's value, where there can be but one."""
  if flag.value is None:
    return None
  found = names.split(" ".join(flag.value))
  if len(found) != 1:
    raise ValueError(f"--{flag.name}={' '.join(found)}: give one")
  return found[0]


def numbers(
  flag: flags.FlagHolder | flags.Flag,
  kind: type,
  *,
  least: float = -math.inf,
  above: float = -math.inf,
) -> list:
  """Returns the numbers in such a flag's value.

  Args:
    flag: Whose value is read.
    kind: int or float.
    least: None is less.
    above: All are more.
  """
  given = ",".join(flag.value or ())
  try:
    found = [kind(text) for text in given.replace(",", " ").split()]
  except ValueError:
    found = []
  if not found or not all(least <= x < math.inf and x > above for x in found):
    what = "whole numbers" if kind is int else "numbers"
    limit = f"{least} or more" if least > above else f"more than {above}"
    raise ValueError(f"--{flag.name}={given}: give {what} of {limit}")
  return found


def check_place(
  flag: flags.FlagHolder | flags.Flag, end: str, reads: Sequence[str] = ()
) -> None:
  """Refuses a file that could not be written, before hours of work.

  Args:
    flag: Whose value is its path; None: none is asked for.
    end: Of its name, so that what is read here is not written over.
    reads: What is read, of any name.
  """
  if flag.value is None:
    return
  path = pathlib.Path(flag.value)
  if path.suffix != end:
    reason = f"give a name that ends in {end}"
  elif path.is_dir():
    reason = "it is a folder"
  elif not path.parent.is_dir():
    reason = f"there is no folder {path.parent}"
  elif not os.access(path.parent, os.W_OK):
    reason = f"no permission to write in {path.parent}"
  elif path.exists() and any(map(path.samefile, filter(os.path.exists, reads))):
    reason = "it is read here: give another name"
  else:
    return
  raise ValueError(f"--{flag.name}={flag.value}: {reason}")
