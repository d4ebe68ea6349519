"""What the compiler is told, and that its programs outlive a process."""

import json
import os
import pathlib
import subprocess
import sys
import types

import jax
import pytest

from tests.stores import ROOT
from tv_jax.engine import programs

ASK = """
import json, sys, jax, tv_jax
{before}
pair = tv_jax.load("bundled/draft", "bundled/target")
options = {{"tree": "chain:2", "max_new_tokens": 4, "progress": {progress}}}
for _ in range(2):
  result = tv_jax.generate(pair, [[1, 5]], **options)
folder = jax.config.jax_compilation_cache_dir
print(json.dumps([folder, result.tokens]))
"""


def ask(home, before="", progress=True, **told):
  """Generates twice in a process of its own: the folder, what it said."""
  # The tests' own cache is not a user's.
  dropped = "JAX_COMPILATION_CACHE_DIR"
  kept = {k: v for k, v in os.environ.items() if k != dropped}
  done = subprocess.run(
    [sys.executable, "-c", ASK.format(before=before, progress=progress)],
    env=kept | {"XDG_CACHE_HOME": str(home)} | told,
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=300,
    check=True,
  )
  folder, tokens = json.loads(done.stdout)
  said = [one for one in done.stderr.splitlines() if "compiles" in one]
  return folder, tokens, said


def test_the_second_process_finds_what_the_first_compiled(tmp_path):
  folder, tokens, said = ask(tmp_path)
  assert pathlib.Path(folder).parent == tmp_path / "tv_jax"
  assert said == [f"tv_jax compiles, and keeps the program in {folder}"]
  before = {*pathlib.Path(folder).glob("*-cache")}
  assert any("advance" in path.name for path in before)
  assert ask(tmp_path) == (folder, tokens, [])
  assert {*pathlib.Path(folder).glob("*-cache")} == before


@pytest.mark.parametrize(
  ("before", "told", "folder"),
  [
    ("", {"JAX_COMPILATION_CACHE_DIR": ""}, ""),
    ("", {"JAX_COMPILATION_CACHE_DIR": "mine"}, "mine"),
  ],
)
def test_what_jax_was_told_stands_and_quiet_is_quiet(
  tmp_path, before, told, folder
):
  if folder:
    folder = str(tmp_path / folder)
    told = dict.fromkeys(told, folder)
  found, _, said = ask(tmp_path / "home", before, progress=not folder, **told)
  assert found == folder
  assert not (tmp_path / "home").exists()
  assert said == ([] if folder else ["tv_jax compiles"])


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
