"""Runs of training: their settings, and that they can be interrupted."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bundled import (
  checkpoint,
  curve,
  loop,
  losses,
  optimizer,
  pair,
  settings,
  source,
)
from bundled.settings import Schedule, llama_config
from configs import train_bundled
from tests import quick
from tv_jax import models, prompts

ROOT = pathlib.Path(__file__).parents[1]
pytestmark = pytest.mark.long  # few train; test_train_losses has the parts


def tiny(**changes):
  """The settings of the smoke run, smaller still."""
  config = train_bundled.get_config("smoke")
  config.data.tokenizer_conversations = 100
  config.data.source_bytes = 20_000
  config.data.vocab_size = 400
  config.data.length = 128
  for name, value in changes.items():
    config[name] = value
  return config


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """A whole run, undisturbed, and where it is."""
  workdir = tmp_path_factory.mktemp("whole")
  pair.run(settings.from_config(tiny()), workdir)
  return workdir


def weights(workdir, stage):
  with np.load(workdir / stage / "state.npz") as file:
    return {name: file[name] for name in file.files}


def same(one, other, stage):
  one, other = weights(one, stage), weights(other, stage)
  assert one.keys() == other.keys()
  return all(np.array_equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def fifty(whole):
  """A function that trains a tiny target for 50 steps."""
  told = settings.from_config(tiny())
  text = source.read(told.data.source_bytes)
  corpus = pair.make_corpus(told, text, whole / "tokenizer.json")
  config = llama_config(told, told.target)
  schedule = Schedule(
    steps=50,
    again=0,
    rows=2,
    learning_rate=0.01,
    warmup=5,
    decay=20,
    weight_decay=0.1,
  )

  def train(folder):
    from tv_jax.models import families

    return loop.run(
      "target",
      lambda *arguments: losses.text(config, *arguments),
      families.init(jax.random.key(0), config),
      jax.random.key(1),
      corpus,
      schedule,
      folder,
      name="x",
      checkpoint_every=25,
      log_every=10,
    )

  return train


@pytest.mark.long
def test_the_same_seed_gives_the_same_weights(fifty, tmp_path):
  one, other = (jax.tree.leaves(fifty(tmp_path / name)) for name in "ab")
  assert all(map(jnp.array_equal, one, other))
  log = (tmp_path / "a" / "log.jsonl").read_text().splitlines()
  seen = [json.loads(line) for line in log]
  assert [line["step"] for line in seen] == [10, 20, 30, 40, 50]
  assert seen[-1]["loss"] < seen[0]["loss"] - 0.5


def command(workdir, *arguments):
  return [
    sys.executable,
    "-m",
    "bundled",
    f"--workdir={workdir}",
    *arguments,
  ]


def environment():
  return os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}


@pytest.mark.long
def test_a_killed_run_ends_in_the_same_weights(whole, tmp_path):
  """Killed where it hurts: while it trains, after some checkpoint."""
  (config := tmp_path / "config.py").write_text(
    "from tests.test_train import tiny\n\n\ndef get_config():\n"
    "  return tiny(checkpoint_every=4)\n"
  )
  killed = tmp_path / "killed"
  arguments = command(killed, f"--config={config}")
  state = killed / "target" / "state.npz"
  with subprocess.Popen(
    arguments, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL
  ) as process:
    deadline = time.monotonic() + 120
    while not state.exists() and time.monotonic() < deadline:
      time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
  with np.load(state) as file:
    assert int(file["step"]) > 0
  # A write that was cut off, and a log line that was.
  (killed / "target" / "state.partial").write_bytes(b"PK")
  with (killed / "target" / "log.jsonl").open("a") as file:
    file.write('{"step": 1')
  pair.run(settings.from_config(tiny(checkpoint_every=4)), killed)
  for stage in pair.STAGES:
    assert same(killed, whole, stage)
    log = (killed / stage / "log.jsonl").read_text()
    assert log == (whole / stage / "log.jsonl").read_text()


def test_a_finished_run_does_nothing_more(whole):
  before = (whole / "eagle" / "state.npz").stat().st_mtime_ns
  pair.run(settings.from_config(tiny()), whole)
  assert (whole / "eagle" / "state.npz").stat().st_mtime_ns == before


def test_what_is_written_loads(whole):
  bundled = whole / "bundled"
  target = models.load(bundled / "target")
  head = models.load_eagle(bundled / "eagle", target)
  for name in ("draft", "draft_weak"):
    models.check_vocabularies(target.config, models.load(bundled / name).config)
  assert target.config.dtype == "bfloat16"
  assert head.config.num_hidden_layers == 1
  tokenizer = prompts.load_tokenizer(bundled / "draft")
  ids = prompts.encode("chat", tokenizer, ["Hi"])
  assert target.logits([ids]).shape == (1, len(ids), 400)
  for name in ("target", "draft", "draft_weak"):
    assert prompts.end_tokens(bundled / name) == (2,)
  for name in ("minibench.jsonl", "tuning.jsonl"):
    lines = (bundled / name).read_text()
    assert lines == (prompts.BUNDLED / name).read_text()


def test_the_curve_is_drawn_the_same_each_time(whole, tmp_path):
  curve.draw(whole, tmp_path / "curve.svg")
  picture = (whole / "curve.svg").read_bytes()
  assert (tmp_path / "curve.svg").read_bytes() == picture


def test_other_settings_are_refused(whole):
  told = settings.from_config(tiny(seed=1))
  with pytest.raises(ValueError, match=r"state.npz is of a run with other set"):
    pair.run(told, whole)


def test_a_stage_depends_on_what_it_is_made_of_alone():
  corpus = type("Corpus", (), {})()
  corpus.tokenizer = type("Tokenizer", (), {"to_str": lambda self: "x"})()
  corpus.source = np.zeros(1, np.int32)

  def names(config):
    told = settings.from_config(config)
    return [pair._name(told, stage, corpus) for stage in pair.STAGES]

  base, changed = names(tiny()), tiny()
  changed.draft_schedule.steps += 1
  target, draft, weak, eagle = names(changed)
  assert (target, weak, eagle) == (base[0], *base[2:])
  assert draft != base[1]
  # A head is made of a target, and a draft is not.
  (changed := tiny()).target_schedule.steps += 1
  target, draft, weak, eagle = names(changed)
  assert [draft, weak] == base[1:3]
  assert target != base[0]
  assert eagle != base[3]
  changed = tiny(checkpoint_every=3)
  assert names(changed) == base
  changed.data.prompt_weight = 0.5
  assert not set(names(changed)) & set(base)


def test_a_state_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
  path = tmp_path / "state.npz"
  state = {"a": jnp.arange(3), "b": (jnp.ones([2]),)}
  checkpoint.save(path, "x", 4, state)

  def fail(*arguments, **names):
    raise OSError("disk full")

  monkeypatch.setattr(np, "savez", fail)
  with pytest.raises(OSError, match="disk full"):
    checkpoint.save(path, "x", 5, state)
  step, restored = checkpoint.restore(path, "x", state)
  assert step == 4
  assert jax.tree.all(jax.tree.map(jnp.array_equal, state, restored))


def test_the_rate_rises_stays_and_falls():
  once = Schedule(
    steps=100,
    again=0,
    rows=1,
    learning_rate=2.0,
    warmup=10,
    decay=40,
    weight_decay=0,
  )
  rate = optimizer.learning_rate(once)
  values = [float(rate(i)) for i in (0, 5, 10, 60, 80, 100, 105)]
  assert values == pytest.approx([0, 1, 2, 2, 1, 0, 0])
  twice = dataclasses.replace(once, again=50)
  assert twice.total == 150
  rate = optimizer.learning_rate(twice)
  values = [float(rate(i)) for i in (0, 60, 80, 100, 105, 110, 130, 150)]
  assert values == pytest.approx([0, 2, 1, 0, 1, 2, 1, 0])


def test_all_that_is_wrong_is_said_in_one_line():
  config = tiny(seed=-1)
  config.data.vocab_size = 200
  config.data.length = 4096
  config.target.hidden_size = 33
  config.draft_schedule.decay = 100
  config.target_schedule.again = 5
  config.draft_weak.num_attention_heads = 3
  config.data.source_rows = 1.5
  with pytest.raises(ValueError, match=r"seed=-1 must be 0 or more") as caught:
    settings.from_config(config)
  assert "\n" not in str(caught.value)
  config.seed = 0
  with pytest.raises(ValueError) as caught:  # noqa: PT011  (many matches below)
    settings.from_config(config)
  for part in (
    "data.vocab_size=200 must be 300 or more",
    "data.length=4096 must not be more than max_position_embeddings=1024",
    "target.num_attention_heads=2 must divide half of target.hidden_size=33",
    "draft_weak.num_attention_heads=3 must divide half of draft_weak.hidden",
    "data.source_rows=1.5 must be 1 or less",
    "draft_schedule: warmup=5 and decay=100 must fit into steps=20",
    "target_schedule: warmup=5 must be less than again=5",
  ):
    assert part in str(caught.value)


def test_fields_that_are_unknown_missing_or_of_another_type():
  config = tiny(spede=1)
  del config.data.length
  config.target_schedule.unlock()
  config = config.to_dict()
  config["draft"]["hidden_size"] = "wide"
  config["regression"] = 3
  fake = type("Config", (), {"to_dict": lambda self: config})()
  with pytest.raises(ValueError, match="unknown field spede") as caught:
    settings.from_config(fake)
  for part in (
    "data.length is missing",
    "draft.hidden_size='wide' must be of type int",
    "regression=3 must be a group of fields",
  ):
    assert part in str(caught.value)


@pytest.mark.parametrize(
  ("arguments", "message"),
  quick.shorter(
    [
      ([], "--config=configs/train_bundled.py is missing"),
      (["--config=nowhere.py"], "nowhere.py"),
      (["--config=configs/train_bundled.py:big"], "'big' is not smoke"),
      (["--config=configs/train_bundled.py", "--config.spede=1"], "spede"),
      (["--config=configs/train_bundled.py", "--config.seed=x"], "seed"),
      (["--config=configs/train_bundled.py", "--config.seed=-1"], "seed=-1"),
      (["--config=configs/train_bundled.py", "more"], "argument 'more'"),
    ]
  ),
)
def test_a_bad_command_is_one_line(arguments, message, tmp_path):
  done = subprocess.run(
    command(tmp_path / "run", *arguments),
    cwd=ROOT,
    env=environment(),
    capture_output=True,
    text=True,
  )
  assert done.returncode == 2
  assert done.stdout == ""
  assert done.stderr.count("\n") == 1
  assert message in done.stderr
  assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["tv_jax.train", "tv_jax.train.measure"])
def test_older_names_say_what_they_are_called_now(name):
  done = subprocess.run(
    [sys.executable, "-m", name],
    cwd=ROOT,
    env=environment(),
    capture_output=True,
    text=True,
  )
  assert done.returncode
  assert done.stdout == ""
  assert done.stderr.count("\n") == 1
  assert "`python -m bundled" in done.stderr
