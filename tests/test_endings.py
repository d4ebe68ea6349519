"""How commands end when they are told to; each in a process of its own."""

import signal
import subprocess
import sys
import textwrap

import pytest

from tests.stores import ROOT

# As in tests/stores.py: without jax a process starts in no time.
PREAMBLE = f"""
import contextlib, os, signal, sys, time, types
package = types.ModuleType("tv_jax")
package.__path__ = [{str(ROOT / "tv_jax")!r}]
sys.modules["tv_jax"] = package
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):  # the tests' own may be ignored
  signal.signal(number, signal.SIG_DFL)
from tv_jax.edge import endings

def send(number=signal.SIGINT):
  os.kill(os.getpid(), number)
"""
# As `head` leaves a pipe; only a long text is written before the end.
GONE = "ears, mouth = os.pipe(); os.close(ears); os.dup2(mouth, {})"


def outcome(body, before=""):
  """Exit status, output and errors of a command with this body."""
  parts = [
    PREAMBLE,
    before,
    "def command(heard):",
    textwrap.indent(textwrap.dedent(body), "  "),
    "endings.run(command)",
  ]
  done = subprocess.run(
    [sys.executable, "-I", "-c", "\n".join(parts)],
    capture_output=True,
    text=True,
    timeout=60,
  )
  return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
  ("number", "word"),
  [
    (signal.SIGINT, "interrupted"),
    (signal.SIGTERM, "interrupted by SIGTERM"),
    (signal.SIGHUP, "interrupted by SIGHUP"),
  ],
)
def test_a_signal_is_one_line_and_its_status(number, word):
  body = f"""
  try:
    send({int(number)})
  finally:
    print("closed")
  """
  assert outcome(body) == (128 + number, "closed\n", word + "\n")


ENDS = {
  "by itself": ("return None", (0, "", "")),
  "with a status": ("return 2", (2, "", "")),
  # As what imports parts of it, and wonders.
  "a second signal": (
    """
    heard.leave = lambda: print("left", flush=True)
    try:
      send(signal.SIGTERM)
    except KeyboardInterrupt:
      try:
        send()
      except BaseException as error:
        raise ImportError("matplotlib is broken") from error
    """,
    (143, "left\n", "interrupted by SIGTERM\n"),
  ),
  "the first, where it is said to be the end": (
    """
    heard.at_once = True
    with contextlib.suppress(BaseException):
      send()
    print("never")
    """,
    (130, "", "interrupted\n"),
  ),
  "a signal that waits": (
    """
    with heard.deaf():
      with heard.deaf():
        pass
      send(signal.SIGTERM)
      print("on")
    print("never")
    """,
    (143, "on\n", "interrupted by SIGTERM\n"),
  ),
  "a Ctrl-C that only stops what is done": (
    """
    for _ in range(2):
      with heard.stopping() as stopped:
        assert not stopped
        send()
        print(bool(stopped), heard.status)
    send()
    """,
    (130, "True 0\nTrue 0\n", "interrupted\n"),
  ),
  "another signal meanwhile": (
    """
    with heard.stopping():
      send(signal.SIGTERM)
    """,
    (143, "", "interrupted by SIGTERM\n"),
  ),
  # Of a pool, for which the interpreter waits on its own way out.
  "a thread is not waited for": (
    """
    import concurrent.futures
    concurrent.futures.ThreadPoolExecutor(1).submit(time.sleep, 300)
    try:
      send(signal.SIGTERM)
    except KeyboardInterrupt:
      print("report")  # and is seen
    """,
    (143, "report\n", ""),
  ),
  "an output that nobody reads": (
    f"{GONE.format(1)}; print('x' * 10**6); return 4",
    (128 + signal.SIGPIPE, "", ""),
  ),
  "errors that nobody reads": (
    f"{GONE.format(2)}; print('x' * 10**6, file=sys.stderr); return 4",
    (128 + signal.SIGPIPE, "", ""),
  ),
}


@pytest.mark.parametrize(("body", "wanted"), ENDS.values(), ids=ENDS)
def test_how_a_command_ends(body, wanted):
  assert outcome(body) == wanted


@pytest.mark.parametrize(
  ("body", "told"),
  [
    ("raise RuntimeError('a bug')", "RuntimeError: a bug"),
    # Another pipe that breaks is no reader that is gone.
    (f"{GONE.format(9)}; os.write(9, b'nobody reads this')", "BrokenPipeErr"),
  ],
)
def test_a_bug_has_a_traceback(body, told):
  status, _, error = outcome(body)
  assert status == 1
  assert "Traceback" in error
  assert told in error


def test_what_nohup_ignores_stays_ignored():
  before = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
  assert outcome("send(signal.SIGHUP); print('on')", before) == (0, "on\n", "")


def test_a_signal_after_the_end_changes_nothing():
  before = "import atexit; atexit.register(send)"
  assert outcome("return 3", before) == (3, "", "")


@pytest.mark.parametrize(
  ("error", "end"),
  [
    ("KeyboardInterrupt", (130, "", "interrupted\n")),
    ("OSError('no')", (0, "unheard\n", "OSError: no\n")),
  ],
)
def test_a_signal_is_heard_even_where_nothing_can_be_raised(error, end):
  body = f"""
  class Deaf:
    def __del__(self):
      {"send()" if error == "KeyboardInterrupt" else f"raise {error}"}
  Deaf()
  time.sleep(10 if {error == "KeyboardInterrupt"} else 0)
  print("unheard")
  """
  status, out, told = outcome(body)
  assert (status, out) == end[:2]
  assert told.endswith(end[2])
  assert ("Traceback" in told) == (status == 0)


def test_an_abrupt_end_waits_for_nobody():
  body = """
  import atexit
  atexit.register(lambda: print("waited"))
  heard.abrupt = True
  """
  assert outcome(body + "print('told')\n  return 2") == (2, "told\n", "")
  assert outcome(body + "send(signal.SIGTERM)")[:2] == (143, "")
  status, out, told = outcome(body + "raise RuntimeError('a bug')")
  assert (status, out) == (1, "")
  assert "RuntimeError: a bug" in told


COMMANDS = [
  *(ROOT / "tv_jax").rglob("__main__.py"),
  ROOT / "bundled" / "__main__.py",
  ROOT / "tv_jax" / "chat.py",
  ROOT / "tv_jax" / "main.py",
]


def test_every_command_ends_so():
  for path in COMMANDS:
    last = path.read_text().partition('if __name__ == "__main__":\n')[2]
    assert last.lstrip().startswith(("cli.run(", "cli.until_told(")), path
