"""Starts and ends a command: flags, signals, errors, exit status."""

import os
import signal
import sys
from collections.abc import Callable

from absl import app, flags, logging

from tv_jax.io.errors import UserError


def run(
  name: str,
  main: Callable[..., int | None],
  parse: Callable[[list[str]], list[str]] = flags.FLAGS,
  *,
  arguments: bool = False,
) -> None:
  """Runs a command, and exits; SIGTERM is Ctrl-C.

  Args:
    name: The command's name after `python -m`.
    main: Returns the exit status. Its UserErrors and OSErrors are printed as
      one line; all other exceptions keep their traceback.
    parse: Parses the flags.
    arguments: Whether `main` takes a list of the remaining arguments.
  """

  def interrupt(number, frame):
    raise KeyboardInterrupt

  def read(argv):
    try:
      return parse(argv)
    except SystemExit:  # after --help, with the status of a mistake
      sys.exit(0)

  def start(argv):
    logging.set_verbosity(logging.WARNING)
    if arguments:
      return main(argv[1:])
    if argv[1:]:
      raise UserError(f"unexpected argument {argv[1]!r}: flags start with --")
    return main()

  signal.signal(signal.SIGTERM, interrupt)
  try:
    app.run(start, flags_parser=read)
  except (flags.Error, UserError, OSError) as error:
    print(f"{name}: {error}", file=sys.stderr)
    sys.exit(2)
  except KeyboardInterrupt:
    print(f"{name}: interrupted", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(130)  # jaxlib may still be at work, and would crash at an exit
