"""Sweeps: what is run, and that it is what the experiment itself would run."""

import ast
import contextlib
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest

from configs import eagle_bundled, quickstart
from experiments import experiment, names
from launch import attempt, here, left, on_ray, on_slurm, tries, units
from launch.sweep import Sweep
from launch.units import Pair, Unit
from tests.commands import run
from tests.stores import ROOT
from tv_jax import runs
from tv_jax.edge import reading
from tv_jax.runs import sources, store

CONFIGS = {
  "quickstart": quickstart.get_config(),
  "quickstart:weak": quickstart.get_config("weak"),
  "eagle_bundled": eagle_bundled.get_config(),
}


def overridden(config, command):
  """What a command line sets, read as ml_collections reads it."""
  for argument in command:
    if argument.startswith("--config."):
      field, _, text = argument.removeprefix("--config.").partition("=")
      value = text
      if type(old := _field(config, field)) is not str:
        value = type(old)(ast.literal_eval(text))
      config.update_from_flattened_dict({field: value})
  return config


def _field(config, field):
  for part in field.split("."):
    config = config[part]
  return config


@pytest.mark.parametrize("name", names.NAMES)
@pytest.mark.parametrize("smoke", [False, True])
def test_units_are_what_the_experiment_runs(name, smoke):
  one = names.find(name)
  asked = experiment.asked_of(one, smoke)
  pairs = [Pair(key, CONFIGS[key], ()) for key in asked]
  found = units.expand(one, pairs, pathlib.Path("runs"), smoke)
  wanted = [
    (pair, shard)
    for pair in pairs
    for shard in experiment.shards(one, pair.config, smoke)
  ]
  assert len(found) == len(wanted)
  for unit, (pair, shard) in zip(found, wanted, strict=True):
    theirs = runs.from_config(shard.of(pair.config))
    config = pair.config.copy_and_resolve_references()
    ours = runs.from_config(overridden(config.unlock(), unit.command))
    assert ours == theirs
    assert unit.folder == pathlib.Path("runs", unit.name)
    assert shlex.split(unit.line)[1:] == unit.command[1:]


def test_a_field_that_is_swept_is_given_once():
  """ml_collections adds a tuple to the same flag's before it."""
  told = ("--config.seeds=0,1", "--config.per_task=2")
  pair = Pair("quickstart", CONFIGS["quickstart"], told)
  found = units.expand(names.find("main_table"), [pair], pathlib.Path("runs"))
  for unit in found:
    assert sum(flag.startswith("--config.seeds=") for flag in unit.flags) == 1
    assert "--config.per_task=2" in unit.flags


def test_gpus_of_a_unit_are_what_its_target_is_split_over():
  one = names.find("depth")
  pair = Pair("quickstart", CONFIGS["quickstart"], ())
  found = units.expand(one, [pair], pathlib.Path("runs"), gpus=2)
  usual = units.expand(one, [pair], pathlib.Path("runs"))
  for two, own in zip(found, usual, strict=True):
    assert two.gpus == 2
    assert two.flags == (*own.flags, "--config.models.devices=2")
    assert two.id != own.id


def test_two_units_in_one_folder_are_refused():
  one = names.find("depth")
  pair = Pair("quickstart", CONFIGS["quickstart"], ())
  with pytest.raises(ValueError, match="depth/quickstart/chain-2 is 2 units"):
    units.expand(one, [pair, pair], pathlib.Path("runs"))


def test_a_thousand_units_expand_at_once():
  one = names.find("depth")
  config = CONFIGS["quickstart"]
  pairs = []
  for i in range(125):
    own = config.copy_and_resolve_references().unlock()
    own.experiment = f"pair-{i}"
    pairs.append(Pair("quickstart", own, ()))
  begin = time.process_time()
  found = units.expand(one, pairs, pathlib.Path("runs"))
  assert [unit.line for unit in found]
  assert len(found) == 1000
  assert time.process_time() - begin < 2


def unit(folder, body):
  """A unit that does something else."""

  class Other(Unit):
    @property
    def command(self):
      return [sys.executable, "-c", body]

  return Other(folder.name, "", (), folder, "0")


DO = "import os, pathlib, sys; folder = pathlib.Path({folder!r}); "


def lines_of(tmp_path, body, retries=2):
  """What is said of a unit that does this, and whether it failed."""
  one = unit(tmp_path / "one", DO.format(folder=str(tmp_path / "one")) + body)
  said = []
  failed = here.run([one], retries=retries, say=said.append)
  return said, bool(failed)


def test_a_unit_that_cannot_work_is_tried_once(tmp_path):
  said, failed = lines_of(tmp_path, "print('a reason'); sys.exit(2)")
  assert failed
  assert len(said) == 2
  assert "FAILED (status 2" in said[1]
  assert said[1].endswith("a reason")


def test_a_unit_that_was_killed_is_tried_again(tmp_path):
  body = "os.kill(os.getpid(), 9) if not os.path.exists(folder / 'x') and "
  body += "(folder / 'x').touch() is None else (folder / 'DONE').touch()"
  said, failed = lines_of(tmp_path, body)
  assert not failed
  assert "FAILED (SIGKILL" in said[1]
  assert said[2] == "one: again, 2 tries are left"
  assert ": done, 0 answers" in said[3]


def test_no_unit_is_tried_for_ever(tmp_path):
  said, failed = lines_of(tmp_path, "os.kill(os.getpid(), 9)", retries=3)
  assert failed
  assert sum("FAILED (SIGKILL" in line for line in said) == 4
  assert tries.last(tmp_path / "one").given_up


def test_what_is_done_is_left_out_if_it_is_the_same(tmp_path):
  one = unit(tmp_path / "one", "")
  assert not one.done
  one.folder.mkdir()
  (one.folder / "DONE").touch()
  assert not one.done  # nobody knows with which config
  tries.begin(one.folder, "0", 0, None)
  assert not one.done  # its report may be missing
  tries.end(one.folder, 0)
  assert one.done
  assert not one._replace(id="1").done
  (one.folder / "COUNT").write_text("1\n")
  assert not one.done  # an answer was taken out, to be made again
  (one.folder / "items.jsonl").write_text("{}\n")
  assert one.done


MADE_OF = {
  "tree.json": ("trees", "tree.json", "[-1, 0]"),
  "policy.json": ("trees", "adaptive:2,2@policy.json", ""),
  "own_tree.py": (
    "trees",
    "own_tree:TREE",
    "from tv_jax import tree\nprint('noise')\nTREE = tree.chain(1)\n",
  ),
  "own_rule.py": (
    "verifiers",
    "own_rule:decide",
    "from tv_jax.verifiers import VERIFIERS\n"
    "decide = VERIFIERS['token_level'].decide\n"
    "def mine(*arguments):\n  return decide(*arguments)\n"
    "decide_of_mine, decide = decide, mine\n",
  ),
  "asked.jsonl": ("questions", "asked.jsonl", ""),
}
EDITS = {
  "tree.json": ("[-1, 0]", "[-1, 0, 0]"),
  "policy.json": ('"steps": ', '"steps": 1'),
  "own_tree.py": ("chain(1)", "chain(2)"),
  "own_rule.py": ("return", "\n  return"),
  "asked.jsonl": ("?", "??"),
}


def finished(folder, field, value):
  """A unit that a launcher has finished, as far as can be seen."""
  own = CONFIGS["quickstart"].copy_and_resolve_references().unlock()
  own.update_from_flattened_dict({"trees": "chain:2", field: value})
  settings = runs.from_config(own)
  one = unit(folder, "")
  with store.Store(folder, runs.to_dict(settings), {}) as results:
    asked = runs.read_questions(settings)
    results.keep_sources(sources.hashes(settings, asked))
    results.finish()
  tries.begin(folder, one.id, 0, None)
  tries.end(folder, 0)
  return one


def test_what_is_made_of_something_else_by_now_is_left(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("PYTHONPATH", str(ROOT))
  for name, source in (
    ("policy.json", "calibrations/draft.json"),
    ("asked.jsonl", "minibench.jsonl"),
  ):
    (tmp_path / name).write_bytes((reading.BUNDLED / source).read_bytes())
  made = [finished(tmp_path / "same", "seeds", (0,))]
  for name, (field, value, text) in MADE_OF.items():
    if text:
      (tmp_path / name).write_text(text)
    made.append(finished(tmp_path / f"of-{name}", field, value))
  assert left.of(made) == []
  gone = made[-1].folder / "config.json"
  for name, (old, new) in EDITS.items():
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1))
  assert left.of(made) == made[1:]
  gone.unlink()  # nobody knows: it is started
  assert left.of([made[-1]]) == [made[-1]]


def test_tries_are_read_as_they_are_written(tmp_path):
  tries.begin(tmp_path, "a", 3, "0,1")
  assert tries.last(tmp_path).alive
  tries.end(tmp_path, -9)
  with (tmp_path / tries.FILE).open("a") as file:
    file.write('{"id": "a", "be')  # torn
  tries.begin(tmp_path, "a", 5, None)
  first, second = tries.read(tmp_path)
  assert (first.id, first.answers, first.devices) == ("a", 3, "0,1")
  assert (first.status, first.alive) == (-9, False)
  assert (second.answers, second.devices, second.status) == (5, None, None)
  assert second.end is None


def test_a_try_whose_process_is_gone_is_not_alive(tmp_path):
  tries.begin(tmp_path, "a", 0, None)
  one = tries.last(tmp_path)
  child = subprocess.Popen([sys.executable, "-c", ""])
  child.wait()
  assert not one._replace(pid=child.pid).alive
  assert one._replace(pid=child.pid, host="elsewhere").alive


def test_a_folder_is_waited_for(tmp_path, monkeypatch):
  """The child of a launcher that was killed may still close its store."""
  one = unit(tmp_path / "one", DO.format(folder=str(tmp_path / "one")))
  one.folder.mkdir()
  body = (
    "import fcntl, sys, time; lock = open(sys.argv[1], 'ab'); "
    "fcntl.flock(lock, fcntl.LOCK_EX); print(flush=True); time.sleep(1.5)"
  )
  command = [sys.executable, "-c", body, one.folder / "lock"]
  holder = subprocess.Popen(command, stdout=subprocess.PIPE)
  holder.stdout.readline()
  assert attempt.once(one) == 0
  assert holder.poll() == 0
  holder.communicate()


def test_the_launcher_imports_no_jax():
  """With the sweeps of all experiments, and every backend."""
  body = """
import sys
from experiments import names
from launch import estimates, here, on_ray, on_slurm, states, task, verbs
import launch.__main__
for name in names.NAMES:
  names.find(name)
sys.exit(bool({"jax", "flax", "ray", "matplotlib"} & {*sys.modules}))
"""
  done = subprocess.run([sys.executable, "-c", body], check=False, cwd=ROOT)
  assert done.returncode == 0


def test_an_engine_that_is_not_here_is_a_line(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "ray", None)
  with pytest.raises(
    ValueError, match=r"needs Ray: pip install 'tv-jax\[ray\]"
  ):
    on_ray.run([], workdir=tmp_path, retries=0, say=print)
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(ValueError, match="there is no squeue here"):
    on_slurm.queue(Sweep(tmp_path, {}, ()))


def test_nobody_at_an_address_is_a_line():
  """Ray would try for minutes, and say so in its own words."""
  with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
  with pytest.raises(
    ValueError, match=rf"--address=127.0.0.1:{port}: .*refused"
  ):
    on_ray._check_address(f"127.0.0.1:{port}")
  for there in ("auto", "local"):
    on_ray._check_address(there)


def test_a_sweep_of_which_nothing_works_says_why(tmp_path):
  wrong = ("--config=smoke", "--config.models.target=/no/where", "--smoke")
  told = ("--experiment=temperature", *wrong, f"--workdir={tmp_path}")
  done = run(*told, program="launch")
  assert done.returncode == 1
  assert done.stdout.count("FAILED (status 2") == 2
  assert done.stdout.count("/no/where is neither a directory") == 2
  assert "2 of 2 units FAILED" in done.stderr
  assert "Tok.V" not in done.stdout


@pytest.mark.parametrize(
  ("arguments", "says"),
  [
    ([], "give --experiment"),
    (["--experiment=nothing"], "'nothing' is not one of"),
    (
      ["--experiment=depth", "--config.trees=eagle"],
      "config.trees is set by the experiment itself",
    ),
    (["--experiment=depth", "more"], "unexpected argument 'more'"),
    (["--experiment=depth", "--workdir="], "--workdir=: give a folder"),
    (["status", ""], "give a folder: python -m launch status WORKDIR"),
    (["--experiment=depth", "--cpus-per-unit=nan"], "=nan: give a number"),
    (["--experiment=depth", "--cpus-per-unit=inf"], "=inf: give a number"),
  ],
)
def test_what_is_wrong_is_a_line(arguments, says):
  done = run(*arguments, program="launch")
  assert done.returncode == 2
  assert done.stderr.count("\n") == 1
  assert says in done.stderr


@pytest.mark.parametrize("program", ["tv_jax.main", "experiments.depth"])
def test_no_folder_is_not_the_current_one(program):
  done = run("--workdir=", program=program)
  told = f"{program}: flag --workdir=: give a folder\n"
  assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.parametrize(
  ("more", "says"),
  [
    (["--experiment=depth"], "16 units, hours of 16 unknown, GPUs: 1 at least"),
    (
      [
        "--experiment=temperature depth",
        "--config=configs/llama3_1b_8b.py",
        "--gpus-per-unit=2",
      ],
      "",
    ),
    (["--experiment=worked_example"], "0 units"),
    (["--experiment=depth", "--gpus-per-unit=0"], "unknown, no GPUs"),
  ],
)
def test_what_is_printed_ends_with_totals(more, says, tmp_path):
  told = ("--backend=print", f"--workdir={tmp_path}")
  done = run(*more, *told, program="launch")
  *units_, last = done.stdout.splitlines()
  hours = [
    float(line.partition(" h of decoding")[0].rpartition(" ")[2])
    for line in units_
    if " h of decoding" in line
  ]
  count = sum(line.startswith("# ") for line in units_)
  assert last.startswith(f"# in all: {count} units")
  assert says in last
  if hours:
    said = float(last.partition(" h of decoding")[0].rpartition(" ")[2])
    assert said == pytest.approx(sum(hours), abs=0.05 * len(hours) + 0.5)
    assert f"GPUs: 2 at least, {2 * count} for all at once" in last


def until(look, seconds=120):
  """What is seen, once it is there."""
  limit = time.monotonic() + seconds
  while time.monotonic() < limit:
    with contextlib.suppress(OSError, ValueError):  # half written
      if seen := look():
        return seen
    time.sleep(0.01)
  raise AssertionError("it was waited for in vain")


def gone(pid):
  """Whether there is no such process, or nothing of it but its number."""
  try:
    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
  except OSError:
    return True
  return state.split()[0] == "Z"


def test_a_unit_is_told_of_a_signal_and_waited_for():
  body = "import signal, sys, time; signal.signal(15, lambda *_: (print('well'"
  body += (
    ", flush=True), sys.exit(0))); print('up', flush=True); time.sleep(99)"
  )
  program = f"""
import sys
from tv_jax.edge import cli
cli.until_told(lambda heard: cli.run_child([sys.executable, "-c", {body!r}]))
"""
  process = subprocess.Popen(
    [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
  )
  assert process.stdout.readline() == "up\n"
  process.send_signal(signal.SIGTERM)  # of the background SIGINT is ignored
  out, _ = process.communicate(timeout=60)
  assert out == "well\n"
  assert process.returncode == 143
