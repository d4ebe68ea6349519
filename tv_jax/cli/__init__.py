"""How all commands read flags, complain and end: in one way.

A list of names is one text, with spaces between, or commas. What a user can
mend is one line, that begins with the command, and the exit status 2. A signal
is one line, too, and 128 and its number.
"""

import functools
import sys
from collections.abc import Callable

from absl import app, flags

from tv_jax import names
from tv_jax.cli.children import end_children, run_child, start_child
from tv_jax.cli.endings import Heard, tell, unread
from tv_jax.cli.endings import run as until_told

__all__ = [
  "Heard",
  "complain",
  "define_folder",
  "define_names",
  "end_children",
  "no_arguments",
  "run",
  "run_child",
  "split",
  "start_child",
  "tell",
  "until_told",
]


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
      return parse(argv)
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
  print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
  return 2


def no_arguments(arguments: list[str]) -> None:
  """Refuses what is no flag."""
  if arguments:
    raise ValueError(
      f"unexpected argument {arguments[0]!r}; flags start with --"
    )


def define_names(name: str, default: str | None, told: str) -> flags.FlagHolder:
  """A flag that holds names; given again, it holds those as well."""
  flags.disclaim_key_flags()  # --help shows those of the module that calls
  return flags.DEFINE_multi_string(name, default, told)


def define_folder(
  name: str, default: str | None, told: str
) -> flags.FlagHolder:
  """A flag that holds a folder: an empty one would be the current one."""
  flags.disclaim_key_flags()
  found = flags.DEFINE_string(name, default, told)
  flags.register_validator(name, lambda text: text != "", "give a folder")
  return found


def split(texts: list[str] | None) -> list[str] | None:
  """The names in such a flag's value; None: none was given."""
  return texts if texts is None else names.split(" ".join(texts))
