"""What an installed wheel can do, in a folder that holds nothing else."""

import os
import subprocess
import sys
import zipfile

import pytest

from tests.stores import ROOT
from tv_jax.edge import config_flag

BUNDLED = sorted(path.stem for path in config_flag.folder().glob("*.py"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
  """A wheel, unpacked: what else it needs is in this environment."""
  made, place = (tmp_path_factory.mktemp(name) for name in ("made", "place"))
  subprocess.run(
    [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made],
    cwd=ROOT,
    check=True,
    capture_output=True,
  )
  (wheel,) = made.iterdir()
  zipfile.ZipFile(wheel).extractall(place)
  return place


def run(installed, cwd, *command):
  told = {"PYTHONPATH": str(installed), "JAX_PLATFORMS": "cpu"}
  return subprocess.run(
    [sys.executable, *map(str, command)],
    cwd=cwd,
    env={k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | told,
    capture_output=True,
    text=True,
  )


NAMES = """
import sys
import tv_jax
from absl import flags
from ml_collections import config_flags
from tv_jax.edge import config_flag
print(tv_jax.__file__)
config_flags.DEFINE_config_file("config", None, "")
for name in sys.argv[1:]:
  flags.FLAGS.unparse_flags()
  sys.argv[1:] = [f"--config={name}"]
  try:
    config_flag.parse(sys.argv)
    print(name, flags.FLAGS.config.get("experiment"))
  except flags.Error as error:
    print(error)
"""


@pytest.fixture(scope="module")
def named(installed, tmp_path_factory):
  """What names of configs are taken for: in a user's folder with its own."""
  folder = tmp_path_factory.mktemp("folder")
  own = folder / "configs"
  own.mkdir()
  # One's own common.py, which no bundled file must come upon.
  (own / "common.py").write_text("NAME = 'ours'\n")
  (own / "__init__.py").write_text("")
  (own / "mine.py").write_text("""
import ml_collections
from configs import common

def get_config():
  return ml_collections.ConfigDict({"experiment": common.NAME})
""")
  (other := folder / "other").mkdir()
  (other / "mine.py").write_text("""
from configs import quickstart

def get_config():
  config = quickstart.get_config()
  config.experiment = "other"
  return config
""")
  body = "def get_config():\n  raise ValueError('one of mine')\n"
  (own / "python_bundled.py").write_text(body)
  (folder / "smoke").mkdir()
  done = run(
    installed,
    folder,
    "-c",
    NAMES,
    "configs/smoke.py",
    "smoke",
    "llama3_1b_8b:smoke",
    "other/mine.py",
    "configs/mine.py",
    "configs/python_bundled.py",
    "other/smoke.py",
    *BUNDLED,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout.splitlines()


def test_configs_are_found_from_anywhere_and_ones_own_come_first(
  named, installed
):
  assert named[0] == str(installed / "tv_jax" / "__init__.py")
  assert named[1:7] == [
    "configs/smoke.py smoke",
    "smoke smoke",
    "llama3_1b_8b:smoke llama3_1b_8b_smoke",
    "other/mine.py other",
    "configs/mine.py ours",
    "configs/python_bundled.py, line 2: one of mine",
  ]
  # What is elsewhere is not taken for bundled.
  assert named[7].startswith("other/smoke.py cannot be read (No such file")
  assert "quickstart quickstart" in named
  assert len(named) == 8 + len(BUNDLED)


def test_a_run_needs_nothing_but_the_wheel(installed, tmp_path):
  """Models, questions and the page's parts; what decodes is tried elsewhere."""
  done = run(
    installed,
    tmp_path,
    "-m",
    "tv_jax.main",
    "--compilation_cache=",
    "--config.tasks=qa",
    "--config.max_tokens=1",
  )
  assert done.returncode == 1
  assert "leaves no room for an answer in 1" in done.stdout
  assert (tmp_path / "runs" / "quickstart" / "report.html").exists()
