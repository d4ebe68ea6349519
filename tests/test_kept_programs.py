"""What the compiler is told, and that its programs outlive a process."""

import json
import os
import pathlib
import subprocess
import sys
import time
import types

import jax
import pytest

from tests.stores import ROOT
from tv_jax.engine import programs

ASK = """
import json, sys, jax, tv_jax
pair = tv_jax.load("bundled/draft", "bundled/target")
options = {"tree": "chain:2", "max_new_tokens": 4, "progress": False}
for _ in range(2):
  result = tv_jax.generate(pair, [[1, 5]], **options)
folder = jax.config.jax_compilation_cache_dir
print(json.dumps([folder, result.tokens]))
"""


def ask(home, **told):
  """Generates twice in a process of its own: the folder, and the tokens."""
  # The tests' own cache is not a user's.
  dropped = "JAX_COMPILATION_CACHE_DIR"
  kept = {k: v for k, v in os.environ.items() if k != dropped}
  done = subprocess.run(
    [sys.executable, "-c", ASK],
    env=kept | {"XDG_CACHE_HOME": str(home)} | told,
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=300,
    check=True,
  )
  return json.loads(done.stdout)


def test_the_second_process_finds_what_the_first_compiled(tmp_path):
  folder, tokens = ask(tmp_path)
  assert pathlib.Path(folder).parent == tmp_path / "tv_jax"
  before = {*pathlib.Path(folder).glob("*-cache")}
  assert any("advance" in path.name for path in before)
  assert ask(tmp_path) == [folder, tokens]
  assert {*pathlib.Path(folder).glob("*-cache")} == before


@pytest.mark.parametrize("folder", ["", "mine"])
def test_what_jax_was_told_stands(tmp_path, folder):
  folder = folder and str(tmp_path / folder)
  assert ask(tmp_path / "home", JAX_COMPILATION_CACHE_DIR=folder)[0] == folder
  assert not (tmp_path / "home").exists()


def test_a_long_compilation_is_said_once(untold, capsys, monkeypatch):
  monkeypatch.setattr(programs, "_PATIENCE", -1)

  def compile_(until):
    with programs._around.get()():
      until()

  def said():
    found = ""
    while not found:
      time.sleep(0.01)
      found = capsys.readouterr().err
    assert found == "tv_jax compiles\n"

  with programs.announced(wanted=True):
    compile_(said)
    compile_(lambda: time.sleep(0.3))
  with programs.announced(wanted=False):
    compile_(lambda: time.sleep(0.3))
  assert not capsys.readouterr().err


@pytest.fixture
def untold():
  """As jax is before it is told where to keep programs."""
  names = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
  )
  before = {name: getattr(jax.config, name) for name in names}
  jax.config.update(names[0], None)
  yield
  for name, value in before.items():
    jax.config.update(name, value)


def test_a_home_that_cannot_be_written_to_is_no_fault(
  untold, tmp_path, monkeypatch
):
  (tmp_path / "file").write_text("")
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
  programs.keep()
  assert jax.config.jax_compilation_cache_dir is None


CUDA, ROCM = "PJRT C API\ncuda 13000", "PJRT C API\nrocm 70000"
OFF = {"TV_JAX_CUDA_GRAPHS": "0"}
OWN = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}


@pytest.mark.parametrize(
  ("backend", "version", "environment", "loops", "captured"),
  [
    ("gpu", CUDA, {}, True, True),
    ("gpu", CUDA, {}, False, False),
    ("gpu", CUDA, OFF, True, False),
    ("gpu", CUDA, OWN, True, False),
    ("gpu", ROCM, {}, True, False),
    ("cpu", "cpu", {}, True, False),
  ],
)
def test_loops_are_cuda_graphs_where_there_is_cuda(
  monkeypatch, backend, version, environment, loops, captured
):
  client = types.SimpleNamespace(platform_version=version)
  device = types.SimpleNamespace(client=client)
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  monkeypatch.setattr(jax, "devices", lambda: [device])
  monkeypatch.delenv("TV_JAX_CUDA_GRAPHS", raising=False)
  for name, value in environment.items():
    monkeypatch.setenv(name, value)
  found = programs._flags(hurried=False, loops=loops)
  assert found == (programs.CAPTURE if captured else None)
