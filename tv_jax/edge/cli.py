"""How all commands read flags, complain and end: in one way.

What things are called is called so in all commands, in the plural where one of
them takes several; the singular will do. A list of them, or of numbers, is one
text, with spaces between, or commas. What a user can mend is one line, that
begins with the command, and the exit status 2. A signal is one line, too, and
128 and its number.
"""

import functools
import sys
from collections.abc import Callable

from absl import app, flags

from tv_jax.edge import reading
from tv_jax.edge.children import end_children, run_child, start_child
from tv_jax.edge.endings import Heard, tell, unread
from tv_jax.edge.endings import run as until_told
from tv_jax.edge.values import (
  check_place,
  define_folder,
  define_names,
  numbers,
  only,
  own_names,
  split,
)

__all__ = [
  "Heard",
  "check_place",
  "complain",
  "define_folder",
  "define_names",
  "end_children",
  "no_arguments",
  "numbers",
  "only",
  "own_names",
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
