"""What all commands share: how they start and end, and checks of flags."""

import os
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
  try:
    app.run(lambda argv: main(argv[1:]), flags_parser=parse)
  except (flags.Error, ValueError, OSError) as error:
    print(f"{name}: {error}", file=sys.stderr)
  except KeyboardInterrupt:
    print(f"{name}: interrupted", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(130)  # jaxlib may still be at work, and would crash at an exit
  sys.exit(2)


def no_arguments(arguments: Sequence[str]) -> None:
  """Refuses what is no flag."""
  if arguments:
    raise ValueError(
      f"unexpected argument {arguments[0]!r}: flags start with --"
    )
