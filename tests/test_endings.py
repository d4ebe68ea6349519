"""How commands end when they are told to; each in a process of its own."""

import os
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


def test_a_command_ends_by_itself_too():
  assert outcome("return None") == (0, "", "")
  assert outcome("return 2") == (2, "", "")
  assert outcome("sys.exit(1)") == (1, "", "")
  status, _, told = outcome("raise RuntimeError('a bug')")
  assert status == 1
  assert "Traceback" in told


def test_a_second_signal_is_the_end_wherever_it_comes():
  body = """
  heard.leave = lambda: print("left", flush=True)
  try:
    send(signal.SIGTERM)
  except KeyboardInterrupt:
    # As what imports parts of it, and wonders.
    try:
      send()
    except BaseException as error:
      raise ImportError("matplotlib is broken") from error
  """
  end = 128 + signal.SIGTERM, "left\n", "interrupted by SIGTERM\n"
  assert outcome(body) == end


def test_the_first_one_is_the_end_where_it_is_said_to_be():
  body = """
  heard.at_once = True
  with contextlib.suppress(BaseException):
    send()
  print("never")
  """
  assert outcome(body) == (130, "", "interrupted\n")


def test_what_else_is_raised_on_the_way_changes_nothing():
  body = """
  try:
    send()
  except BaseException:
    raise ImportError("numpy is broken") from None
  """
  assert outcome(body) == (130, "", "interrupted\n")


def test_a_signal_waits_where_nothing_may_be_raised():
  body = """
  with heard.deaf():
    send()
    print("on")
  print("never")
  """
  assert outcome(body) == (130, "on\n", "interrupted\n")


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


def test_a_reader_that_is_gone_changes_no_status():
  body = """
  os.close(1)
  sys.stdout.write("nobody reads this")
  return 4
  """
  assert outcome(body) == (4, "", "")


# As `head` leaves a pipe; only a long text is written before the end.
GONE = "ears, mouth = os.pipe(); os.close(ears); os.dup2(mouth, {})"


@pytest.mark.parametrize("number", [1, 2])
def test_a_reader_that_is_gone_ends_a_command_quietly(number):
  body = f"""
  {GONE.format(number)}
  print("x" * 10**6, file=(sys.stdout, sys.stderr)[{number - 1}])
  return 4
  """
  assert outcome(body) == (128 + signal.SIGPIPE, "", "")


def test_another_pipe_that_breaks_is_no_reader_that_is_gone():
  body = f"""
  {GONE.format(9)}
  os.write(9, b"nobody reads this")
  """
  status, _, told = outcome(body)
  assert status == 1
  assert "BrokenPipeError" in told


@pytest.mark.parametrize(
  "program", ["tv_jax.audit", "experiments", "launch", "benchmarks.verify"]
)
def test_help_that_nobody_reads_to_its_end(program):
  body = f"{GONE.format(1)}; import runpy, sys; sys.argv = ['x', '--help']; "
  body += f"runpy.run_module({program!r}, run_name='__main__', alter_sys=True)"
  done = subprocess.run(
    [sys.executable, "-c", f"import os; {body}"],
    cwd=ROOT,
    stderr=subprocess.PIPE,
    text=True,
  )
  assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


COMMANDS = [
  *(ROOT / "tv_jax").rglob("__main__.py"),
  ROOT / "bundled" / "__main__.py",
  ROOT / "tv_jax" / "main.py",
]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.parent.stem)
def test_every_command_ends_so(path):
  last = path.read_text().partition('if __name__ == "__main__":\n')[2]
  assert last.lstrip().startswith(("cli.run(", "cli.until_told("))


TRAINING = """
import os, runpy, signal, sys
from bundled import training
training.train = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
sys.argv = ["bundled", "--smoke", "--workdir=" + sys.argv[1]]
runpy.run_module("bundled", run_name="__main__")
"""


def test_a_command_that_pre_emption_ends(tmp_path):
  done = subprocess.run(
    [sys.executable, "-c", TRAINING, tmp_path],
    cwd=ROOT,
    capture_output=True,
    text=True,
    env=os.environ | {"JAX_PLATFORMS": "cpu"},
  )
  told = done.returncode, done.stdout, done.stderr
  assert told == (143, "", "interrupted by SIGTERM\n")


def test_deaf_within_deaf_is_deaf_to_the_end():
  body = """
  with heard.deaf():
    with heard.deaf():
      pass
    send(signal.SIGTERM)
    print("waited")
  """
  wanted = 143, "waited\n", "interrupted by SIGTERM\n"
  assert outcome(body) == wanted


def test_an_abrupt_end_waits_for_nobody():
  body = """
  import atexit
  atexit.register(lambda: print("waited"))
  heard.abrupt = True
  """
  assert outcome(body + "print('told')\n  return 2") == (2, "told\n", "")
  assert outcome(body + "sys.exit(3)") == (3, "", "")
  assert outcome(body + "send(signal.SIGTERM)")[:2] == (143, "")
  status, out, told = outcome(body + "raise RuntimeError('a bug')")
  assert (status, out) == (1, "")
  assert "RuntimeError: a bug" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_does_not_wait_for_a_thread(number):
  """Of a pool, for which the interpreter waits on its own way out."""
  body = f"""
  import concurrent.futures
  pool = concurrent.futures.ThreadPoolExecutor(1)
  pool.submit(time.sleep, 300)
  try:
    send({int(number)})
  except KeyboardInterrupt:
    print("report")  # and is seen
  return None
  """
  status, out, _ = outcome(body)
  assert (status, out) == (128 + number, "report\n")


def test_nor_does_what_the_user_can_mend():
  body = """
  import concurrent.futures
  concurrent.futures.ThreadPoolExecutor(1).submit(time.sleep, 300)
  return 2
  """
  assert outcome(body)[0] == 2
