"""What all commands share: how they start and end, and checks of flags."""

import os
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence

from absl import app, flags


def run(
  name: str,
  main: Callable[[list[str]], int | None],
  parse: Callable[[list[str]], list[str]] = flags.FLAGS,
) -> None:
  """Runs a command, and exits; SIGTERM is Ctrl-C.

  Args:
    name: As it is called after `python -m`.
    main: Of what is left of the command line, to the exit status. What a user
      can mend are its ValueErrors and OSErrors: of these the line is enough.
    parse: Reads the flags.
  """

  def interrupt(number, frame):
    raise KeyboardInterrupt

  signal.signal(signal.SIGTERM, interrupt)
  status = 2
  try:
    app.run(lambda argv: main(argv[1:]), flags_parser=parse)
  except (flags.Error, ValueError, OSError) as error:
    print(f"{name}: {error}", file=sys.stderr)
  except KeyboardInterrupt:
    print(f"{name}: interrupted", file=sys.stderr)
    status = 130
  sys.exit(status)


def no_arguments(arguments: Sequence[str]) -> None:
  """Refuses what is no flag."""
  if arguments:
    raise ValueError(
      f"unexpected argument {arguments[0]!r}: flags start with --"
    )


def check_place(flag: flags.FlagHolder, end: str) -> None:
  """Refuses a flag's file, if any, that could not be written in the end."""
  if flag.value is None:
    return
  path = pathlib.Path(flag.value)
  if path.suffix != end:
    raise ValueError(f"--{flag.name}={path}: give a name that ends in {end}")
  if not os.access(path.parent, os.W_OK):
    raise ValueError(f"--{flag.name}={path}: cannot write in {path.parent}")
