"""Options of the compiler, and programs that outlive a process."""

import json
import os
import pathlib
import subprocess
import sys
import types

import jax
import pytest

import tv_jax
from tests.lib import checkpoints
from tests.lib.stores import ROOT
from tv_jax import engine
from tv_jax.engine import programs
from tv_jax.engine.config import Options, decode_config

ASK = """
import json, sys, jax, tv_jax
pair = tv_jax.load("bundled/target", "bundled/draft")
tv_jax.engine.keep_programs()
result = tv_jax.generate(pair, [[1, 5]], verifier="plain", max_new_tokens=4)
folder = jax.config.jax_compilation_cache_dir
print(json.dumps([folder, result.tokens]))
"""


def ask(home):
  """Generates in a new process; returns the folder and the tokens."""
  # The tests' own cache is not a user's.
  dropped = "JAX_COMPILATION_CACHE_DIR"
  kept = {k: v for k, v in os.environ.items() if k != dropped}
  done = subprocess.run(
    [sys.executable, "-c", ASK],
    env=kept | {"XDG_CACHE_HOME": str(home)},
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=300,
    check=True,
  )
  return json.loads(done.stdout)


@pytest.mark.long
def test_the_second_process_finds_what_the_first_compiled(tmp_path):
  folder, tokens = ask(tmp_path)
  assert pathlib.Path(folder).parent == tmp_path / "tv_jax"
  before = {*pathlib.Path(folder).glob("*-cache")}
  assert any("advance" in path.name for path in before)
  assert ask(tmp_path) == [folder, tokens]
  assert {*pathlib.Path(folder).glob("*-cache")} == before


def settings():
  """Returns the settings of jax that `keep_programs` may change."""
  names = "compilation_cache_dir", "persistent_cache_min_compile_time_secs"
  return {f"jax_{x}": getattr(jax.config, f"jax_{x}") for x in names}


@pytest.mark.parametrize("told", [None, ""])
def test_a_home_may_be_no_folder_and_what_jax_was_told_stands(
  told, tmp_path, monkeypatch
):
  before = settings()
  home = tmp_path / "home"
  if told is None:
    home.write_text("")
  monkeypatch.setenv("XDG_CACHE_HOME", str(home))
  try:
    jax.config.update("jax_compilation_cache_dir", told)
    programs.keep_programs()
    assert jax.config.jax_compilation_cache_dir == told
    assert not home.is_dir()
  finally:
    for name, value in before.items():
      jax.config.update(name, value)


def test_a_library_call_leaves_the_configuration_of_jax_alone():
  before = settings()
  ours = jax.jit(lambda x: x + 1)
  ours(1)
  pair = checkpoints.pair("none")
  tv_jax.generate(pair, [[1, 5]], verifier="plain", max_new_tokens=1)
  engine.forget_programs()
  assert settings() == before
  assert ours._cache_size() == 1


def test_what_is_compiled_is_told_and_a_large_tree_is_warned_of(caplog):
  pair = checkpoints.pair()
  caplog.set_level("INFO", logger="tv_jax")
  for tree, level in (("chain:3", "INFO"), ("chain:14", "WARNING")):
    config = decode_config(pair, Options(tree=tree))
    programs._announce("advance", config.static)
    told = caplog.records[-1]
    assert told.levelname == level
    wanted = f"compiling advance for traversal on {config.static.tree!r}"
    assert told.getMessage().startswith(wanted)
    assert ("minutes" in told.getMessage()) == (level == "WARNING")


CUDA, ROCM = "PJRT C API\ncuda 13000", "PJRT C API\nrocm 70000"
OWN = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}


@pytest.mark.parametrize(
  ("version", "environment", "captured"),
  [
    (CUDA, {}, True),
    (CUDA, OWN, False),
    (ROCM, {}, False),
    ("cpu", {}, False),
  ],
)
def test_loops_are_cuda_graphs_where_there_is_cuda(
  monkeypatch, version, environment, captured
):
  client = types.SimpleNamespace(platform_version=version)
  device = types.SimpleNamespace(client=client)
  monkeypatch.setattr(jax, "devices", lambda: [device])
  for name, value in environment.items():
    monkeypatch.setenv(name, value)
  assert programs._graphs() == (programs.CAPTURE if captured else None)
