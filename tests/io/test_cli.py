"""How all commands start and end, and how they check values."""

import logging
import math
import subprocess

import numpy as np
import pytest
from absl import flags

from configs import smoke
from tests.lib import commands, stores
from tv_jax.io import checks, config_flag, progress

# Without jax, so that the process starts at once.
COMMAND = """
import signal
from absl import flags
from tv_jax.io import cli, errors
flags.DEFINE_integer("count", 1, "Of things.", 1)
signal.signal(signal.SIGINT, signal.default_int_handler)
def main(arguments):
  if arguments == ["ours"]:
    raise errors.UserError("count=7: give 1")
  if arguments == ["theirs"]:
    raise ValueError("shapes (3,) and (4,)")
  if arguments:
    open(arguments[0])
  try:
    signal.raise_signal(signal.SIGTERM if len(sys.argv) > 1 else signal.SIGINT)
  finally:
    print("closed")
sys.argv[0] = "mine"
cli.run("mine", main, arguments=True)
"""


def command(*arguments):
  line = stores.program(COMMAND, *arguments)
  return subprocess.run(line, capture_output=True, text=True)


@pytest.mark.parametrize(
  ("argument", "line"),
  [
    ("--speed=3", "mine: Unknown command line flag 'speed'"),
    ("--count=0", "mine: flag --count=0: "),
    ("ours", "mine: count=7: give 1\n"),
    ("nowhere", "mine: [Errno 2] No such file or directory: 'nowhere'"),
  ],
)
def test_a_mistake_is_one_line(argument, line):
  done = command(argument)
  assert (done.returncode, done.stdout) == (2, "")
  assert done.stderr.startswith(line), done.stderr
  assert done.stderr.count("\n") == 1


def test_another_error_keeps_its_traceback():
  """Such as one of jax about shapes, which is a fault of ours."""
  done = command("theirs")
  assert (done.returncode, done.stdout) == (1, "")
  assert done.stderr.startswith("Traceback (most recent call last):\n")
  assert done.stderr.endswith("ValueError: shapes (3,) and (4,)\n")


@pytest.mark.parametrize("arguments", [(), ("--count=2",)])
def test_a_signal_ends_a_command(arguments):
  """SIGINT, and SIGTERM as well."""
  done = command(*arguments)
  assert done.returncode == 130
  assert (done.stdout, done.stderr) == ("closed\n", "mine: interrupted\n")


def test_progress_is_a_line_a_minute_where_no_terminal_is(monkeypatch, capsys):
  now = [0.0]
  monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
  with progress.bar() as bar:
    bar("a rule", 1, 4)
    now[0] = 61
    bar("a rule", 2, 4)
    bar("a rule", 3, 4)
  assert capsys.readouterr().err == "a rule, 2 of 4\n"


def test_progress_shows_what_is_compiled_until_the_next_step(capsys):
  logger = logging.getLogger("tv_jax.engine.programs")
  with progress.bar() as bar:
    task = bar._shown.tasks[0]
    logger.info("compiling %s", "advance")
    assert task.description == "compiling advance"
    bar("rules", 1, 4)
    assert (task.description, task.completed) == ("rules", 1)
    logger.warning("a large tree")
  assert capsys.readouterr().err == "a large tree\n"
  assert not logger.handlers


@pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
def test_a_config_is_found_by_its_name_and_a_users_own_comes_first(
  tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)

  def read(*arguments):
    configs = config_flag.several(["x", *arguments], ["smoke"])
    return {name: config for name, (config, _) in configs.items()}

  for arguments in ((), ("--config=smoke",), ("--config=configs/smoke.py",)):
    (config,) = read(*arguments).values()
    assert config.to_dict() == smoke.get_config().to_dict()
    assert config.is_locked
  two = read(
    "--config=smoke", "--config.per_task=3", "--config=quickstart:weak"
  )
  assert [config.per_task for config in two.values()] == [3, 3]
  assert two["quickstart:weak"].experiment == "quickstart_weak"
  (tmp_path / "smoke.py").write_text(
    "from configs import quickstart\n\n"
    "def get_config():\n  return quickstart.get_config('weak')\n"
  )
  ours = read("--config=smoke.py")["smoke.py"]
  assert ours.experiment == "quickstart_weak"
  for absent in ("other/smoke.py", "nowhere"):
    with pytest.raises(flags.Error, match="no such file; bundled are llama2_"):
      read(f"--config={absent}")
  for field, reason in (
    ("models.taget", '\'taget\' Did you mean "target" instead of "taget"[?]$'),
    ("per_task.x", "Attempting to lookup: per_task.x$"),
  ):
    with pytest.raises(flags.Error, match=f"no field .*{reason}"):
      read(f"--config.{field}=1")


@pytest.mark.parametrize(
  ("arguments", "line"),
  [
    ((), "give --config: a file, or one of llama2_"),
    (("--config.per_task=2",), "give --config: a file, or one of llama2_"),
    (("--config=smoke", "--config.tempratures=1"), "a config has no field 'te"),
    (("--config=smoke", "--config.temperatures=(1"), "config: could not conv"),
    (("--config=quickstart:foo",), "config argument 'foo': quickstart takes"),
  ],
)
def test_a_run_without_a_config_or_with_a_wrong_field_is_refused(
  arguments, line
):
  assert commands.refused(commands.run(*arguments)).startswith(
    f"tv_jax.main: {line}"
  )


def test_help_is_no_mistake():
  done = command("--help")
  assert (done.returncode, done.stderr) == (0, "")
  assert "USAGE: mine [flags]" in done.stdout


COMMANDS = (
  *("main", "chat", "report", "score", "audit", "certify", "replay", "tune"),
  "distill",
)
OTHERS = (
  *("launch", "experiments", "experiments.results", "experiments.judge"),
  *("training", "examples.faults", "examples.published"),
  *("benchmarks.verify", "benchmarks.gpu", "benchmarks.loading"),
  *("benchmarks.passes", "benchmarks.peers", "benchmarks.stages"),
)


@pytest.mark.long
@pytest.mark.parametrize(
  "program", [*(f"tv_jax.{name}" for name in COMMANDS), *OTHERS]
)
def test_every_command_has_help(program):
  done = commands.run("--help", program=program)
  assert done.returncode == 0, done.stderr
  assert done.stderr == ""
  assert "--" in done.stdout


NAMES = checks.list_of(checks.text)


@pytest.mark.parametrize(
  ("check", "right", "wrong"),
  [
    (checks.integer(1, 3), [1, 3, np.int32(2)], [0, 4, 1.0, True, "1", None]),
    (
      checks.number(0, 1, excluded=0),
      [1, 0.5, np.float32(0.5), np.float16(1)],
      [0, 2, math.nan, True, "1", np.float16(math.inf)],
    ),
    (
      checks.fields({"row": checks.fields({"names": NAMES})}),
      [{"row": {"names": ("a",)}}],
      [{"row": {"names": "ab"}}, {"row": {}}, {"row": {"names": [1]}}, {}, 3],
    ),
  ],
)
def test_limits_are_kept(check, right, wrong):
  for value in right:
    assert check(value) == value
  for value in wrong:
    with pytest.raises(ValueError, match=r"^x.*(: give|is missing)"):
      check(value, "x")
