"""What an installed wheel can do, in a folder that holds nothing else."""

import os
import subprocess
import sys
import zipfile

import pytest

from tests.stores import ROOT
from tv_jax.edge import config_flag

BUNDLED = sorted(
  {path.stem for path in config_flag.FOLDER.glob("*.py")} - {"common"}
)


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
from tv_jax.edge import config_flag
print(tv_jax.__file__)
for name, config in config_flag.several(["x"], sys.argv[1:]).items():
  print(name, config.experiment)
"""


def test_configs_are_found_from_anywhere(installed, tmp_path):
  body = "from configs.smoke import get_config\n"
  (tmp_path / "mine.py").write_text(body)
  named = "configs/smoke.py", "llama3_1b_8b:smoke", "mine.py", *BUNDLED
  done = run(installed, tmp_path, "-c", NAMES, *named)
  assert done.returncode == 0, done.stderr
  package, *lines = done.stdout.splitlines()
  assert package == str(installed / "tv_jax" / "__init__.py")
  assert lines[:3] == [
    "configs/smoke.py smoke",
    "llama3_1b_8b:smoke llama3_1b_8b_smoke",
    "mine.py smoke",
  ]
  assert "quickstart quickstart" in lines
  assert len(lines) == len(named)


@pytest.mark.long
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
