"""Every test runs strict: no silent promotion, warnings are errors.

Most tests compile with few optimisations (tests/lib/quick.py). A module is
marked `optimised` if it tests machine code, or if it runs for longer than it
compiles.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

import tv_jax
from tests.lib import needs, quick, stores
from tv_jax.engine import programs
from tv_jax.io import reading

os.environ["XLA_FLAGS"] = " ".join(
  [os.environ.get("XLA_FLAGS", ""), quick.flags(devices=2)]
)

# No cache unless the environment names one: `generate` would use the home.
jax.config.update(
  "jax_compilation_cache_dir", jax.config.jax_compilation_cache_dir or ""
)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser):
  parser.addoption(
    "--need",
    default="",
    metavar="MARKS",
    help="fail the tests of these marks where they would be skipped",
  )


# The slowest test files, slowest first; tests/test_layers.py: all are there.
LONGEST = (
  "launch/test_engines",
  "test_pages",
  "certify/engine/test_audit",
  "engine/test_gpu_program",
  "engine/test_generate",
  "distill/test_distill",
  "certify/test_certificate",
  "verifiers/test_verifiers",
  "engine/test_sharding",
  "drafting/test_in_one_pass",
  "engine/test_stops",
  "models/test_drafts",
  "runs/test_running",
  "test_main",
  "test_chat",
  "tune/test_tune",
  "engine/test_decode",
  "engine/test_streaming",
  "examples/test_faults",
  "proposals/test_proposals",
)


def pytest_collection_modifyitems(items):
  """Starts the slowest files first, so that all processes end together."""

  def place(item):
    name = item.nodeid.partition("::")[0]
    name = name.removeprefix("tests/").removesuffix(".py")
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)

  items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
  marks = {mark.name for mark in item.iter_markers()}
  needs.check(marks, item.config.getoption("need").split(","))
  quick.choose(marks.isdisjoint({"optimised", "gpu_program"}))


@pytest.fixture(autouse=True, scope="module")
def _own_programs(request):
  """Frees programs after each module: thousands of them crash a process."""
  optimised = request.node.get_closest_marker("optimised") is not None
  if optimised:
    programs.forget_programs()
  yield
  jax.clear_caches()
  if optimised:
    programs.forget_programs()


@pytest.fixture(scope="session")
def bundled():
  """The bundled pair."""
  return tv_jax.load(reading.BUNDLED / "target", reading.BUNDLED / "draft")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
  """A flag: the processes of a module share a compilation cache."""
  return f"--compilation_cache={tmp_path_factory.mktemp('programs')}"


@pytest.fixture
def folder(tmp_path):
  """The path of a run that does not exist yet."""
  return tmp_path / "runs" / "main" / "unit"


@pytest.fixture
def filled(folder):
  """A run's folder with three items."""
  return stores.fill(folder)


@pytest.fixture
def x64():
  """Float64 for the tests that compare with exact numbers."""
  with jax.enable_x64(True):
    yield
